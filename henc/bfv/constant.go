package bfv

import (
	"fmt"
	"math/big"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// ConstantElements returns the Galois elements whose keys ConstantTerms needs: 2^l + 1 for l from 1 to log2(N).
func ConstantElements(p Parameters) []uint64 {
	var out []uint64
	for g := 2; g <= p.N(); g *= 2 {
		out = append(out, uint64(g+1))
	}
	return out
}

// ConstantTerms returns, for each ciphertext, its constant coefficient times k modulo t, as a constant polynomial: the
// same number in every slot. It is the extraction of constant terms (CTX) of cuXCMP with the factor 1/N that the paper
// leaves out: log2(N) automorphisms, each added, multiply the constant coefficient by N and remove all others. It needs
// the keys of ConstantElements. A GPU works on all ciphertexts together. It fails as a whole, with henc.ErrNoKey
// without a key.
func (ev *Evaluator) ConstantTerms(cts []*Ciphertext, k uint64) ([]*Ciphertext, error) {
	x, err := ev.extraction(cts, k)
	if err != nil || len(cts) == 0 {
		return nil, err
	}
	out := make([]*Ciphertext, 0, len(cts))
	for lo := 0; lo < len(cts); lo += ev.ctx.together(len(cts)) {
		hi := min(lo+ev.ctx.together(len(cts)), len(cts))
		be, all, err := x.run(ev.base, values(cts[lo:hi]))
		if err == nil {
			out, err = x.each(out, all)
			be.Free(all)
		}
		if err != nil {
			ev.ctx.Free(out...)
			return nil, fmt.Errorf("%s: %w", x.op, err)
		}
	}
	return out, nil
}

// extraction is a checked call of ConstantTerms.
type extraction struct {
	op       string
	ctx      *Context
	factor   []uint32 // k/N modulo t, centred, modulo each prime of Q
	elements []uint64
	noise    []Noise // of the results
}

func (ev *Evaluator) extraction(cts []*Ciphertext, k uint64) (*extraction, error) {
	x := &extraction{op: "constant terms"}
	if err := ev.valid(x.op, cts...); err != nil {
		return nil, err
	}
	x.ctx = ev.ctx
	p := ev.ctx.params
	t := uint64(p.T())
	f, half := new(big.Int).SetUint64(k%t), new(big.Int).SetUint64((t+1)/2)
	mod := new(big.Int).SetUint64(t)
	for range p.Base().LogN() {
		f.Mod(f.Mul(f, half), mod)
	}
	centred := int64(f.Uint64())
	if f.Uint64() > t/2 {
		centred -= int64(t) // the smaller magnitude makes less noise
	}
	x.factor = residues(big.NewInt(centred), p.base.Moduli()[:len(ev.ctx.limbs.q)])
	x.elements = ConstantElements(p)
	for _, ct := range cts {
		n := ev.noise().MulConst(ct.Noise, centred)
		for range x.elements {
			n = ev.noise().Add(ev.noise().Switch(n), n)
		}
		if err := ev.fits(x.op, n); err != nil {
			return nil, err
		}
		x.noise = append(x.noise, n)
	}
	return x, nil
}

// run works on ciphertexts together. base is the evaluator, or one that records. The results are one allocation, which
// be frees.
func (x *extraction) run(base *henc.Evaluator, cts []*cutrantt.Batch) (
	be *henc.BatchEvaluator, out *henc.Ciphertexts, err error,
) {
	evs := make([]*henc.Evaluator, len(cts))
	for i := range evs {
		evs[i] = base
	}
	if be, err = henc.NewBatchEvaluator(evs); err != nil {
		return nil, nil, err
	}
	r := base.Context().Ring()
	c := chain.New(r)
	all := c.Result(2*len(cts), x.ctx.limbs.q, x.ctx.base.Domain())
	c.Do(func() error { return cutrantt.Collect(r, all, cts) })
	c.Do(func() error { return r.MulScalar(all, all, x.factor) })
	items := make([]*henc.Ciphertext, len(cts))
	for i := range items {
		items[i] = &henc.Ciphertext{Value: c.View(all, 2*i, 2*i+2, 0, len(x.ctx.limbs.q)), Level: x.ctx.params.level(),
			Scale: x.ctx.Scale()}
	}
	c.Do(func() error {
		in, err := be.Of(items, x.ctx.params.level())
		if err == nil {
			out, err = be.SumAutomorphisms(in, x.elements)
		}
		return err
	})
	if err := c.Close(); err != nil {
		return nil, nil, err
	}
	return be, out, nil
}

// each appends copies of results of run, each with memory of its own. On an error those that it made are freed.
func (x *extraction) each(to []*Ciphertext, all *henc.Ciphertexts) ([]*Ciphertext, error) {
	c := chain.New(x.ctx.ring())
	copies := make([]*cutrantt.Batch, all.Len())
	for i := range copies {
		copies[i] = c.Result(2, x.ctx.limbs.q, x.ctx.base.Domain())
		c.Do(func() error { return x.ctx.ring().Copy(copies[i], all.At(i).Value) })
	}
	for _, b := range copies {
		_, _ = c.Keep(b)
	}
	if err := c.Close(); err != nil {
		return to, err
	}
	for _, b := range copies {
		to = append(to, &Ciphertext{Value: b, Noise: x.noise[len(to)]})
	}
	return to, nil
}

// RecordedTerms is ConstantTerms for a number of ciphertexts, recorded: a device repeats it as one call
// (cutrantt.Recorder), which is faster for few ciphertexts. It is safe for concurrent use; runs take turns.
type RecordedTerms struct {
	ev *Evaluator
	k  uint64

	mu        sync.Mutex
	in        []*Ciphertext // what the recording reads
	out       *henc.Ciphertexts
	recording cutrantt.Recording
}

// RecordConstantTerms records ConstantTerms of count ciphertexts with the factor k. It fails with an error that wraps
// cutrantt.ErrNotSupported where the device records nothing, and with henc.ErrParams for a count outside of 1 to 32.
func (ev *Evaluator) RecordConstantTerms(count int, k uint64) (*RecordedTerms, error) {
	const op = "record constant terms"
	if count < 1 || count > 32 {
		return nil, fmt.Errorf("%s: %w: %d ciphertexts, want 1 to 32", op, henc.ErrParams, count)
	}
	if err := ev.valid(op); err != nil {
		return nil, err
	}
	r := &RecordedTerms{ev: ev, k: k}
	for range count {
		b, err := ev.ctx.ring().NewBatch(2, ev.ctx.limbs.q, ev.ctx.base.Domain())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		r.in = append(r.in, &Ciphertext{Value: b})
	}
	x, err := ev.extraction(r.in, k)
	if err != nil {
		return nil, err
	}
	be, first, err := x.run(ev.base, values(r.in)) // prepares the keys, which a recording cannot
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	be.Free(first)
	r.recording, err = ev.base.Record(func(on *henc.Evaluator) (err error) {
		be.Free(r.out)
		be, r.out, err = x.run(on, values(r.in))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return r, nil
}

// Run is ConstantTerms of as many ciphertexts as were recorded; henc.ErrParams for another number of them.
func (r *RecordedTerms) Run(cts []*Ciphertext) ([]*Ciphertext, error) {
	if r == nil || r.recording == nil || len(cts) != len(r.in) {
		return nil, fmt.Errorf("constant terms: %w: %d ciphertexts are not what was recorded", henc.ErrParams, len(cts))
	}
	x, err := r.ev.extraction(cts, r.k)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := chain.New(r.ev.ctx.ring())
	for i, ct := range cts {
		c.Op2(r.ev.ctx.ring().Copy, r.in[i].Value, ct.Value)
	}
	c.Do(r.recording.Replay)
	var out []*Ciphertext
	c.Do(func() (err error) { out, err = x.each(nil, r.out); return err })
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", x.op, err)
	}
	return out, nil
}
