package henc

import (
	"fmt"
	"math"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Evaluator computes on ciphertexts with public keys only. Every operation
// returns a new ciphertext and leaves its inputs alone. It is immutable and safe
// for concurrent use, also by operations that share inputs.
//
// Levels and scales are strict: operands must be at one level (DropLevel aligns
// them; ErrLevel otherwise), sums need scales within Parameters.ScaleTolerance
// of each other (ErrScale), products multiply scales and refuse a scale that leaves no
// room below the modulus (ErrScale). Nothing is rescaled implicitly.
type Evaluator struct {
	ctx  *Context
	keys *EvaluationKeys
}

// NewEvaluator makes an evaluator for ctx. keys may be nil or partial; the
// operations that miss a key fail with ErrNoKey.
func NewEvaluator(ctx *Context, keys *EvaluationKeys) *Evaluator {
	return &Evaluator{ctx: ctx, keys: keys}
}

// Context is the evaluator's context.
func (ev *Evaluator) Context() *Context {
	if ev == nil {
		return nil
	}
	return ev.ctx
}

// Add is a + b, slot by slot. Noise adds.
func (ev *Evaluator) Add(a, b *Ciphertext) (*Ciphertext, error) {
	if err := ev.same("add", a, b, true); err != nil {
		return nil, err
	}
	return ev.run("add", a.Level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Op3(ev.ctx.ring.Add, out, a.Value, b.Value)
	})
}

// Sub is a - b, slot by slot. Noise adds.
func (ev *Evaluator) Sub(a, b *Ciphertext) (*Ciphertext, error) {
	if err := ev.same("subtract", a, b, true); err != nil {
		return nil, err
	}
	return ev.run("subtract", a.Level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Op3(ev.ctx.ring.Sub, out, a.Value, b.Value)
	})
}

// Neg is -a.
func (ev *Evaluator) Neg(a *Ciphertext) (*Ciphertext, error) {
	if err := ev.valid("negate", a); err != nil {
		return nil, err
	}
	return ev.run("negate", a.Level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Op2(ev.ctx.ring.Neg, out, a.Value)
	})
}

// DropLevel removes levels levels, leaving the message and the scale as they
// are: the cheap way to align operands and to shorten a result. It fails with
// ErrLevel where there are not as many and with ErrScale where the scale would
// not fit below the smaller modulus. A seed stays valid and is kept.
func (ev *Evaluator) DropLevel(a *Ciphertext, levels int) (*Ciphertext, error) {
	if err := ev.valid("drop level", a); err != nil {
		return nil, err
	}
	if levels < 0 || levels > a.Level {
		return nil, fmt.Errorf("drop level: %w: cannot drop %d levels at level %d", ErrLevel, levels, a.Level)
	}
	level := a.Level - levels
	r, err := ev.run("drop level", level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Op2(ev.ctx.ring.Copy, out, c.View(a.Value, 0, 2, 0, ev.ctx.params.LimbsAt(level)))
	})
	if err == nil && a.Seed != nil {
		seed := *a.Seed
		r.Seed = &seed
	}
	return r, err
}

// WithScale reinterprets the ciphertext at another scale: the same residues, so
// the message is multiplied by the old scale over the new one, at no cost and
// without noise. The result shares ct's residues; the scale is checked by whatever
// uses it next. A nil ciphertext stays nil.
func (ct *Ciphertext) WithScale(scale float64) *Ciphertext {
	if ct == nil {
		return nil
	}
	c := *ct
	c.Scale = scale
	return &c
}

// Rescale divides by the primes of the top level, one or two by the parameters'
// mode, rounding: level falls by one, the scale by their product, and the noise
// with it (plus the rounding noise, see NoiseModel.Rescale). It fails with
// ErrLevel at level 0 and with ErrScale where the scale would fall below 1.
func (ev *Evaluator) Rescale(a *Ciphertext) (*Ciphertext, error) {
	if err := ev.valid("rescale", a); err != nil {
		return nil, err
	}
	scale, err := ev.rescaled(a.Level, a.Scale)
	if err != nil {
		return nil, fmt.Errorf("rescale: %w", err)
	}
	return ev.run("rescale", a.Level-1, scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Op2(ev.ctx.ring.DivRound, out, a.Value)
	})
}

// rescaled is the scale after rescaling from level.
func (ev *Evaluator) rescaled(level int, scale float64) (float64, error) {
	if level == 0 {
		return 0, fmt.Errorf("%w: level 0 has no prime left to divide by", ErrLevel)
	}
	s := scale / ev.ctx.params.RescaleFactor(level)
	if s < 1 {
		return 0, fmt.Errorf("%w: scale 2^%.2f at level %d would fall to 2^%.2f; multiply before rescaling",
			ErrScale, math.Log2(scale), level, math.Log2(s))
	}
	return s, nil
}

// RescaleFactor is the product of the primes that rescaling from level drops; 1
// where there is no level below.
func (p Parameters) RescaleFactor(level int) float64 {
	f := 1.0
	if level > 0 && level <= p.MaxLevel() {
		for _, q := range p.data().lit.Q[p.LimbsAt(level-1):p.LimbsAt(level)] {
			f *= float64(q)
		}
	}
	return f
}

// run allocates the result, runs f, which writes all of it, and returns the
// result only if all of it worked.
func (ev *Evaluator) run(
	op string, level int, scale float64, f func(c *chain.Chain, out *cutrantt.Batch),
) (*Ciphertext, error) {
	return first(ev.batch().result(op, level, scale, func(c *chain.Chain, out *Ciphertexts) { f(c, out.whole) }))
}

// valid refuses an unusable evaluator or operand.
func (ev *Evaluator) valid(op string, a *Ciphertext) error {
	if ev == nil || ev.ctx == nil {
		return fmt.Errorf("%s: %w: evaluator without a context", op, ErrParams)
	}
	if err := ev.ctx.CheckCiphertext(a); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// same refuses operands of different level and, for sums, of different scale.
func (ev *Evaluator) same(op string, a, b *Ciphertext, scales bool) error {
	if err := ev.valid(op, a); err != nil {
		return err
	}
	if err := ev.valid(op, b); err != nil {
		return err
	}
	return ev.matches(op, a.Level, b.Level, a.Scale, b.Scale, scales)
}

func (ev *Evaluator) matches(op string, levelA, levelB int, scaleA, scaleB float64, scales bool) error {
	if levelA != levelB {
		return fmt.Errorf("%s: %w: operands are at levels %d and %d; drop the higher one to %d",
			op, ErrLevel, levelA, levelB, min(levelA, levelB))
	}
	large, small := max(scaleA, scaleB), min(scaleA, scaleB)
	if scales && large-small > large*ev.ctx.params.ScaleTolerance(levelA, large) {
		return fmt.Errorf("%s: %w: scales 2^%.6f and 2^%.6f differ by a part in 2^%.1f; multiply one by a constant "+
			"at the right scale first",
			op, ErrScale, math.Log2(scaleA), math.Log2(scaleB), -math.Log2(1-small/large))
	}
	return nil
}
