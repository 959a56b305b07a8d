package bfv

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Evaluator computes on ciphertexts with public keys only. Every operation returns new ciphertexts; it fails with
// ErrNoise where the result might not decrypt. It is immutable and safe for concurrent use.
type Evaluator struct {
	ctx  *Context
	base *henc.Evaluator
}

// NewEvaluator makes an evaluator for ctx. keys, which belong to ctx.Base(), may be nil or partial; operations that
// miss a key fail with henc.ErrNoKey.
func NewEvaluator(ctx *Context, keys *henc.EvaluationKeys) *Evaluator {
	return &Evaluator{ctx: ctx, base: henc.NewEvaluator(ctx.Base(), keys)}
}

// Context is the evaluator's context.
func (ev *Evaluator) Context() *Context {
	if ev == nil {
		return nil
	}
	return ev.ctx
}

func (ev *Evaluator) noise() NoiseModel { return ev.ctx.params.Noise() }

// valid refuses an unusable evaluator or operand.
func (ev *Evaluator) valid(op string, cts ...*Ciphertext) error {
	if ev == nil || ev.ctx.ready() != nil {
		return fmt.Errorf("%s: %w: evaluator without a context", op, henc.ErrParams)
	}
	for _, ct := range cts {
		if err := ev.ctx.Check(ct); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		if ct.Down != 0 {
			return fmt.Errorf("%s: %w: an operand was switched down by %d levels; switch results only", op,
				henc.ErrLevel, ct.Down)
		}
	}
	return nil
}

// fits refuses a result with too much noise before it is computed.
func (ev *Evaluator) fits(op string, noise Noise) error {
	if err := ev.noise().check(noise); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Add is a + b, slot by slot and coefficient by coefficient.
func (ev *Evaluator) Add(a, b *Ciphertext) (*Ciphertext, error) {
	return ev.combine("add", a, b, (*henc.Evaluator).Add)
}

// Sub is a - b.
func (ev *Evaluator) Sub(a, b *Ciphertext) (*Ciphertext, error) {
	return ev.combine("subtract", a, b, (*henc.Evaluator).Sub)
}

func (ev *Evaluator) combine(
	op string, a, b *Ciphertext, f func(ev *henc.Evaluator, a, b *henc.Ciphertext) (*henc.Ciphertext, error),
) (*Ciphertext, error) {
	if err := ev.valid(op, a, b); err != nil {
		return nil, err
	}
	noise := ev.noise().Add(a.Noise, b.Noise)
	if err := ev.fits(op, noise); err != nil {
		return nil, err
	}
	ct, err := f(ev.base, ev.ctx.Scaled(a), ev.ctx.Scaled(b))
	if err != nil {
		return nil, err
	}
	return wrap(ct, noise), nil
}

// Neg is -a.
func (ev *Evaluator) Neg(a *Ciphertext) (*Ciphertext, error) {
	if err := ev.valid("negate", a); err != nil {
		return nil, err
	}
	ct, err := ev.base.Neg(ev.ctx.Scaled(a))
	if err != nil {
		return nil, err
	}
	return wrap(ct, a.Noise), nil
}

// AddPlain is a + pt.
func (ev *Evaluator) AddPlain(a *Ciphertext, pt *Plaintext) (*Ciphertext, error) {
	return ev.shift("add plaintext", a, pt, cutrantt.Ring.Add)
}

// SubPlain is a - pt.
func (ev *Evaluator) SubPlain(a *Ciphertext, pt *Plaintext) (*Ciphertext, error) {
	return ev.shift("subtract plaintext", a, pt, cutrantt.Ring.Sub)
}

func (ev *Evaluator) shift(
	op string, a *Ciphertext, pt *Plaintext, f func(r cutrantt.Ring, dst, a, b *cutrantt.Batch) error,
) (*Ciphertext, error) {
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	if err := ev.ctx.checkPlain(pt); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	noise := ev.noise().AddPlain(a.Noise)
	if err := ev.fits(op, noise); err != nil {
		return nil, err
	}
	return ev.run(op, noise, func(c *chain.Chain, out *cutrantt.Batch) {
		r, m := ev.ctx.ring(), c.Poly(out, 0)
		c.Do(func() error { return ev.ctx.Lift(m, pt) })
		c.Do(func() error { return f(r, m, c.Poly(a.Value, 0), m) })
		c.Do(func() error { return r.Copy(c.Poly(out, 1), c.Poly(a.Value, 1)) })
	})
}

// MulPlain is a * f.
func (ev *Evaluator) MulPlain(a *Ciphertext, f *Factor) (*Ciphertext, error) {
	const op = "multiply by plaintext"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	if f == nil || f.value == nil {
		return nil, fmt.Errorf("%s: %w: no factor", op, henc.ErrMessage)
	}
	noise := ev.noise().MulPlain(a.Noise, f.norm)
	if err := ev.fits(op, noise); err != nil {
		return nil, err
	}
	return ev.run(op, noise, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Op3(ev.ctx.ring().Mul, out, a.Value, f.value)
	})
}

