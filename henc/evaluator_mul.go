package henc

import (
	"fmt"
	"math"

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

// Multiple is a term of MulSumRescale: ciphertexts times the constant By at a scale, as MulConst takes them.
type Multiple struct {
	Of        *Ciphertexts
	By, Scale float64
}

// MulSumRescale is the sum of products and of multiples, relinearised and rescaled once, for one key switch and one
// division instead of one for each, plus a constant as AddConst adds it. Without products it is the multiples, rescaled
// once. All factors and multiples are at one level, and the scales of all are equal, as in a sum. It fails like
// MulRescale and MulConst, with ErrLevel or ErrScale where they are not, and with ErrParams without a product or a
// multiple.
func (be *BatchEvaluator) MulSumRescale(
	products [][2]*Ciphertexts, multiples []Multiple, constant float64,
) (*Ciphertexts, error) {
	const op = "sum of products, rescaled"
	sum := addends{scale: math.NaN()}
	for i, p := range products {
		if err := be.pair(op, p[0], p[1], false); err != nil {
			return nil, err
		}
		if err := sum.fit(be, op, p[0].level, p[0].scale*p[1].scale); err != nil {
			return nil, fmt.Errorf("product %d: %w", i, err)
		}
	}
	for i, m := range multiples {
		if err := be.valid(op, m.Of); err != nil {
			return nil, err
		}
		by, scale, err := be.evs[0].constant(op, m.Of.level, m.Of.scale, m.By, m.Scale)
		if err == nil {
			err = sum.fit(be, op, m.Of.level, scale)
		}
		if err != nil {
			return nil, fmt.Errorf("multiple %d: %w", i, err)
		}
		sum.terms = append(sum.terms, cutrantt.Term{Of: m.Of.items, By: by})
	}
	if math.IsNaN(sum.scale) {
		return nil, fmt.Errorf("%s: %w: no product and no multiple", op, ErrParams)
	}
	if err := sum.raise(be, op, constant); err != nil {
		return nil, err
	}
	if len(products) == 0 {
		return be.rescaledSum(op, sum)
	}
	sum.products = products[1:]
	return be.multiply(op, true, products[0][0], products[0][1], sum)
}

// rescaledSum is the multiples of a sum without products.
func (be *BatchEvaluator) rescaledSum(op string, sum addends) (*Ciphertexts, error) {
	ctx := be.ctx
	if err := ctx.params.CheckScale(sum.level, sum.scale); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	scale, err := be.evs[0].rescaled(sum.level, sum.scale)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return be.result(op, sum.level-1, scale, func(c *chain.Chain, out *Ciphertexts) {
		n := len(out.items)
		each := c.Each(c.Result(2*n, ctx.params.QLimbs(sum.level), ctx.Domain()), 2)
		c.Do(func() error { return cutrantt.Combine(ctx.ring, each, sum.terms, sum.constants, false) })
		c.Do(func() error { return cutrantt.DivRounds(ctx.ring, out.items, each) })
	})
}

// addends are what is added to a product before its relinearisation.
type addends struct {
	level     int     // of all
	scale     float64 // likewise; NaN: there is none so far
	products  [][2]*Ciphertexts
	terms     []cutrantt.Term
	constants []uint32 // nil: none
}

// fit refuses a level or a scale that is not that of the others.
func (a *addends) fit(be *BatchEvaluator, op string, level int, scale float64) error {
	if math.IsNaN(a.scale) {
		a.level, a.scale = level, scale
	}
	return be.evs[0].matches(op, a.level, level, a.scale, scale, true)
}

// raise takes v to what is added before the rescaling: it is rounded at the scale after that, and multiplied by the
// primes that are dropped.
func (a *addends) raise(be *BatchEvaluator, op string, v float64) error {
	if v == 0 {
		return nil
	}
	ev, p := be.evs[0], be.ctx.params
	scale, err := ev.rescaled(a.level, a.scale)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	k, err := ev.residues(v*scale, a.level-1)
	if err != nil {
		return fmt.Errorf("%s, constant %g: %w", op, v, err)
	}
	a.constants = make([]uint32, p.LimbsAt(a.level)) // 0 modulo what is dropped
	for i, x := range k {
		q, y := uint64(p.data().lit.Q[i]), uint64(x)
		for _, dropped := range p.data().lit.Q[len(k):len(a.constants)] {
			y = y * (uint64(dropped) % q) % q
		}
		a.constants[i] = uint32(y)
	}
	return nil
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
	if len(a.terms) == 0 && a.constants == nil {
		return
	}
	var to []*cutrantt.Batch
	for i := range be.evs {
		to = append(to, c.View(t, 3*i, 3*i+2, 0, len(t.Limbs())))
	}
	c.Do(func() error { return cutrantt.Combine(r, to, a.terms, a.constants, true) })
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
