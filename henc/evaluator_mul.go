package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Mul is a * b, slot by slot, relinearised to degree 1 but not rescaled: the
// scales multiply. a and b may be the same ciphertext, which costs one product
// less. It fails with ErrNoKey without a relinearisation key and with ErrScale
// where the product's scale does not fit below the modulus of the level.
func (ev *Evaluator) Mul(a, b *Ciphertext) (*Ciphertext, error) {
	const op = "multiply"
	op2, err := ev.relin(op, a, b)
	if err != nil {
		return nil, err
	}
	level := a.Level
	return ev.run(op, level, a.Scale*b.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		d2 := c.Batch(1, out.Limbs(), ev.ctx.Domain())
		ev.tensor(c, out, d2, a, b)
		acc := ev.innerProduct(c, ev.decompose(c, d2, level), op2, level)
		ks := c.Batch(2, out.Limbs(), ev.ctx.Domain())
		c.Op2(ev.ctx.ring.DivRound, ks, acc)
		c.Op3(ev.ctx.ring.Add, out, out, ks)
	})
}

// MulRescale is Rescale(Mul(a, b)) with one division instead of two: the special
// primes and the primes of the level are dropped together, which also rounds
// only once. The result is at level-1 with scale a.Scale*b.Scale divided by
// RescaleFactor(level).
func (ev *Evaluator) MulRescale(a, b *Ciphertext) (*Ciphertext, error) {
	const op = "multiply and rescale"
	op2, err := ev.relin(op, a, b)
	if err != nil {
		return nil, err
	}
	level, p := a.Level, ev.ctx.params
	if err := p.CheckScale(level, a.Scale*b.Scale); err != nil {
		return nil, fmt.Errorf("%s: product: %w", op, err)
	}
	scale, err := ev.rescaled(level, a.Scale*b.Scale)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return ev.run(op, level-1, scale, func(c *chain.Chain, out *cutrantt.Batch) {
		r, limbs := ev.ctx.ring, p.QLimbs(level)
		low := c.Batch(2, limbs, ev.ctx.Domain())
		d2 := c.Batch(1, limbs, ev.ctx.Domain())
		ev.tensor(c, low, d2, a, b)
		acc := ev.innerProduct(c, ev.decompose(c, d2, level), op2, level)
		// (acc + P*low)/(P*q_top): P*low has no residues modulo the special primes.
		c.Do(func() error { return r.MulScalar(low, low, ev.ctx.specialProduct(level)) })
		accQ := c.View(acc, 0, 2, 0, len(limbs))
		c.Op3(r.Add, accQ, accQ, low)
		c.Op2(r.DivRound, out, acc)
	})
}

// relin checks the operands of a product and returns the key's operand.
func (ev *Evaluator) relin(op string, a, b *Ciphertext) (cutrantt.Operand, error) {
	if err := ev.same(op, a, b, false); err != nil {
		return nil, err
	}
	if ev.keys == nil || ev.keys.Relin == nil {
		return nil, fmt.Errorf("%s: %w: there is no relinearisation key", op, ErrNoKey)
	}
	k, err := ev.switching(ev.keys.Relin, a.Level)
	if err != nil {
		return nil, fmt.Errorf("%s: relinearisation key: %w", op, err)
	}
	return k, nil
}

// tensor sets (out, d2) = (a0*b0, a0*b1 + a1*b0, a1*b1), the degree-2 product.
func (ev *Evaluator) tensor(c *chain.Chain, out, d2 *cutrantt.Batch, a, b *Ciphertext) {
	r := ev.ctx.ring
	a0, a1 := c.Poly(a.Value, 0), c.Poly(a.Value, 1)
	b0, b1 := c.Poly(b.Value, 0), c.Poly(b.Value, 1)
	out0, out1 := c.Poly(out, 0), c.Poly(out, 1)
	c.Op3(r.Mul, out0, a0, b0)
	c.Op3(r.Mul, out1, a0, b1)
	if a.Value == b.Value {
		c.Op3(r.Add, out1, out1, out1)
	} else {
		c.Op3(r.MulAdd, out1, a1, b0)
	}
	c.Op3(r.Mul, d2, a1, b1)
}

// specialProduct is P modulo every prime of level.
func (c *Context) specialProduct(level int) []uint32 {
	d := c.params.data()
	out := make([]uint32, c.params.LimbsAt(level))
	for i := range out {
		q, x := uint64(d.lit.Q[i]), uint64(1)
		for _, p := range d.lit.P {
			x = x * uint64(p) % q
		}
		out[i] = uint32(x)
	}
	return out
}
