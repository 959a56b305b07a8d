package cpu

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
)

var _ cutrantt.Fused = (*ring)(nil)

// fusible refuses what fused operations do not do: plain Go, and n2 > 1.
func (r *ring) fusible(what string, b *cutrantt.Batch) error {
	if n2 := b.Domain().N2; r.vec == nil || n2 != 1 {
		return fmt.Errorf("%w: %s at once with %d columns of %s code", cutrantt.ErrNotSupported, what, n2, r.backend.(backend).variant())
	}
	return nil
}

// MulTensor reads the factors once for all three products.
func (r *ring) MulTensor(dst, a, b []*cutrantt.Batch) error {
	for i := range dst {
		if err := r.check.Batches(dst[i], a[i], b[i]); err != nil {
			return err
		}
		if err := r.fusible("products", a[i]); err != nil {
			return err
		}
	}
	if len(dst) > 0 && r.vec.tensor == nil {
		return fmt.Errorf("%w: products at once in %s code", cutrantt.ErrNotSupported, r.vec.name)
	}
	for i, z := range dst {
		limbs, x, y := z.Limbs(), a[i], b[i]
		r.eachRows(1, len(limbs), 1, 4, func(_, l, lo, hi int) {
			m := r.moduli[limbs[l]]
			mu, s := m.sums()
			r.vec.tensor(&r.limb(z, 0, l)[lo], &r.limb(x, 0, l)[lo], &r.limb(y, 0, l)[lo],
				z.Offset(1, l)-z.Offset(0, l), x.Offset(1, l)-x.Offset(0, l), y.Offset(1, l)-y.Offset(0, l), hi-lo, mu, s, m.q)
		})
		z.SetDomain(x.Domain())
	}
	return nil
}

// DivRounds has nothing to share between batches.
func (r *ring) DivRounds(_, src []*cutrantt.Batch) error {
	return fmt.Errorf("%w: dividing %d batches at once", cutrantt.ErrNotSupported, len(src))
}

// SwitchKeys makes the digits of all targets limb by limb, so that a limb's digits
// are multiplied while they are in the cache and never lie in memory together.
func (r *ring) SwitchKeys(g cutrantt.Gadget, items []cutrantt.KeySwitch) error {
	for _, it := range items {
		if err := r.check.Batches(it.Dst, it.X); err != nil {
			return err
		}
		if it.Low != nil {
			if err := r.check.Batches(it.Low); err != nil {
				return err
			}
		}
		if o, ok := it.Key.(*operand); !ok || o == nil || o.owner != r.check || o.words == nil {
			return fmt.Errorf("%w: key of another ring or backend, or released", cutrantt.ErrForeign)
		}
		if err := r.fusible("key switching", it.X); err != nil {
			return err
		}
	}
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].X == items[0].X {
			n++
		}
		if err := r.switchTogether(g, items[:n]); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}
