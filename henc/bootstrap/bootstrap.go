package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"sync"

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
	spread         *henc.Plaintext // p, where the last factor of decode divides by it; else nil
	mu             sync.Mutex
	plain          *henc.LinearTransform // the last factor without, made when it is first needed
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
		for i, s := range t.stages {
			last := !s.inverse && i == len(t.stages)-1
			lt, err := s.encode(b.ctx, last && b.plan.spreads())
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
	if b.plusI, err = monomial(b.sineLevel()-sineLevels, 1); err != nil || !b.plan.spreads() {
		return err
	}
	b.spread, err = b.plan.spreadPolynomial(b.ctx)
	return err
}

// encode is the factor with its diagonals, which divides by p too if asked.
func (s stage) encode(ctx *henc.Context, unspread bool) (*henc.LinearTransform, error) {
	m := s.matrix()
	if unspread {
		m.unspread()
	}
	return henc.NewLinearTransform(ctx, m.diagonals, s.level, s.scale)
}

// decoding is the factors of SlotsToCoeffs for a message that raise spread or not.
func (b *Bootstrapper) decoding(spread bool) ([]*henc.LinearTransform, error) {
	if spread || b.spread == nil {
		return b.decode, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.decode) - 1
	if b.plain == nil {
		lt, err := b.plan.decode[last].encode(b.ctx, false)
		if err != nil {
			return nil, err
		}
		b.plain = lt
	}
	return append(slices.Clone(b.decode[:last]), b.plain), nil
}

// sineLevel is the level of the operand of the sine.
func (b *Bootstrapper) sineLevel() int { return b.plan.params.MaxLevel() - b.plan.lit.ToCoefficients }

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
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, lt := range append(slices.Concat(m.encode, m.decode), m.plain) {
		lt.Free()
	}
	m.encode, m.decode, m.plain = nil, nil, nil
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

// Bootstrap returns the message of ct at Plan.Level and the scale Plan.ScaleOf. ct may be at any level; what
// is above level 0 is not used. Its slots
// must repeat after Plan.Slots, and the parts of its values lie in [-1, 1]; the package's description has
// the precision. It fails with henc.ErrScale where the scale is outside 1..Plan.MaxScale, and
// with henc.ErrNoKey where the evaluation keys lack one of the plan's least.
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
	for _, group := range b.groups(cts) {
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
	scale, err := b.plan.ScaleOf(ct.Scale)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	return scale, nil
}

