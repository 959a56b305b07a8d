package bfv

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Products follow Kim, Polyakov and Zucca (eprint 2021/204), the variant that scales one factor first: with the
// auxiliary modulus B of as many primes as Q,
//
//	b' = B/Q * b                rounded, so an integer of at most B/2
//	d  = t/B * (a times b')     rounded, over the integers
//
// and d modulo Q is the product of degree 2. The products of polynomials are computed modulo Q*B; that they wrap
// around only changes d by a multiple of Q.

// Mul is a * b, relinearised. It needs the relinearisation key.
func (ev *Evaluator) Mul(a, b *Ciphertext) (*Ciphertext, error) {
	cts, err := ev.MulBatch([]*Ciphertext{a}, []*Ciphertext{b})
	if err != nil {
		return nil, err
	}
	return cts[0], nil
}

// MulBatch is Mul for each pair of a and b. A GPU multiplies them together. It fails as a whole, with henc.ErrParams
// if the lengths differ.
func (ev *Evaluator) MulBatch(a, b []*Ciphertext) ([]*Ciphertext, error) {
	const op = "multiply"
	if len(a) != len(b) {
		return nil, fmt.Errorf("%s: %w: %d and %d factors", op, henc.ErrParams, len(a), len(b))
	}
	if len(a) == 0 {
		return nil, nil
	}
	noise := make([]Noise, len(a))
	for i := range a {
		if err := ev.valid(op, a[i], b[i]); err != nil {
			return nil, err
		}
		noise[i] = ev.noise().Mul(a[i].Noise, b[i].Noise)
		if err := ev.fits(op, noise[i]); err != nil {
			return nil, err
		}
	}
	out := make([]*Ciphertext, 0, len(a))
	for lo := 0; lo < len(a); lo += ev.ctx.together(len(a)) {
		hi := min(lo+ev.ctx.together(len(a)), len(a))
		cts, err := ev.multiply(values(a[lo:hi]), values(b[lo:hi]))
		if err != nil {
			ev.ctx.Free(out...)
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		for i, ct := range cts {
			out = append(out, wrap(ct, noise[lo+i]))
		}
	}
	return out, nil
}

// multiply is MulBatch of valid ciphertexts, all at once.
func (ev *Evaluator) multiply(a, b []*cutrantt.Batch) (cts []*henc.Ciphertext, err error) {
	ctx := ev.ctx
	c := chain.New(ctx.ring())
	d := ctx.products(c, a, b)
	c.Do(func() error { cts, err = ev.base.Relinearise(d, ctx.params.level(), ctx.Scale()); return err })
	return cts, c.Close()
}

// together is how many of count items to compute at once: a processor works best with what its caches hold.
func (ctx *Context) together(count int) int {
	if _, host := ctx.ring().(cutrantt.Direct); host {
		return 1
	}
	return max(1, min(count, 32))
}

func values(cts []*Ciphertext) []*cutrantt.Batch {
	out := make([]*cutrantt.Batch, len(cts))
	for i, ct := range cts {
		out[i] = ct.Value
	}
	return out
}

// products returns the products of degree 2, three polynomials each, over Q in the transform domain.
func (ctx *Context) products(c *chain.Chain, a, b []*cutrantt.Batch) *cutrantt.Batch {
	r, n, q := ctx.ring(), len(a), len(ctx.limbs.q)
	domain := ctx.base.Domain()
	t := c.Result(3*n, ctx.limbs.both, domain)
	onQ, onAux := c.View(t, 0, 3*n, 0, q), c.View(t, 0, 3*n, q, len(ctx.limbs.both))
	// a modulo B, and b' modulo Q and B. The factor t goes to one factor of each half.
	x := ctx.joined(c, a)
	aAux := ctx.extended(c, x, ctx.limbs.aux, nil, ctx.tQ[q:])
	if !slices.Equal(a, b) {
		x = ctx.joined(c, b)
	}
	bQ, bAux := ctx.scaled(c, x)
	c.Op2(r.Forward, aAux, aAux)
	c.Op2(r.Forward, bQ, bQ)
	c.Op2(r.Forward, bAux, bAux)
	c.Do(func() error { return cutrantt.MulTensor(r, c.Each(onQ, 3), a, c.Each(bQ, 2)) })
	c.Do(func() error { return cutrantt.MulTensor(r, c.Each(onAux, 3), c.Each(aAux, 2), c.Each(bAux, 2)) })
	c.Do(func() error { t.SetDomain(domain); return nil })
	d := c.Result(3*n, ctx.limbs.q, domain)
	c.Op2(r.DivRound, d, t)
	return d
}

// joined returns the coefficients of ciphertexts as one batch.
func (ctx *Context) joined(c *chain.Chain, cts []*cutrantt.Batch) *cutrantt.Batch {
	r := ctx.ring()
	out := c.Result(2*len(cts), ctx.limbs.q, ctx.coeffs())
	if len(cts) == 1 {
		c.Op2(r.Inverse, out, cts[0])
		return out
	}
	c.Do(func() error { out.SetDomain(ctx.base.Domain()); return cutrantt.Collect(r, out, cts) })
	c.Op2(r.Inverse, out, out)
	return out
}

// extended returns x times pre, coefficients over some limbs, as centred integers over others, times post. Of x nothing
// is left if there is pre.
func (ctx *Context) extended(c *chain.Chain, x *cutrantt.Batch, limbs []int, pre, post []uint32) *cutrantt.Batch {
	if c.Err() != nil {
		return nil
	}
	out := c.Result(x.Polys(), limbs, ctx.coeffs())
	c.Do(func() error { return cutrantt.ExtendScaled(ctx.ring(), out, x, pre, post) })
	return out
}

// scaled returns B/Q*x rounded, of x that it overwrites, times t over Q and as it is over B: (B*x - [B*x]_Q)/Q modulo a
// prime of B is -[B*x]_Q/Q.
func (ctx *Context) scaled(c *chain.Chain, x *cutrantt.Batch) (onQ, onAux *cutrantt.Batch) {
	onAux = ctx.extended(c, x, ctx.limbs.aux, ctx.auxQ, ctx.minusInv)
	return ctx.extended(c, onAux, ctx.limbs.q, nil, ctx.tQ[:len(ctx.limbs.q)]), onAux
}
