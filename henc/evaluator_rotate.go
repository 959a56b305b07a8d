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
	if err := ev.valid("rotate", a); err != nil {
		return nil, err
	}
	rotated, err := ev.batch().rotate(alone(a), ks)
	if err != nil {
		return nil, err
	}
	out := make([]*Ciphertext, len(rotated))
	for i, r := range rotated {
		out[i] = r.At(0)
	}
	return out, nil
}

// Rotate is Evaluator.Rotate for each item.
func (be *BatchEvaluator) Rotate(a *Ciphertexts, k int) (*Ciphertexts, error) {
	r, err := be.RotateMany(a, []int{k})
	if err != nil {
		return nil, err
	}
	return r[0], nil
}

// RotateMany is Evaluator.RotateMany for each item. Result i is a rotated by ks[i].
func (be *BatchEvaluator) RotateMany(a *Ciphertexts, ks []int) ([]*Ciphertexts, error) {
	if err := be.valid("rotate", a); err != nil {
		return nil, err
	}
	return be.rotate(a, ks)
}

// rotate is RotateMany without the checks of a.
func (be *BatchEvaluator) rotate(a *Ciphertexts, ks []int) ([]*Ciphertexts, error) {
	const op = "rotate"
	elements := make([]uint64, len(ks))
	for i, k := range ks {
		elements[i] = GaloisElement(be.ctx.params, k)
		for _, ev := range be.evs {
			if elements[i] != 1 && (ev.keys == nil || ev.keys.Galois[elements[i]] == nil) {
				return nil, fmt.Errorf("%s by %d: %w: there is no Galois key for element %d", op, k, ErrNoKey,
					elements[i])
			}
		}
	}
	return be.automorphisms(op, a, elements)
}

// Conjugate replaces every slot by its complex conjugate. It needs the Galois
// key of ConjugationElement.
func (ev *Evaluator) Conjugate(a *Ciphertext) (*Ciphertext, error) {
	if err := ev.valid("conjugate", a); err != nil {
		return nil, err
	}
	return first(ev.batch().Conjugate(alone(a)))
}

// Conjugate is Evaluator.Conjugate for each item.
func (be *BatchEvaluator) Conjugate(a *Ciphertexts) (*Ciphertexts, error) {
	const op = "conjugate"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	g := ConjugationElement(be.ctx.params)
	for _, ev := range be.evs {
		if ev.keys == nil || ev.keys.Galois[g] == nil {
			return nil, fmt.Errorf("%s: %w: there is no Galois key for conjugation (element %d)", op, ErrNoKey, g)
		}
	}
	r, err := be.automorphisms(op, a, []uint64{g})
	if err != nil {
		return nil, err
	}
	return r[0], nil
}

// Automorphisms applies X -> X^g for each odd element g below 2N. It needs the Galois key of each element but 1.
// Result i is that of element i; as in RotateMany the results share the digits of a.
func (ev *Evaluator) Automorphisms(a *Ciphertext, elements []uint64) ([]*Ciphertext, error) {
	const op = "automorphism"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	if err := checkElements(op, ev.ctx.params, elements); err != nil {
		return nil, err
	}
	rs, err := ev.batch().automorphisms(op, alone(a), elements)
	if err != nil {
		return nil, err
	}
	out := make([]*Ciphertext, len(rs))
	for i, r := range rs {
		out[i] = r.At(0)
	}
	return out, nil
}

// checkElements refuses what is no automorphism.
func checkElements(op string, p Parameters, elements []uint64) error {
	for _, g := range elements {
		if g%2 == 0 || g >= uint64(2*p.N()) {
			return fmt.Errorf("%s: %w: element %d is not odd or not below 2N", op, ErrParams, g)
		}
	}
	return nil
}

// SumSlots sets slot j to the sum over i < n of slot j + i*stride, by log2(n)
// rotations by stride, 2*stride, ..., n/2*stride. n must be a power of two with
// 1 <= n <= N/2.
func (ev *Evaluator) SumSlots(a *Ciphertext, n, stride int) (*Ciphertext, error) {
	if err := ev.valid("sum slots", a); err != nil {
		return nil, err
	}
	return first(ev.batch().SumSlots(alone(a), n, stride))
}

