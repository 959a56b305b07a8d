package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Hybrid key switching (Han and Ki, eprint 2019/688). A polynomial x modulo Q_l
// is cut into digits x_d = [x] modulo the primes of digit d, each extended to
// Q_l*P; the key's digits turn sum x_d*(b_d, a_d) into an encryption of P*x*t
// with noise sum x_d*e_d, and dividing by P leaves x*t under s with that noise
// divided by P. At a lower level a digit just has fewer primes, so one key
// serves every level.

// switching checks key and returns the operand for the digits of level.
func (ev *Evaluator) switching(key *SwitchingKey, level int) (cutrantt.Operand, error) {
	if err := key.check(ev.ctx); err != nil {
		return nil, err
	}
	digits := ev.ctx.params.Dnum(level)
	if digits == 0 {
		return nil, fmt.Errorf("%w: level %d has no digits", ErrLevel, level)
	}
	return key.operand(ev.ctx, digits)
}

// decompose cuts the single polynomial x (NTT domain, limbs of level) into its
// digits, extended over Q_level and P and transformed: Dnum(level) polynomials.
// A digit's own limbs are x's, so they are copied, not transformed again.
func (ev *Evaluator) decompose(c *chain.Chain, x *cutrantt.Batch, level int) *cutrantt.Batch {
	r, p, n2 := ev.ctx.ring, ev.ctx.params, ev.ctx.n2
	digits, alpha, limbs := p.Dnum(level), p.Alpha(), p.QLimbs(level)
	all := p.QPLimbs(level)
	coeff := c.Batch(1, limbs, cutrantt.Coeffs(n2))
	c.Op2(r.Inverse, coeff, x)
	out := c.Batch(digits, all, cutrantt.Coeffs(n2))
	for d := range digits {
		lo, hi := d*alpha, min((d+1)*alpha, len(limbs))
		c.Op2(r.Extend, c.View(out, d, d+1, 0, len(all)), c.View(coeff, 0, 1, lo, hi))
		for _, part := range [2][2]int{{0, lo}, {hi, len(all)}} {
			if part[0] < part[1] {
				v := c.View(out, d, d+1, part[0], part[1])
				c.Op2(r.Forward, v, v)
			}
		}
		c.Do(func() error {
			own := c.View(out, d, d+1, lo, hi)
			own.SetDomain(cutrantt.NTT(n2))
			return r.Copy(own, c.View(x, 0, 1, lo, hi))
		})
	}
	c.Do(func() error { out.SetDomain(cutrantt.NTT(n2)); return nil })
	return out
}

// innerProduct is sum over d of digits_d*(b_d, a_d) over Q_level and P.
func (ev *Evaluator) innerProduct(c *chain.Chain, digits *cutrantt.Batch, key cutrantt.Operand, level int) *cutrantt.Batch {
	acc := c.Batch(2, ev.ctx.params.QPLimbs(level), ev.ctx.Domain())
	c.Do(func() error { return ev.ctx.ring.MulOperand(acc, digits, key) })
	return acc
}
