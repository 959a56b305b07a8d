package benchmark

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
)

// onDevice reports whether results are compared with the CPU backend's, bit for
// bit, besides the checks that every backend gets.
func (b *bed) onDevice() bool { return b.o.Backend.Name() != cpu.New().Name() }

// cpu makes the CPU's side, or gives the keys that were made since to it.
func (b *bed) cpu() (*oracle, error) {
	if b.oracle == nil {
		o := &oracle{}
		var err error
		if b.ctx == nil {
			o.ring, err = cpu.New().NewRing(b.ring.LogN(), b.ring.Moduli(), cutrantt.Options{Workers: b.o.Workers})
		} else if o.ctx, err = henc.NewContext(b.params, henc.WithN2(b.ctx.N2()),
			henc.WithWorkers(b.o.Workers)); err == nil {
			o.ring = o.ctx.Ring()
		}
		if err != nil {
			return nil, err
		}
		b.oracle = o
	}
	if o := b.oracle; o.ctx != nil && (o.eval == nil || o.keys != b.keys) {
		keys, err := b.keysOnCPU()
		if err != nil {
			return nil, err
		}
		o.eval, o.keys = henc.NewEvaluator(o.ctx, keys), b.keys
	}
	return b.oracle, nil
}

// keysOnCPU copies the evaluation keys.
func (b *bed) keysOnCPU() (*henc.EvaluationKeys, error) {
	if b.keys == nil {
		return nil, nil
	}
	own := func(k *henc.SwitchingKey) (*henc.SwitchingKey, error) {
		if k == nil {
			return nil, nil
		}
		v, err := b.moved(b.ring, k.Value)
		return &henc.SwitchingKey{Value: v}, err
	}
	out := &henc.EvaluationKeys{Galois: map[uint64]*henc.SwitchingKey{}, KeyID: b.keys.KeyID, Epoch: b.keys.Epoch}
	var err error
	if out.Relin, err = own(b.keys.Relin); err != nil {
		return nil, err
	}
	for g, k := range b.keys.Galois {
		if out.Galois[g], err = own(k); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// moved copies a batch of ring to the CPU.
func (b *bed) moved(ring cutrantt.Ring, x *cutrantt.Batch) (*cutrantt.Batch, error) {
	host, err := residues(ring, x)
	if err != nil {
		return nil, err
	}
	y, err := b.oracle.ring.NewBatch(x.Polys(), x.Limbs(), x.Domain())
	if err != nil {
		return nil, err
	}
	return y, b.oracle.ring.Upload(y, host)
}

// equal compares a batch of ring with one of the CPU.
func (b *bed) equal(op string, ring cutrantt.Ring, got, want *cutrantt.Batch) error {
	g, err := residues(ring, got)
	if err != nil {
		return err
	}
	w, err := residues(b.oracle.ring, want)
	if err != nil {
		return err
	}
	if got.Domain() != want.Domain() || len(g) != len(w) {
		return errWrong(op, "the shape", fmt.Sprintf("%d residues in %v", len(g), got.Domain()),
			fmt.Sprintf("%d in %v", len(w), want.Domain()))
	}
	for i := range g {
		if g[i] != w[i] {
			return errWrong(op, fmt.Sprintf("residue %d", i), g[i], w[i])
		}
	}
	return nil
}

// sameOnCPU compares got, which f gave on ring, with what f gives on the CPU for
// the same sources.
func (b *bed) sameOnCPU(op string, ring cutrantt.Ring, got *cutrantt.Batch,
	f func(r cutrantt.Ring, dst *cutrantt.Batch, src ...*cutrantt.Batch) error, src ...*cutrantt.Batch) error {
	o, err := b.cpu()
	if err != nil {
		return err
	}
	own := make([]*cutrantt.Batch, len(src))
	for i := range src {
		if own[i], err = b.moved(ring, src[i]); err != nil {
			return err
		}
	}
	want, err := o.ring.NewBatch(got.Polys(), got.Limbs(), got.Domain())
	if err != nil {
		return err
	}
	if err := f(o.ring, want, own...); err != nil {
		return err
	}
	return b.equal(op, ring, got, want)
}

// sameCiphertext compares got, which f gave, with what f gives on the CPU.
func (b *bed) sameCiphertext(op string, got *henc.Ciphertext, f operation, x, y *henc.Ciphertext) error {
	o, err := b.cpu()
	if err != nil {
		return err
	}
	var own [2]*henc.Ciphertext
	for i, ct := range []*henc.Ciphertext{x, y} {
		if own[i], err = b.ciphertextOnCPU(ct); err != nil {
			return err
		}
	}
	want, err := f(o.eval, own[0], own[1])
	if err != nil {
		return err
	}
	if got.Level != want.Level || got.Scale != want.Scale || !slices.Equal(got.Value.Limbs(), want.Value.Limbs()) {
		return errWrong(op, "level and scale", fmt.Sprint(got.Level, got.Scale), fmt.Sprint(want.Level, want.Scale))
	}
	return b.equal(op, b.ring, got.Value, want.Value)
}

func (b *bed) ciphertextOnCPU(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
	v, err := b.moved(b.ring, ct.Value)
	return &henc.Ciphertext{Value: v, Level: ct.Level, Scale: ct.Scale}, err
}

func (b *bed) plaintextOnCPU(pt *henc.Plaintext) (*henc.Plaintext, error) {
	v, err := b.moved(b.ring, pt.Value)
	return &henc.Plaintext{Value: v, Level: pt.Level, Scale: pt.Scale}, err
}

// free gives the result of an earlier call back, so that a run of calls takes no
// new memory.
func (b *bed) free(ct *henc.Ciphertext) {
	if ct != nil {
		b.ring.Free(ct.Value)
	}
}