// SumSlots is Evaluator.SumSlots for each item.
func (be *BatchEvaluator) SumSlots(a *Ciphertexts, n, stride int) (*Ciphertexts, error) {
	const op = "sum slots"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	slots := be.ctx.params.Slots()
	if n < 1 || n > slots || n&(n-1) != 0 {
		return nil, fmt.Errorf("%s: %w: count %d is not a power of two in 1..%d", op, ErrMessage, n, slots)
	}
	if n == 1 {
		return be.copied(op, a, a.level)
	}
	stride %= slots // so that stride*i stays in range
	return be.doubled(op, a, bits.Len(uint(n))-1, func(sum *Ciphertexts, i int) ([]*Ciphertexts, error) {
		return be.rotate(sum, []int{stride << i})
	})
}

// SumAutomorphisms adds to every item its image under X -> X^g, for each of elements in turn: the next image is that of
// the sum so far. It needs the Galois key of each element but 1. It fails with ErrParams for an element that is not
// odd, or not below 2N, and if there is none.
func (be *BatchEvaluator) SumAutomorphisms(a *Ciphertexts, elements []uint64) (*Ciphertexts, error) {
	const op = "sum automorphisms"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	if len(elements) == 0 {
		return nil, fmt.Errorf("%s: %w: no elements", op, ErrParams)
	}
	if err := checkElements(op, be.ctx.params, elements); err != nil {
		return nil, err
	}
	return be.doubled(op, a, len(elements), func(sum *Ciphertexts, i int) ([]*Ciphertexts, error) {
		return be.automorphisms(op, sum, elements[i:i+1])
	})
}

// doubled adds to a, at least once, what next makes of the sum so far.
func (be *BatchEvaluator) doubled(
	op string, a *Ciphertexts, steps int, next func(sum *Ciphertexts, i int) ([]*Ciphertexts, error),
) (*Ciphertexts, error) {
	sum := a
	for i := range steps {
		out, err := next(sum, i)
		if err == nil {
			err = be.accumulate(out[0], sum)
		}
		if sum != a {
			be.Free(sum)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		sum = out[0]
	}
	return sum, nil
}

// accumulate adds b to a, which must be the result of an operation. After an error it frees a.
func (be *BatchEvaluator) accumulate(a, b *Ciphertexts) error {
	c := chain.New(be.ctx.ring)
	c.Op3(be.ctx.ring.Add, a.whole, a.whole, be.joined(c, b))
	err := c.Close()
	if err != nil {
		be.Free(a)
	}
	return err
}

// SumRotations are the rotations that SumSlots(n, stride) needs.
func SumRotations(n, stride int) []int {
	var ks []int
	for i := range max(bits.Len(uint(max(n, 1)))-1, 0) {
		ks = append(ks, stride<<i)
	}
	return ks
}

// automorphisms applies X -> X^elements[k] to every item of a under its keys:
// (c0, c1) becomes phi_g(c0 + k0, k1), where (k0, k1) is c1 switched from s to
// phi_(1/g)(s). The digits of one c1 are shared by all elements. g = 1 is a copy.
func (be *BatchEvaluator) automorphisms(op string, a *Ciphertexts, elements []uint64) ([]*Ciphertexts, error) {
	keys := make([][]cutrantt.Operand, len(elements)) // nil for copies
	for k, g := range elements {
		if g == 1 {
			continue
		}
		var err error
		if keys[k], err = be.operands(func(ev *Evaluator) (cutrantt.Operand, error) {
			return ev.galois(op, g, a.level)
		}); err != nil {
			return nil, err
		}
	}
	ctx := be.ctx
	return ctx.results(op, a.level, len(a.items), len(elements), a.scale, func(c *chain.Chain, out []*Ciphertexts) {
		items := make([]cutrantt.KeySwitch, 0, len(a.items)*len(elements))
		low, x := a.halves(c)
		for i := range x {
			for k, g := range elements {
				if g != 1 {
					items = append(items, cutrantt.KeySwitch{
						Dst: out[k].items[i], X: x[i], Low: low[i], Key: keys[k][i], Galois: g,
					})
				}
			}
		}
		c.Do(func() error { return cutrantt.SwitchKeys(ctx.ring, ctx.gadget(), items) })
		for k, g := range elements {
			if g == 1 {
				c.Do(func() error { return cutrantt.Collect(ctx.ring, out[k].whole, a.items) })
			}
		}
	})
}
