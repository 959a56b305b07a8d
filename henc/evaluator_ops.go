package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

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

// run allocates the result and runs f, which writes all of it. After an error it frees the
// result.
func (ev *Evaluator) run(
	op string, level int, scale float64, f func(c *chain.Chain, out *cutrantt.Batch),
) (*Ciphertext, error) {
	return first(ev.batch().result(op, level, scale, func(c *chain.Chain, out *Ciphertexts) { f(c, out.whole) }))
}
