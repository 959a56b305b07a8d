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
	return ev.product("multiply", false, a, b)
}

// MulRescale is Rescale(Mul(a, b)) with one division instead of two: the special
// primes and the primes of the level are dropped together, which also rounds
// only once. The result is at level-1 with scale a.Scale*b.Scale divided by
// RescaleFactor(level).
func (ev *Evaluator) MulRescale(a, b *Ciphertext) (*Ciphertext, error) {
	return ev.product("multiply and rescale", true, a, b)
}

func (ev *Evaluator) product(op string, merge bool, a, b *Ciphertext) (*Ciphertext, error) {
	if err := ev.same(op, a, b, false); err != nil {
		return nil, err
	}
	x := alone(a)
	y := x
	if b != a {
		y = alone(b)
	}
	return first(ev.batch().multiply(op, merge, x, y))
}

// Mul is Evaluator.Mul for each item.
func (be *BatchEvaluator) Mul(a, b *Ciphertexts) (*Ciphertexts, error) {
	return be.product("multiply", false, a, b)
}

// MulRescale is Evaluator.MulRescale for each item.
func (be *BatchEvaluator) MulRescale(a, b *Ciphertexts) (*Ciphertexts, error) {
	return be.product("multiply and rescale", true, a, b)
}

func (be *BatchEvaluator) product(op string, merge bool, a, b *Ciphertexts) (*Ciphertexts, error) {
	if err := be.pair(op, a, b, false); err != nil {
		return nil, err
	}
	return be.multiply(op, merge, a, b)
}

// multiply returns a*b, each item under its own key. If merge is set, it rescales as well:
// (acc + P*low)/(P*q_top), where acc is the sum of digits times keys and (low_0, low_1, d2)
// the product of degree 2. The caller has checked the operands.
func (be *BatchEvaluator) multiply(op string, merge bool, a, b *Ciphertexts) (*Ciphertexts, error) {
	keys, err := be.operands(func(ev *Evaluator) (cutrantt.Operand, error) { return ev.relin(op, a.level) })
	if err != nil {
		return nil, err
	}
	ctx, level, scale := be.ctx, a.level, a.scale*b.scale
	if merge {
		if err := ctx.params.CheckScale(level, scale); err != nil {
			return nil, fmt.Errorf("%s: product: %w", op, err)
		}
		if scale, err = be.evs[0].rescaled(level, scale); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		level--
	}
	return be.result(op, level, scale, func(c *chain.Chain, out *Ciphertexts) {
		n := len(out.items)
		t := c.Result(3*n, ctx.params.QLimbs(a.level), ctx.Domain())
		if c.Err() != nil {
			return
		}
		products, polys, items := c.Each(t, 3), c.Each(t, 1), make([]cutrantt.KeySwitch, n)
		for i := range items {
			items[i] = cutrantt.KeySwitch{
				Dst: out.items[i], X: polys[3*i+2], Low: c.View(t, 3*i, 3*i+2, 0, len(t.Limbs())), Key: keys[i],
			}
		}
		c.Do(func() error { return cutrantt.MulTensor(ctx.ring, products, a.items, b.items) })
		c.Do(func() error { return cutrantt.SwitchKeys(ctx.ring, ctx.gadget(), items) })
	})
}