// groups are the indices of what goes together: the same factors divide by p, or do not.
func (b *Bootstrapper) groups(cts []*henc.Ciphertext) [][]int {
	var groups [][]int
	var with [2][]int
	for i, ct := range cts {
		k := 0
		if _, spread := b.plan.raiseBy(ct.Scale); spread {
			k = 1
		}
		with[k] = append(with[k], i)
	}
	for _, all := range with {
		groups = slices.AppendSeq(groups, slices.Chunk(all, Together))
	}
	return groups
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

// run bootstraps ciphertexts of which all or none are spread.
func (b *Bootstrapper) run(cts []*henc.Ciphertext) (*henc.Ciphertexts, error) {
	by := make([]multiple, len(cts))
	for i, ct := range cts {
		by[i].times, by[i].spread = b.plan.raiseBy(ct.Scale)
	}
	raised, err := b.raise(cts, by)
	if err != nil {
		return nil, fmt.Errorf("raise the modulus: %w", err)
	}
	halves, err := b.toCoefficients(raised)
	b.freeAll(raised)
	if err != nil {
		return nil, fmt.Errorf("slots to coefficients: %w", err)
	}
	be, err := b.batch(2 * len(cts))
	if err != nil {
		return nil, err
	}
	reduced, err := sine(be, halves)
	b.freeAll(halves)
	if err != nil {
		return nil, fmt.Errorf("sine: %w", err)
	}
	out, err := b.toSlots(reduced, by[0].spread)
	b.freeAll(reduced)
	if err != nil {
		return nil, fmt.Errorf("coefficients to slots: %w", err)
	}
	return out, nil
}

// batch is an evaluator of n ciphertexts.
func (b *Bootstrapper) batch(n int) (*henc.BatchEvaluator, error) {
	return henc.NewBatchEvaluator(slices.Repeat([]*henc.Evaluator{b.ev}, n))
}

// multiple is what a message is multiplied by before its modulus is raised: an integer, and p if asked.
type multiple struct {
	times  int64
	spread bool
}

// raise returns for each of cts the multiple of its message, plus multiples of the modulus of level 0,
// at the top level (Bossuat, Troncoso-Pastoriza and Hubaux, ACNS 2022, section 4): the switch to the
// sparse secret, the lift, the switch back.
func (b *Bootstrapper) raise(cts []*henc.Ciphertext, by []multiple) (*henc.Ciphertexts, error) {
	p, r, n := b.plan.params, b.ctx.Ring(), len(cts)
	c := chain.New(r)
	defer c.Close()
	low, all := p.QLimbs(0), p.QLimbs(p.MaxLevel())
	in, sparse := c.Result(2*n, low, b.ctx.Domain()), c.Result(2*n, low, b.ctx.Domain())
	for i, ct := range cts {
		b.multiply(c, c.View(in, 2*i, 2*i+2, 0, len(low)), ct, by[i])
	}
	b.switchAll(c, cutrantt.Gadget{Alpha: 1, Special: p.PLimbs()[:1]}, sparse, in, b.toSparse)
	coeffs := c.Result(2*n, low, cutrantt.Coeffs(b.ctx.N2()))
	lifted := c.Result(2*n, all, cutrantt.Coeffs(b.ctx.N2()))
	c.Op2(r.Inverse, coeffs, sparse)
	c.Op2(r.Extend, lifted, coeffs)
	c.Op2(r.Forward, lifted, lifted)
	c.Do(func() error { lifted.SetDomain(b.ctx.Domain()); return nil })
	out := c.Result(2*n, all, b.ctx.Domain())
	b.switchAll(c, cutrantt.Gadget{Alpha: p.Alpha(), Special: p.PLimbs()}, out, lifted, b.toDense)
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

// multiply sets dst to the multiple of ct, at level 0.
func (b *Bootstrapper) multiply(c *chain.Chain, dst *cutrantt.Batch, ct *henc.Ciphertext, by multiple) {
	p, r := b.plan.params, b.ctx.Ring()
	times := make([]uint32, p.LimbsAt(0))
	for i, q := range p.Q()[:len(times)] {
		times[i] = uint32(by.times % int64(q))
	}
	c.Do(func() error { return r.MulScalar(dst, c.View(ct.Value, 0, 2, 0, len(times)), times) })
	if by.spread {
		c.Op3(r.Mul, dst, dst, b.spread.Value)
	}
}

// switchAll switches ciphertexts, two polynomials each, to another secret.
func (b *Bootstrapper) switchAll(c *chain.Chain, g cutrantt.Gadget, dst, src *cutrantt.Batch, key cutrantt.Operand) {
	if c.Err() != nil {
		return
	}
	items := make([]cutrantt.KeySwitch, src.Polys()/2)
	for i := range items {
		items[i] = cutrantt.KeySwitch{
			Dst: c.View(dst, 2*i, 2*i+2, 0, len(dst.Limbs())), X: c.Poly(src, 2*i+1), Low: c.Poly(src, 2*i), Key: key,
		}
	}
	c.Do(func() error { return cutrantt.SwitchKeys(b.ctx.Ring(), g, items) })
}

// toCoefficients returns the coefficients over K*(modulus of level 0), in bit-reversed order: the first halves of all
// of cts, and then the second ones.
func (b *Bootstrapper) toCoefficients(cts *henc.Ciphertexts) (*henc.Ciphertexts, error) {
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
	re, err := keep(be.Add(z, conjugate))
	if err != nil {
		return nil, err
	}
	twice, err := keep(be.Sub(z, conjugate))
	if err != nil {
		return nil, err
	}
	im, err := keep(be.MulPlain(twice, b.minusI))
	if err != nil {
		return nil, err
	}
	return b.join(re, im)
}

// join copies the items of a, and then those of o, to one batch.
func (b *Bootstrapper) join(a, o *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	be, err := b.batch(a.Len() + o.Len())
	if err != nil {
		return nil, err
	}
	var all []*henc.Ciphertext
	for _, part := range []*henc.Ciphertexts{a, o} {
		for i := range part.Len() {
			all = append(all, part.At(i))
		}
	}
	both, err := be.Of(all, a.Level())
	if err != nil {
		return nil, err
	}
	return be.Clone(both)
}

// toSlots joins the halves, of which the first ones come first, and returns the slots, divided by p if asked.
func (b *Bootstrapper) toSlots(halves *henc.Ciphertexts, spread bool) (*henc.Ciphertexts, error) {
	factors, err := b.decoding(spread)
	if err != nil {
		return nil, err
	}
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
	sum, err := be.Add(halves.Part(0, n), im)
	if err != nil {
		return nil, err
	}
	defer b.freeAll(sum)
	return transform(be, sum, factors, b.plan.decode)
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
		if err := step(be.Transform(cts, lt)); err != nil {
			return nil, err
		}
		for range stages[i].drop {
			if err := step(be.Rescale(cts)); err != nil {
				return nil, err
			}
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
