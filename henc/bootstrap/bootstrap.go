package bootstrap

import (
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

// Bootstrap returns the message of ct at Plan.Level and the scale Plan.ScaleOf. ct may be at any level; what
// is above level 0 is not used. Its slots
// must repeat after Plan.Slots, and the parts of its values lie in [-1, 1]; the package's description has
// the precision. It fails with henc.ErrScale where the scale is outside 1..Plan.MaxScale, and
// with henc.ErrNoKey where the evaluation keys lack one of the plan's least.
func (b *Bootstrapper) Bootstrap(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
	const op = "bootstrap"
	if b == nil || b.toDense == nil {
		return nil, fmt.Errorf("%s: %w: no bootstrapper", op, henc.ErrParams)
	}
	if err := b.ctx.CheckCiphertext(ct); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	scale, err := b.plan.ScaleOf(ct.Scale)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	out, err := b.run(ct)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out.WithScale(scale), nil
}

func (b *Bootstrapper) run(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
	times, spread := b.plan.raiseBy(ct.Scale)
	raised, err := b.raise(ct, times, spread)
	if err != nil {
		return nil, fmt.Errorf("raise the modulus: %w", err)
	}
	halves, err := b.toCoefficients(raised)
	b.free(raised)
	if err != nil {
		return nil, fmt.Errorf("slots to coefficients: %w", err)
	}
	reduced, err := sine(b.pair, halves)
	b.pair.Free(halves)
	if err != nil {
		return nil, fmt.Errorf("sine: %w", err)
	}
	out, err := b.toSlots(reduced, spread)
	b.pair.Free(reduced)
	if err != nil {
		return nil, fmt.Errorf("coefficients to slots: %w", err)
	}
	return out, nil
}

// raise returns times, and if asked p, times the message of ct, plus multiples of the modulus of level 0,
// at the top level (Bossuat, Troncoso-Pastoriza and Hubaux, ACNS 2022, section 4): the switch to the
// sparse secret, the lift, the switch back.
func (b *Bootstrapper) raise(ct *henc.Ciphertext, times int64, spread bool) (*henc.Ciphertext, error) {
	p, r := b.plan.params, b.ctx.Ring()
	c := chain.New(r)
	defer c.Close()
	low, all := p.QLimbs(0), p.QLimbs(p.MaxLevel())
	in := c.Result(2, low, b.ctx.Domain())
	multiple := make([]uint32, len(low))
	for i, q := range p.Q()[:len(low)] {
		multiple[i] = uint32(times % int64(q))
	}
	c.Do(func() error { return r.MulScalar(in, c.View(ct.Value, 0, 2, 0, len(low)), multiple) })
	if spread {
		c.Op3(r.Mul, in, in, b.spread.Value)
	}
	sparse := c.Result(2, low, b.ctx.Domain())
	c.Do(func() error {
		return cutrantt.SwitchKeys(r, cutrantt.Gadget{Alpha: 1, Special: p.PLimbs()[:1]}, []cutrantt.KeySwitch{
			{Dst: sparse, X: c.Poly(in, 1), Low: c.Poly(in, 0), Key: b.toSparse},
		})
	})
	coeffs := c.Result(2, low, cutrantt.Coeffs(b.ctx.N2()))
	lifted := c.Result(2, all, cutrantt.Coeffs(b.ctx.N2()))
	c.Op2(r.Inverse, coeffs, sparse)
	c.Op2(r.Extend, lifted, coeffs)
	c.Op2(r.Forward, lifted, lifted)
	c.Do(func() error { lifted.SetDomain(b.ctx.Domain()); return nil })
	out := c.Result(2, all, b.ctx.Domain())
	c.Do(func() error {
		return cutrantt.SwitchKeys(r, cutrantt.Gadget{Alpha: p.Alpha(), Special: p.PLimbs()}, []cutrantt.KeySwitch{
			{Dst: out, X: c.Poly(lifted, 1), Low: c.Poly(lifted, 0), Key: b.toDense},
		})
	})
	kept, err := c.Keep(out)
	if err != nil {
		return nil, err
	}
	return &henc.Ciphertext{Value: kept, Level: p.MaxLevel(), Scale: b.plan.modulus()}, nil
}

// toCoefficients returns the coefficients over K*(modulus of level 0): the first half and the
// second, in bit-reversed order.
func (b *Bootstrapper) toCoefficients(ct *henc.Ciphertext) (*henc.Ciphertexts, error) {
	n := b.plan.params.Slots()
	if gap := n / b.plan.Slots(); gap > 1 {
		var err error
		if ct, err = b.ev.SumSlots(ct, gap, b.plan.Slots()); err != nil {
			return nil, err
		}
		defer b.free(ct)
	}
	z, err := b.transform(ct, b.encode, b.plan.encode)
	if err != nil {
		return nil, err
	}
	defer b.free(z)
	z = z.WithScale(b.plan.working)
	conjugate, err := b.ev.Conjugate(z)
	if err != nil {
		return nil, err
	}
	defer b.free(conjugate)
	re, err := b.ev.Add(z, conjugate)
	if err != nil {
		return nil, err
	}
	defer b.free(re)
	twice, err := b.ev.Sub(z, conjugate)
	if err != nil {
		return nil, err
	}
	defer b.free(twice)
	im, err := b.ev.MulPlain(twice, b.minusI)
	if err != nil {
		return nil, err
	}
	defer b.free(im)
	both, err := b.pair.Of([]*henc.Ciphertext{re, im}, re.Level)
	if err != nil {
		return nil, err
	}
	return b.pair.Clone(both)
}

// toSlots joins the halves and returns the slots, divided by p if asked.
func (b *Bootstrapper) toSlots(halves *henc.Ciphertexts, spread bool) (*henc.Ciphertext, error) {
	factors, err := b.decoding(spread)
	if err != nil {
		return nil, err
	}
	im, err := b.ev.MulPlain(halves.At(1), b.plusI)
	if err != nil {
		return nil, err
	}
	defer b.free(im)
	sum, err := b.ev.Add(halves.At(0), im)
	if err != nil {
		return nil, err
	}
	defer b.free(sum)
	return b.transform(sum, factors, b.plan.decode)
}

// transform applies the stages, with the rescalings that follow each.
func (b *Bootstrapper) transform(
	ct *henc.Ciphertext, lts []*henc.LinearTransform, stages []stage,
) (*henc.Ciphertext, error) {
	first := ct
	step := func(next *henc.Ciphertext, err error) error {
		if ct != first {
			b.free(ct)
		}
		ct = next
		return err
	}
	for i, lt := range lts {
		if err := step(b.ev.Transform(ct, lt)); err != nil {
			return nil, err
		}
		for range stages[i].drop {
			if err := step(b.ev.Rescale(ct)); err != nil {
				return nil, err
			}
		}
	}
	return ct, nil
}

func (b *Bootstrapper) free(ct *henc.Ciphertext) {
	if ct != nil {
		b.ctx.Ring().Free(ct.Value)
	}
}
