package henc

import (
	"fmt"
	"math"
	"math/big"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// AddPlain is a + pt, slot by slot; level and scale must match. It adds no noise
// beyond the encoding's rounding.
func (ev *Evaluator) AddPlain(a *Ciphertext, pt *Plaintext) (*Ciphertext, error) {
	return ev.shiftPlain("add plaintext", a, pt, cutrantt.Ring.Add)
}

// SubPlain is a - pt, slot by slot; level and scale must match.
func (ev *Evaluator) SubPlain(a *Ciphertext, pt *Plaintext) (*Ciphertext, error) {
	return ev.shiftPlain("subtract plaintext", a, pt, cutrantt.Ring.Sub)
}

func (ev *Evaluator) shiftPlain(
	op string, a *Ciphertext, pt *Plaintext, f func(r cutrantt.Ring, dst, a, b *cutrantt.Batch) error,
) (*Ciphertext, error) {
	if err := ev.withPlain(op, a, pt, true); err != nil {
		return nil, err
	}
	return ev.run(op, a.Level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		r := ev.ctx.ring
		c.Op2(r.Copy, c.Poly(out, 1), c.Poly(a.Value, 1))
		c.Do(func() error { return f(r, c.Poly(out, 0), c.Poly(a.Value, 0), pt.Value) })
	})
}

// MulPlain is a * pt, slot by slot; the levels must match, the scales multiply.
func (ev *Evaluator) MulPlain(a *Ciphertext, pt *Plaintext) (*Ciphertext, error) {
	const op = "multiply by plaintext"
	if err := ev.withPlain(op, a, pt, false); err != nil {
		return nil, err
	}
	return ev.run(op, a.Level, a.Scale*pt.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Op3(ev.ctx.ring.Mul, out, a.Value, pt.Value)
	})
}

// MulPlain is Evaluator.MulPlain of each item and one plaintext.
func (be *BatchEvaluator) MulPlain(a *Ciphertexts, pt *Plaintext) (*Ciphertexts, error) {
	const op = "multiply by plaintext"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	if err := be.evs[0].withPlain(op, a.At(0), pt, false); err != nil {
		return nil, err
	}
	return be.result(op, a.level, a.scale*pt.Scale, func(c *chain.Chain, out *Ciphertexts) {
		c.Op3(be.ctx.ring.Mul, out.whole, be.joined(c, a), pt.Value)
	})
}

func (ev *Evaluator) withPlain(op string, a *Ciphertext, pt *Plaintext, scales bool) error {
	if err := ev.valid(op, a); err != nil {
		return err
	}
	if err := ev.ctx.CheckPlaintext(pt); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return ev.matches(op, a.Level, pt.Level, a.Scale, pt.Scale, scales)
}

// AddConst adds the real constant v to every slot, rounded to a multiple of
// 1/scale. It costs no level and adds no noise beyond the rounding.
func (ev *Evaluator) AddConst(a *Ciphertext, v float64) (*Ciphertext, error) {
	const op = "add constant"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	k, err := ev.residues(v*a.Scale, a.Level)
	if err != nil {
		return nil, fmt.Errorf("%s %g: %w", op, v, err)
	}
	return ev.run(op, a.Level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		r := ev.ctx.ring
		c.Op2(r.Copy, c.Poly(out, 1), c.Poly(a.Value, 1))
		c.Do(func() error { return r.AddScalar(c.Poly(out, 0), c.Poly(a.Value, 0), k) })
	})
}

// AddConst is Evaluator.AddConst for each item.
func (be *BatchEvaluator) AddConst(a *Ciphertexts, v float64) (*Ciphertexts, error) {
	const op = "add constant"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	k, err := be.evs[0].residues(v*a.scale, a.level)
	if err != nil {
		return nil, fmt.Errorf("%s %g: %w", op, v, err)
	}
	return be.result(op, a.level, a.scale, func(c *chain.Chain, out *Ciphertexts) {
		c.Do(func() error {
			return cutrantt.Combine(be.ctx.ring, out.items, []cutrantt.Term{{Of: a.items}}, k, false)
		})
	})
}

