package bootstrap

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Bootstrapper raises ciphertexts to Plan.Level. It holds the encoded matrices, one polynomial for
// each diagonal (284 in boot15, 316 in boot16), and the prepared keys. It is immutable and safe
// for concurrent use.
type Bootstrapper struct {
	ctx      *henc.Context
	plan     *Plan
	ev       *henc.Evaluator
	pair     *henc.BatchEvaluator // both halves of the coefficients
	toSparse cutrantt.Operand
	toDense  cutrantt.Operand
	*tables
	shared bool // the matrices belong to another bootstrapper
}

// tables are what bootstrappers of one plan share.
type tables struct {
	encode, decode []*henc.LinearTransform
	plusI, minusI  *henc.Plaintext // X^(N/2) and -X^(N/2)
}

// New encodes the matrices of the plan. keys must be of ctx, with those of the sparse secret. It fails with
// henc.ErrParams or henc.ErrNoKey where plan or keys do not fit.
func New(ctx *henc.Context, plan *Plan, keys *henc.EvaluationKeys) (*Bootstrapper, error) {
	if ctx.Ring() == nil || !plan.ready() || !ctx.Parameters().Equal(plan.params) {
		return nil, fmt.Errorf("bootstrapping: %w: no context, no plan, or one for other parameters", henc.ErrParams)
	}
	b := &Bootstrapper{ctx: ctx, plan: plan, tables: &tables{}}
	err := b.take(keys)
	if err == nil {
		err = b.prepare()
	}
	if err != nil {
		b.Free()
		return nil, fmt.Errorf("bootstrapping: %w", err)
	}
	return b, nil
}

// With returns a bootstrapper for other keys of the same context. It shares the matrices of b, which must not
// be freed before. It fails like New.
func (b *Bootstrapper) With(keys *henc.EvaluationKeys) (*Bootstrapper, error) {
	if b == nil || b.toDense == nil {
		return nil, fmt.Errorf("bootstrapping: %w: no bootstrapper", henc.ErrParams)
	}
	o := &Bootstrapper{ctx: b.ctx, plan: b.plan, tables: b.tables, shared: true}
	if err := o.take(keys); err != nil {
		o.Free()
		return nil, fmt.Errorf("bootstrapping: %w", err)
	}
	return o, nil
}

// take prepares the keys.
func (b *Bootstrapper) take(keys *henc.EvaluationKeys) (err error) {
	if keys == nil {
		return fmt.Errorf("%w: no evaluation keys", henc.ErrNoKey)
	}
	if err := keys.Sparse.Check(b.ctx); err != nil {
		return err
	}
	b.ev = henc.NewEvaluator(b.ctx, keys)
	if b.pair, err = henc.NewBatchEvaluator([]*henc.Evaluator{b.ev, b.ev}); err != nil {
		return err
	}
	r := b.ctx.Ring()
	if b.toSparse, err = r.Precompute(keys.Sparse.To.Value); err != nil {
		return err
	}
	b.toDense, err = r.Precompute(keys.Sparse.From.Value)
	return err
}

// prepare encodes the matrices.
func (b *Bootstrapper) prepare() (err error) {
	for _, t := range []struct {
		to     *[]*henc.LinearTransform
		stages []stage
	}{{&b.encode, b.plan.encode}, {&b.decode, b.plan.decode}} {
		for _, s := range t.stages {
			lt, err := henc.NewLinearTransform(b.ctx, s.matrix().diagonals, s.level, s.scale)
			if err != nil {
				return err
			}
			*t.to = append(*t.to, lt)
		}
	}
	p := b.plan.params
	monomial := func(level int, v float64) (*henc.Plaintext, error) {
		c := make([]float64, p.Slots()+1)
		c[p.Slots()] = v
		return b.ctx.Encoder().FromCoeffs(c, level, 1)
	}
	if b.minusI, err = monomial(b.sineLevel(), -1); err != nil {
		return err
	}
	b.plusI, err = monomial(b.plan.Level(), 1)
	return err
}

// sineLevel is the level of the operand of the sine.
func (b *Bootstrapper) sineLevel() int { return b.plan.params.MaxLevel() - b.plan.lit.ToSlots }

// Free gives the memory of the matrices, unless With made b, and of the prepared keys back.
func (b *Bootstrapper) Free() {
	if b == nil {
		return
	}
	if !b.shared && b.tables != nil {
		b.tables.free()
	}
	for _, o := range []cutrantt.Operand{b.toSparse, b.toDense} {
		if o != nil {
			o.Release()
		}
	}
	b.toSparse, b.toDense = nil, nil
}

