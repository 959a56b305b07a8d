package henc

import (
	"fmt"
	"math/bits"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Rotate moves slot j+k to slot j, cyclically over the N/2 slots; negative k
// rotates the other way. It fails with ErrNoKey, naming the rotation, without
// the Galois key of GaloisElement(k). k = 0 (mod N/2) is a copy.
func (ev *Evaluator) Rotate(a *Ciphertext, k int) (*Ciphertext, error) {
	r, err := ev.RotateMany(a, []int{k})
	if err != nil {
		return nil, err
	}
	return r[0], nil
}

// RotateMany is Rotate for each of ks, hoisted: a is decomposed once for all of
// them. The results equal those of Rotate bit for bit.
func (ev *Evaluator) RotateMany(a *Ciphertext, ks []int) ([]*Ciphertext, error) {
	const op = "rotate"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	elements := make([]uint64, len(ks))
	for i, k := range ks {
		elements[i] = GaloisElement(ev.ctx.params, k)
		if elements[i] == 1 {
			continue
		}
		if ev.galois(elements[i]) == nil {
			return nil, fmt.Errorf("%s by %d: %w: there is no Galois key for element %d", op, k, ErrNoKey, elements[i])
		}
	}
	return ev.automorphisms(op, a, elements)
}

// Conjugate replaces every slot by its complex conjugate. It needs the Galois
// key of ConjugationElement.
func (ev *Evaluator) Conjugate(a *Ciphertext) (*Ciphertext, error) {
	const op = "conjugate"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	g := ConjugationElement(ev.ctx.params)
	if ev.galois(g) == nil {
		return nil, fmt.Errorf("%s: %w: there is no Galois key for conjugation (element %d)", op, ErrNoKey, g)
	}
	r, err := ev.automorphisms(op, a, []uint64{g})
	if err != nil {
		return nil, err
	}
	return r[0], nil
}

// SumSlots sets slot j to the sum over i < n of slot j + i*stride, by log2(n)
// rotations by stride, 2*stride, ..., n/2*stride. n must be a power of two with
// 1 <= n <= N/2.
func (ev *Evaluator) SumSlots(a *Ciphertext, n, stride int) (*Ciphertext, error) {
	const op = "sum slots"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	slots := ev.ctx.params.Slots()
	if n < 1 || n > slots || n&(n-1) != 0 {
		return nil, fmt.Errorf("%s: %w: count %d is not a power of two in 1..%d", op, ErrMessage, n, slots)
	}
	stride %= slots // so that stride*i stays in range
	sum, err := a.Clone(ev.ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	sum.Seed = nil
	for i := 1; i < n; i <<= 1 {
		rot, err := ev.Rotate(sum, stride*i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		next, err := ev.Add(sum, rot)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		ev.ctx.ring.Free(rot.Value)
		ev.ctx.ring.Free(sum.Value)
		sum = next
	}
	return sum, nil
}

// SumRotations are the rotations that SumSlots(n, stride) needs.
func SumRotations(n, stride int) []int {
	var ks []int
	for i := range max(bits.Len(uint(max(n, 1)))-1, 0) {
		ks = append(ks, stride<<i)
	}
	return ks
}

func (ev *Evaluator) galois(g uint64) *SwitchingKey {
	if ev.keys == nil {
		return nil
	}
	return ev.keys.Galois[g]
}

// automorphisms applies X -> X^g for each g: (c0, c1) becomes
// phi_g(c0 + k0, k1), where (k0, k1) is c1 switched from s to phi_(1/g)(s).
// The digits of c1 are shared.
func (ev *Evaluator) automorphisms(op string, a *Ciphertext, elements []uint64) ([]*Ciphertext, error) {
	ctx, level := ev.ctx, a.Level
	shared := chain.New(ctx.ring)
	defer shared.Close()
	var digits *cutrantt.Batch
	results := make([]*Ciphertext, len(elements))
	for i, g := range elements {
		var err error
		if g == 1 {
			if results[i], err = a.Clone(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
			results[i].Seed = nil
			continue
		}
		key, err := ev.switching(ev.galois(g), level)
		if err != nil {
			return nil, fmt.Errorf("%s: key of element %d: %w", op, g, err)
		}
		if digits == nil {
			digits = ev.decompose(shared, shared.Poly(a.Value, 1), level)
			if err := shared.Err(); err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
		}
		results[i], err = ev.run(op, level, a.Scale, func(c *chain.Chain, out *cutrantt.Batch) {
			acc := ev.innerProduct(c, digits, key, level)
			ks := c.Batch(2, out.Limbs(), ctx.Domain())
			c.Op2(ctx.ring.DivRound, ks, acc)
			ks0 := c.Poly(ks, 0)
			c.Op3(ctx.ring.Add, ks0, ks0, c.Poly(a.Value, 0))
			c.Do(func() error { return ctx.ring.Automorphism(out, ks, g) })
		})
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}