// AddConstInPlace is AddConst that overwrites a, the result of an operation which nobody else uses.
func (be *BatchEvaluator) AddConstInPlace(a *Ciphertexts, v float64) error {
	const op = "add constant"
	if err := be.valid(op, a); err != nil {
		return err
	}
	k, err := be.evs[0].residues(v*a.scale, a.level)
	if err != nil {
		return fmt.Errorf("%s %g: %w", op, v, err)
	}
	if err := cutrantt.Combine(be.ctx.ring, a.items, nil, k, true); err != nil {
		return fmt.Errorf("%s %g: %w", op, v, err)
	}
	return nil
}

// MulConst multiplies every slot by the real constant v at scale constScale: by
// the integer round(v*constScale), with the scales multiplied. The result is off
// by at most the slot value times 1/(2*constScale), or 2^-53*v where that is more
// (float64). constScale 0 means the primes
// that the next rescaling drops, so that Rescale restores the scale of a; at level
// 0, where none follows, it is ErrLevel.
func (ev *Evaluator) MulConst(a *Ciphertext, v, constScale float64) (*Ciphertext, error) {
	const op = "multiply by constant"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	k, scale, err := ev.constant(op, a.Level, a.Scale, v, constScale)
	if err != nil {
		return nil, err
	}
	return ev.run(op, a.Level, scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Do(func() error { return ev.ctx.ring.MulScalar(out, a.Value, k) })
	})
}

// MulConst is Evaluator.MulConst for each item.
func (be *BatchEvaluator) MulConst(a *Ciphertexts, v, constScale float64) (*Ciphertexts, error) {
	const op = "multiply by constant"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	k, scale, err := be.evs[0].constant(op, a.level, a.scale, v, constScale)
	if err != nil {
		return nil, err
	}
	return be.result(op, a.level, scale, func(c *chain.Chain, out *Ciphertexts) {
		x := be.joined(c, a)
		c.Do(func() error { return be.ctx.ring.MulScalar(out.whole, x, k) })
	})
}

// constant is v at constScale, as MulConst takes it, modulo every prime of level, and the
// scale of the product.
func (ev *Evaluator) constant(op string, level int, scale, v, constScale float64) ([]uint32, float64, error) {
	if constScale == 0 {
		if level == 0 {
			return nil, 0, fmt.Errorf(
				"%s: %w: level 0 has no rescaling to take the constant's scale from; give one", op, ErrLevel,
			)
		}
		constScale = ev.ctx.params.RescaleFactor(level)
	}
	if !(constScale >= 1) || math.IsInf(constScale, 0) {
		return nil, 0, fmt.Errorf("%s: %w: constant scale %g is below 1 or not finite", op, ErrScale, constScale)
	}
	k, err := ev.residues(v*constScale, level)
	if err != nil {
		return nil, 0, fmt.Errorf("%s %g: %w", op, v, err)
	}
	return k, scale * constScale, nil
}

// MulInt multiplies every slot by an integer, exactly; level and scale stay.
func (ev *Evaluator) MulInt(a *Ciphertext, n int64) (*Ciphertext, error) {
	const op = "multiply by integer"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	k, err := ev.residuesBig(big.NewInt(n), a.Level)
	if err != nil {
		return nil, fmt.Errorf("%s %d: %w", op, n, err)
	}
	return ev.run(op, a.Level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
		c.Do(func() error { return ev.ctx.ring.MulScalar(out, a.Value, k) })
	})
}

// residues is round(x) modulo every prime of level.
func (ev *Evaluator) residues(x float64, level int) ([]uint32, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, fmt.Errorf("%w: the constant is not finite at this scale", ErrMessage)
	}
	n, _ := big.NewFloat(math.RoundToEven(x)).Int(nil)
	return ev.residuesBig(n, level)
}

// residuesBig is x modulo every prime of level; |x| must be below Q_level/2.
func (ev *Evaluator) residuesBig(x *big.Int, level int) ([]uint32, error) {
	p := ev.ctx.params
	if twice := new(big.Int).Lsh(x, 1); twice.CmpAbs(p.data().productQ[level]) >= 0 {
		return nil, fmt.Errorf("%w: the constant has %d bits at this scale, the modulus at level %d has %.1f",
			ErrMessage, x.BitLen(), level, p.LogQ(level))
	}
	out := make([]uint32, p.LimbsAt(level))
	var q, m big.Int
	for i := range out {
		q.SetUint64(uint64(p.data().lit.Q[i]))
		out[i] = uint32(m.Mod(x, &q).Uint64())
	}
	return out, nil
}