func (m *tables) free() {
	for _, lt := range slices.Concat(m.encode, m.decode) {
		lt.Free()
	}
	m.encode, m.decode = nil, nil
}

// Plan is the bootstrapper's plan.
func (b *Bootstrapper) Plan() *Plan {
	if b == nil {
		return nil
	}
	return b.plan
}

// Together is how many ciphertexts BootstrapAll takes through each step at once.
const Together = 4

// Bootstrap returns the message of ct at Plan.Level and the scale Plan.ScaleOf. ct is at Plan.LowestLevel or
// above; what is above is not used. Its slots
// must repeat after Plan.Slots, and the parts of its values lie in [-1, 1]; the package's description has
// the precision. It fails with henc.ErrLevel below that level, with henc.ErrScale where the scale is outside
// 1..Plan.MaxScale, and with henc.ErrNoKey where the evaluation keys lack one of the plan's least.
func (b *Bootstrapper) Bootstrap(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
	const op = "bootstrap"
	if err := b.ready(op); err != nil {
		return nil, err
	}
	scale, err := b.scaleOf(op, ct)
	if err != nil {
		return nil, err
	}
	out, err := b.run([]*henc.Ciphertext{ct})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out.At(0).WithScale(scale), nil
}

// BootstrapAll is Bootstrap for each of cts, bit for bit; their scales and levels may differ. Up to Together of them
// go through each step at once, so that a GPU reads the keys and the diagonals once for them and
// fills its launches. Each result has memory of its own. Besides the results it takes
// Together times what Bootstrap takes (docs/cryptography.md), whatever the number of ciphertexts; where a device has
// less, it takes one after another. It fails like
// Bootstrap, with an error that names the ciphertext where one is to blame; then there are no results. Without
// ciphertexts there is nothing to do.
func (b *Bootstrapper) BootstrapAll(cts []*henc.Ciphertext) ([]*henc.Ciphertext, error) {
	const op = "bootstrap"
	if err := b.ready(op); err != nil {
		return nil, err
	}
	scales := make([]float64, len(cts))
	for i, ct := range cts {
		var err error
		if scales[i], err = b.scaleOf(fmt.Sprintf("%s: ciphertext %d", op, i), ct); err != nil {
			return nil, err
		}
	}
	out := make([]*henc.Ciphertext, len(cts))
	for group := range slices.Chunk(indices(len(cts)), Together) {
		if err := b.runGroup(cts, group, out); err != nil {
			for _, ct := range out {
				b.free(ct)
			}
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	for i, ct := range out {
		out[i] = ct.WithScale(scales[i])
	}
	return out, nil
}

func (b *Bootstrapper) ready(op string) error {
	if b == nil || b.toDense == nil {
		return fmt.Errorf("%s: %w: no bootstrapper", op, henc.ErrParams)
	}
	return nil
}

// scaleOf is the scale of ct's result.
func (b *Bootstrapper) scaleOf(op string, ct *henc.Ciphertext) (float64, error) {
	if err := b.ctx.CheckCiphertext(ct); err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	if least := b.plan.LowestLevel(); ct.Level < least {
		return 0, fmt.Errorf("%s: %w: the ciphertext is at level %d, it must be at %d or above", op, henc.ErrLevel,
			ct.Level, least)
	}
	scale, err := b.plan.ScaleOf(ct.Scale)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	return scale, nil
}

// indices are 0 to n-1.
func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// runGroup bootstraps a group of cts to out, each to memory of its own.
func (b *Bootstrapper) runGroup(cts []*henc.Ciphertext, group []int, out []*henc.Ciphertext) error {
	some := make([]*henc.Ciphertext, len(group))
	for k, i := range group {
		some[k] = cts[i]
	}
	fresh, err := b.run(some)
	if errors.Is(err, cutrantt.ErrMemory) && len(group) > 1 { // one takes less
		for _, i := range group {
			if err := b.runGroup(cts, []int{i}, out); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	if len(group) == 1 {
		out[group[0]] = fresh.At(0)
		return nil
	}
	defer b.freeAll(fresh)
	for k, i := range group {
		if out[i], err = b.ev.DropLevel(fresh.At(k), 0); err != nil {
			return err
		}
	}
	return nil
}

// run bootstraps ciphertexts.
func (b *Bootstrapper) run(cts []*henc.Ciphertext) (*henc.Ciphertexts, error) {
	low, err := b.toCoefficients(cts)
	if err != nil {
		return nil, fmt.Errorf("slots to coefficients: %w", err)
	}
	halves, err := b.reduced(low)
	b.freeAll(low)
	if err != nil {
		return nil, err
	}
	defer b.freeAll(halves)
	return b.joined(halves)
}

// reduced raises ciphertexts at level 0 and returns the sines of their coefficients, in bit-reversed order: the first
// halves of all, and then the second ones.
func (b *Bootstrapper) reduced(cts *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	raised, err := b.raise(cts)
	if err != nil {
		return nil, fmt.Errorf("raise the modulus: %w", err)
	}
	halves, err := b.toSlots(raised)
	b.freeAll(raised)
	if err != nil {
		return nil, fmt.Errorf("coefficients to slots: %w", err)
	}
	defer b.freeAll(halves)
	be, err := b.batch(halves.Len())
	if err != nil {
		return nil, err
	}
	sines, err := sine(be, halves)
	if err != nil {
		return nil, fmt.Errorf("sine: %w", err)
	}
	return sines, nil
}

// batch is an evaluator of n ciphertexts.
func (b *Bootstrapper) batch(n int) (*henc.BatchEvaluator, error) {
	return henc.NewBatchEvaluator(slices.Repeat([]*henc.Evaluator{b.ev}, n))
}

// toCoefficients returns at level 0 the messages whose coefficients are the slots of cts, times the integer that
// brings each near the largest scale.
func (b *Bootstrapper) toCoefficients(cts []*henc.Ciphertext) (*henc.Ciphertexts, error) {
	p, r := b.plan.params, b.ctx.Ring()
	be, err := b.batch(len(cts))
	if err != nil {
		return nil, err
	}
	c := chain.New(r)
	defer c.Close()
	limbs := p.QLimbs(b.plan.LowestLevel())
	in := c.Result(2*len(cts), limbs, b.ctx.Domain())
	for i, ct := range cts {
		times := make([]uint32, len(limbs))
		for k, q := range p.Q()[:len(limbs)] {
			times[k] = uint32(b.plan.times(ct.Scale) % int64(q))
		}
		dst := c.View(in, 2*i, 2*i+2, 0, len(limbs))
		c.Do(func() error { return r.MulScalar(dst, c.View(ct.Value, 0, 2, 0, len(limbs)), times) })
	}
	kept, err := c.Keep(in)
	if err != nil {
		return nil, err
	}
	multiplied, err := be.Take(kept, b.plan.LowestLevel(), b.plan.largest)
	if err != nil {
		r.Free(kept)
		return nil, err
	}
	defer b.freeAll(multiplied)
	return transform(be, multiplied, b.decode, b.plan.decode)
}

// raise returns each of cts, at level 0, plus multiples of the modulus of level 0, at the top level (Bossuat,
// Troncoso-Pastoriza and Hubaux, ACNS 2022, section 4): the switch to the
// sparse secret, the lift, the switch back.
func (b *Bootstrapper) raise(cts *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	p, r, n := b.plan.params, b.ctx.Ring(), cts.Len()
	c := chain.New(r)
	defer c.Close()
	low, all := p.QLimbs(0), p.QLimbs(p.MaxLevel())
	sparse := c.Result(2*n, low, b.ctx.Domain())
	in := make([]*cutrantt.Batch, n)
	for i := range in {
		in[i] = cts.At(i).Value
	}
	b.switchAll(c, cutrantt.Gadget{Alpha: 1, Special: p.PLimbs()[:1]}, sparse, in, b.toSparse)
	coeffs := c.Result(2*n, low, cutrantt.Coeffs(b.ctx.N2()))
	lifted := c.Result(2*n, all, cutrantt.Coeffs(b.ctx.N2()))
	c.Op2(r.Inverse, coeffs, sparse)
	c.Op2(r.Extend, lifted, coeffs)
	c.Op2(r.Forward, lifted, lifted)
	c.Do(func() error { lifted.SetDomain(b.ctx.Domain()); return nil })
	out := c.Result(2*n, all, b.ctx.Domain())
	b.switchAll(c, cutrantt.Gadget{Alpha: p.Alpha(), Special: p.PLimbs()}, out, c.Each(lifted, 2), b.toDense)
	kept, err := c.Keep(out)
	if err != nil {
		return nil, err
	}
	be, err := b.batch(n)
	if err != nil {
		r.Free(kept)
		return nil, err
	}
	return be.Take(kept, p.MaxLevel(), b.plan.modulus())
}

// switchAll switches ciphertexts, two polynomials each, to another secret.
func (b *Bootstrapper) switchAll(
	c *chain.Chain, g cutrantt.Gadget, dst *cutrantt.Batch, src []*cutrantt.Batch, key cutrantt.Operand,
) {
	if c.Err() != nil {
		return
	}
	items := make([]cutrantt.KeySwitch, len(src))
	for i := range items {
		items[i] = cutrantt.KeySwitch{
			Dst: c.View(dst, 2*i, 2*i+2, 0, len(dst.Limbs())), X: c.Poly(src[i], 1), Low: c.Poly(src[i], 0), Key: key,
		}
	}
	c.Do(func() error { return cutrantt.SwitchKeys(b.ctx.Ring(), g, items) })
}

// toSlots returns the coefficients over K*(modulus of level 0), in bit-reversed order: the first halves of all
// of cts, and then the second ones.
func (b *Bootstrapper) toSlots(cts *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	be, err := b.batch(cts.Len())
	if err != nil {
		return nil, err
	}
	var owned []*henc.Ciphertexts
	defer func() {
		for _, o := range owned {
			b.freeAll(o)
		}
	}()
	keep := func(a *henc.Ciphertexts, err error) (*henc.Ciphertexts, error) {
		if err == nil {
			owned = append(owned, a)
		}
		return a, err
	}
	n := b.plan.params.Slots()
	if gap := n / b.plan.Slots(); gap > 1 {
		if cts, err = keep(be.SumSlots(cts, gap, b.plan.Slots())); err != nil {
			return nil, err
		}
	}
	z, err := keep(transform(be, cts, b.encode, b.plan.encode))
	if err != nil {
		return nil, err
	}
	z = z.WithScale(b.plan.working)
	conjugate, err := keep(be.Conjugate(z))
	if err != nil {
		return nil, err
	}
	return b.parts(z, conjugate)
}

// parts returns twice the real parts of all items, and then twice the imaginary ones, each made where it lies.
func (b *Bootstrapper) parts(z, conjugate *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	p, r, n := b.plan.params, b.ctx.Ring(), z.Len()
	limbs := p.QLimbs(z.Level())
	minus := make([]uint32, len(limbs)) // -1
	for i := range minus {
		minus[i] = p.Q()[i] - 1
	}
	first, second := make([]*cutrantt.Batch, n), make([]*cutrantt.Batch, n)
	for i := range n {
		first[i], second[i] = z.At(i).Value, conjugate.At(i).Value
	}
	c := chain.New(r)
	defer c.Close()
	all := c.Result(4*n, limbs, b.ctx.Domain())
	re, im := c.View(all, 0, 2*n, 0, len(limbs)), c.View(all, 2*n, 4*n, 0, len(limbs))
	combine := func(dst *cutrantt.Batch, by []uint32) {
		each := c.Each(dst, 2)
		terms := []cutrantt.Term{{Of: first}, {Of: second, By: by}}
		c.Do(func() error { return cutrantt.Combine(r, each, terms, nil, false) })
	}
	combine(re, nil)
	combine(im, minus)
	c.Do(func() error { return r.Mul(im, im, b.minusI.Value) })
	kept, err := c.Keep(all)
	if err != nil {
		return nil, err
	}
	be, err := b.batch(2 * n)
	if err != nil {
		r.Free(kept)
		return nil, err
	}
	return be.Take(kept, z.Level(), z.Scale())
}

// joined is the first halves plus i times the second ones.
func (b *Bootstrapper) joined(halves *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	n := halves.Len() / 2
	be, err := b.batch(n)
	if err != nil {
		return nil, err
	}
	im, err := be.MulPlain(halves.Part(n, 2*n), b.plusI)
	if err != nil {
		return nil, err
	}
	defer b.freeAll(im)
	return be.Add(halves.Part(0, n), im)
}

// transform applies the stages, with the rescalings that follow each.
func transform(
	be *henc.BatchEvaluator, cts *henc.Ciphertexts, lts []*henc.LinearTransform, stages []stage,
) (*henc.Ciphertexts, error) {
	first := cts
	step := func(next *henc.Ciphertexts, err error) error {
		if cts != first {
			be.Free(cts)
		}
		cts = next
		return err
	}
	for i, lt := range lts {
		if err := step(be.TransformRescale(cts, lt, stages[i].drop)); err != nil {
			return nil, err
		}
	}
	return cts, nil
}

func (b *Bootstrapper) free(ct *henc.Ciphertext) {
	if ct != nil {
		b.ctx.Ring().Free(ct.Value)
	}
}

func (b *Bootstrapper) freeAll(cts *henc.Ciphertexts) { b.pair.Free(cts) }
