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
	return first(ev.batch().multiply(op, merge, x, y, addends{}))
}

// Mul is Evaluator.Mul for each item.
func (be *BatchEvaluator) Mul(a, b *Ciphertexts) (*Ciphertexts, error) {
	return be.product("multiply", false, a, b)
}

// MulRescale is Evaluator.MulRescale for each item.
func (be *BatchEvaluator) MulRescale(a, b *Ciphertexts) (*Ciphertexts, error) {
	return be.product("multiply and rescale", true, a, b)
}

// MulSumRescale is the sum of one or more products and of rest, which may be nil, relinearised and rescaled once, for
// one key switch and one division instead of one for each. All factors and rest are at one level, and the scales of
// all products and of rest are equal, as in a sum. It fails like MulRescale, with ErrLevel or ErrScale where they are
// not, and with ErrParams without a product.
func (be *BatchEvaluator) MulSumRescale(products [][2]*Ciphertexts, rest *Ciphertexts) (*Ciphertexts, error) {
	const op = "sum of products, rescaled"
	if len(products) == 0 {
		return nil, fmt.Errorf("%s: %w: no product", op, ErrParams)
	}
	first := products[0]
	for i, p := range products {
		if err := be.pair(op, p[0], p[1], false); err != nil {
			return nil, err
		}
		if err := be.evs[0].matches(op, first[0].level, p[0].level, first[0].scale*first[1].scale,
			p[0].scale*p[1].scale, true); err != nil {
			return nil, fmt.Errorf("product %d: %w", i, err)
		}
	}
	if rest != nil {
		if err := be.valid(op, rest); err != nil {
			return nil, err
		}
		if err := be.evs[0].matches(op, first[0].level, rest.level, first[0].scale*first[1].scale, rest.scale,
			true); err != nil {
			return nil, fmt.Errorf("rest: %w", err)
		}
	}
	return be.multiply(op, true, first[0], first[1], addends{products[1:], rest})
}

// addends are what is added to a product before its relinearisation.
type addends struct {
	products [][2]*Ciphertexts
	rest     *Ciphertexts
}

// add adds them to t, three polynomials for each item.
func (a addends) add(c *chain.Chain, be *BatchEvaluator, t *cutrantt.Batch) {
	r := be.ctx.ring
	for _, p := range a.products {
		more := c.Result(t.Polys(), t.Limbs(), t.Domain())
		if c.Err() != nil {
			return
		}
		each := c.Each(more, 3)
		c.Do(func() error { return cutrantt.MulTensor(r, each, p[0].items, p[1].items) })
		c.Op3(r.Add, t, t, more)
	}
	if a.rest == nil {
		return
	}
	for i, item := range a.rest.items {
		to := c.View(t, 3*i, 3*i+2, 0, len(t.Limbs()))
		c.Op3(r.Add, to, to, item)
	}
}

func (be *BatchEvaluator) product(op string, merge bool, a, b *Ciphertexts) (*Ciphertexts, error) {
	if err := be.pair(op, a, b, false); err != nil {
		return nil, err
	}
	return be.multiply(op, merge, a, b, addends{})
}

// multiply returns a*b, each item under its own key. If merge is set, it rescales as well:
// (acc + P*low)/(P*q_top), where acc is the sum of digits times keys and (low_0, low_1, d2)
// the product of degree 2 and the sum of what else is added. The caller has checked the operands.
func (be *BatchEvaluator) multiply(op string, merge bool, a, b *Ciphertexts, more addends) (*Ciphertexts, error) {
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
		more.add(c, be, t)
		c.Do(func() error { return cutrantt.SwitchKeys(ctx.ring, ctx.gadget(), items) })
	})
}

// Relinearise makes ciphertexts of degree 1 from products (d0, d1, d2) of degree 2, three polynomials each in one
// batch, at a level and scale: (d0, d1) plus d2 switched from s^2. All use the evaluator's key. Each result has
// memory of its own.
func (ev *Evaluator) Relinearise(products *cutrantt.Batch, level int, scale float64) ([]*Ciphertext, error) {
	const op = "relinearise"
	if ev == nil || ev.ctx == nil {
		return nil, fmt.Errorf("%s: %w: evaluator without a context", op, ErrParams)
	}
	if products == nil || products.Polys()%3 != 0 {
		return nil, fmt.Errorf("%s: %w: products have three polynomials each", op, ErrDegree)
	}
	ctx := ev.ctx
	if err := ctx.checkIn("product", products, products.Polys(), level, scale, ctx.Domain()); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	key, err := ev.relin(op, level)
	if err != nil {
		return nil, err
	}
	c, limbs := chain.New(ctx.ring), products.Limbs()
	out := make([]*Ciphertext, products.Polys()/3)
	items := make([]cutrantt.KeySwitch, len(out))
	for i := range out {
		out[i] = &Ciphertext{Value: c.Result(2, limbs, ctx.Domain()), Level: level, Scale: scale}
		items[i] = cutrantt.KeySwitch{
			Dst: out[i].Value, X: c.Poly(products, 3*i+2), Low: c.View(products, 3*i, 3*i+2, 0, len(limbs)), Key: key,
		}
	}
	c.Do(func() error { return cutrantt.SwitchKeys(ctx.ring, ctx.gadget(), items) })
	for _, ct := range out {
		_, _ = c.Keep(ct.Value)
	}
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}
