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
	return first(multiply("multiply", false, []*Evaluator{ev}, []*Ciphertext{a}, []*Ciphertext{b}))
}

// MulRescale is Rescale(Mul(a, b)) with one division instead of two: the special
// primes and the primes of the level are dropped together, which also rounds
// only once. The result is at level-1 with scale a.Scale*b.Scale divided by
// RescaleFactor(level).
func (ev *Evaluator) MulRescale(a, b *Ciphertext) (*Ciphertext, error) {
	return first(multiply("multiply and rescale", true, []*Evaluator{ev}, []*Ciphertext{a}, []*Ciphertext{b}))
}

// first is the only result.
func first(r []*Ciphertext, err error) (*Ciphertext, error) {
	if err != nil {
		return nil, err
	}
	return r[0], nil
}

// multiply is a[i]*b[i] under the keys of evs[i], with the rescaling if merge is
// set: (acc + P*low)/(P*q_top) for the sum acc of digits times keys and the
// degree-2 product (low_0, low_1, d2).
func multiply(op string, merge bool, evs []*Evaluator, a, b []*Ciphertext) ([]*Ciphertext, error) {
	keys, scales := make([]cutrantt.Operand, len(a)), make([]float64, len(a))
	for i := range a {
		var err error
		if keys[i], err = evs[i].relin(op, a[i], b[i]); err != nil {
			return nil, err
		}
		p := evs[i].ctx.params
		if scales[i] = a[i].Scale * b[i].Scale; !merge {
			continue
		}
		if err := p.CheckScale(a[i].Level, scales[i]); err != nil {
			return nil, fmt.Errorf("%s: product: %w", op, err)
		}
		if scales[i], err = evs[i].rescaled(a[i].Level, scales[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	ctx, level := evs[0].ctx, a[0].Level
	out := level
	if merge {
		out--
	}
	return ctx.results(op, out, scales, func(c *chain.Chain, dst []*cutrantt.Batch) {
		n := len(dst)
		t := c.Result(3*n, ctx.params.QLimbs(level), ctx.Domain())
		products, x, y := make([]*cutrantt.Batch, n), make([]*cutrantt.Batch, n), make([]*cutrantt.Batch, n)
		items := make([]cutrantt.KeySwitch, n)
		for i := range dst {
			c.Do(func() error {
				limbs := len(t.Limbs())
				products[i], x[i], y[i] = c.View(t, 3*i, 3*i+3, 0, limbs), a[i].Value, b[i].Value
				items[i] = cutrantt.KeySwitch{
					Dst: dst[i], X: c.View(t, 3*i+2, 3*i+3, 0, limbs), Low: c.View(t, 3*i, 3*i+2, 0, limbs),
					Key: keys[i],
				}
				return c.Err()
			})
		}
		c.Do(func() error { return cutrantt.MulTensor(ctx.ring, products, x, y) })
		c.Do(func() error { return cutrantt.SwitchKeys(ctx.ring, ctx.gadget(), items) })
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