// SumPlain is the sum of cts[i] * fs[i], at least one, without the products in between. It fails with henc.ErrParams
// if the lengths differ.
func (ev *Evaluator) SumPlain(cts []*Ciphertext, fs []*Factor) (*Ciphertext, error) {
	const op = "sum of products"
	if err := ev.valid(op, cts...); err != nil {
		return nil, err
	}
	if len(cts) == 0 || len(cts) != len(fs) {
		return nil, fmt.Errorf("%s: %w: %d ciphertexts and %d factors", op, henc.ErrParams, len(cts), len(fs))
	}
	noise, row := Noise{}, make([]*cutrantt.Batch, len(fs))
	for i, f := range fs {
		if f == nil || f.value == nil {
			return nil, fmt.Errorf("%s: %w: no factor %d", op, henc.ErrMessage, i)
		}
		noise = ev.noise().Add(noise, ev.noise().MulPlain(cts[i].Noise, f.norm))
		row[i] = f.value
	}
	if err := ev.fits(op, noise); err != nil {
		return nil, err
	}
	return ev.run(op, noise, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Do(func() error {
			return cutrantt.SumProducts(ev.ctx.ring(), []*cutrantt.Batch{out}, values(cts), [][]*cutrantt.Batch{row},
				false)
		})
	})
}

// MulConst is a * k. The noise grows by the magnitude of k as an integer, so -1 is better than t-1.
func (ev *Evaluator) MulConst(a *Ciphertext, k int64) (*Ciphertext, error) {
	const op = "multiply by constant"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	noise := ev.noise().MulConst(a.Noise, k)
	if err := ev.fits(op, noise); err != nil {
		return nil, err
	}
	ct, err := ev.base.MulInt(ev.ctx.Scaled(a), k)
	if err != nil {
		return nil, err
	}
	return wrap(ct, noise), nil
}

// RotateRows moves slot j+k to slot j, cyclically within each row of N/2 slots. It needs the key of
// henc.GaloisElement(k), as secret.Key.EvaluationKeys makes for the rotation k.
func (ev *Evaluator) RotateRows(a *Ciphertext, k int) (*Ciphertext, error) {
	return ev.Automorphism(a, henc.GaloisElement(ev.Context().Parameters().Base(), k))
}

// SwapRows exchanges the two rows of slots. It needs the key of henc.ConjugationElement.
func (ev *Evaluator) SwapRows(a *Ciphertext) (*Ciphertext, error) {
	return ev.Automorphism(a, henc.ConjugationElement(ev.Context().Parameters().Base()))
}

// Automorphism replaces X by X^g, g odd and below 2N. It needs the Galois key of g.
func (ev *Evaluator) Automorphism(a *Ciphertext, g uint64) (*Ciphertext, error) {
	out, err := ev.Automorphisms(a, []uint64{g})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// Automorphisms is Automorphism for each of gs; the results share the digits of a.
func (ev *Evaluator) Automorphisms(a *Ciphertext, gs []uint64) ([]*Ciphertext, error) {
	const op = "automorphism"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	noise := ev.noise().Switch(a.Noise)
	if err := ev.fits(op, noise); err != nil {
		return nil, err
	}
	cts, err := ev.base.Automorphisms(ev.ctx.Scaled(a), gs)
	if err != nil {
		return nil, err
	}
	out := make([]*Ciphertext, len(cts))
	for i, ct := range cts {
		out[i] = wrap(ct, noise)
	}
	return out, nil
}

// ModSwitch is a modulo Q of a level so many levels below the top: fewer bytes for who decrypts, and the same
// plaintext. What it returns cannot be computed with. It fails with henc.ErrLevel if there is no such level;
// Parameters.LowestLevel is one that fits where a has some noise to spare.
func (ev *Evaluator) ModSwitch(a *Ciphertext, down int) (*Ciphertext, error) {
	const op = "switch modulus"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	if top := ev.ctx.params.level(); down < 0 || down > top {
		return nil, fmt.Errorf("%s: %w: %d levels down, there are %d", op, henc.ErrLevel, down, top)
	}
	noise := ev.noise().ModSwitch(a.Noise, down)
	if err := ev.noise().checkAt(noise, down); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	c := chain.New(ev.ctx.ring())
	out := c.Result(2, ev.ctx.params.base.QLimbs(ev.ctx.params.level()-down), ev.ctx.base.Domain())
	if down == 0 {
		c.Op2(ev.ctx.ring().Copy, out, a.Value)
	} else {
		c.Op2(ev.ctx.ring().DivRound, out, a.Value)
	}
	kept, _ := c.Keep(out)
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return &Ciphertext{Value: kept, Noise: noise, Down: down}, nil
}

// run allocates the result and runs f, which writes all of it.
func (ev *Evaluator) run(
	op string, noise Noise, f func(c *chain.Chain, out *cutrantt.Batch),
) (*Ciphertext, error) {
	c := chain.New(ev.ctx.ring())
	out := c.Result(2, ev.ctx.limbs.q, ev.ctx.base.Domain())
	if c.Err() == nil {
		f(c, out)
	}
	kept, _ := c.Keep(out)
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return &Ciphertext{Value: kept, Noise: noise}, nil
}
