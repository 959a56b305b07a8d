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
	if len(ks) == 0 {
		return []*Ciphertext{}, nil
	}
	elements, evs, cts := make([]uint64, len(ks)), make([]*Evaluator, len(ks)), make([]*Ciphertext, len(ks))
	for i, k := range ks {
		elements[i], evs[i], cts[i] = GaloisElement(ev.ctx.params, k), ev, a
		if elements[i] != 1 && (ev.keys == nil || ev.keys.Galois[elements[i]] == nil) {
			return nil, fmt.Errorf("%s by %d: %w: there is no Galois key for element %d", op, k, ErrNoKey, elements[i])
		}
	}
	return automorphisms(op, evs, cts, elements)
}

// Conjugate replaces every slot by its complex conjugate. It needs the Galois
// key of ConjugationElement.
func (ev *Evaluator) Conjugate(a *Ciphertext) (*Ciphertext, error) {
	const op = "conjugate"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	g := ConjugationElement(ev.ctx.params)
	if ev.keys == nil || ev.keys.Galois[g] == nil {
		return nil, fmt.Errorf("%s: %w: there is no Galois key for conjugation (element %d)", op, ErrNoKey, g)
	}
	return first(automorphisms(op, []*Evaluator{ev}, []*Ciphertext{a}, []uint64{g}))
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

// automorphisms applies X -> X^elements[i] to a[i] under the keys of evs[i]:
// (c0, c1) becomes phi_g(c0 + k0, k1), where (k0, k1) is c1 switched from s to
// phi_(1/g)(s). The digits of one c1 are shared by the elements that follow each
// other. g = 1 is a copy.
func automorphisms(op string, evs []*Evaluator, a []*Ciphertext, elements []uint64) ([]*Ciphertext, error) {
	var items []cutrantt.KeySwitch
	var turned []int // their positions
	var scales []float64
	out := make([]*Ciphertext, len(elements))
	c := chain.New(evs[0].ctx.ring) // for views only
	for i, g := range elements {
		if g == 1 {
			continue
		}
		key, err := evs[i].galois(op, g, a[i].Level)
		if err != nil {
			return nil, err
		}
		it := cutrantt.KeySwitch{Low: c.Poly(a[i].Value, 0), Key: key, Galois: g}
		if n := len(turned); n > 0 && a[turned[n-1]] == a[i] {
			it.X = items[n-1].X
		} else {
			it.X = c.Poly(a[i].Value, 1)
		}
		items, turned, scales = append(items, it), append(turned, i), append(scales, a[i].Scale)
	}
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if len(items) > 0 {
		ctx := evs[0].ctx
		rotated, err := ctx.results(op, a[0].Level, scales, func(c *chain.Chain, dst []*cutrantt.Batch) {
			for i := range items {
				items[i].Dst = dst[i]
			}
			c.Do(func() error { return cutrantt.SwitchKeys(ctx.ring, ctx.gadget(), items) })
		})
		if err != nil {
			return nil, err
		}
		for n, i := range turned {
			out[i] = rotated[n]
		}
	}
	for i, g := range elements {
		if g != 1 {
			continue
		}
		var err error
		if out[i], err = a[i].Clone(evs[i].ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		out[i].Seed = nil
	}
	return out, nil
}
