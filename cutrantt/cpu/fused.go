package cpu

import (
	"fmt"
	"slices"

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

// switchTogether switches items with one X.
func (r *ring) switchTogether(g cutrantt.Gadget, items []cutrantt.KeySwitch) error {
	x := items[0].X
	all := append(slices.Clone(x.Limbs()), g.Special...)
	if err := r.check.Shape(1, all, x.Domain()); err != nil {
		return err
	}
	mods := r.lookup(all)
	where := make([]int, len(all))
	for i, l := range all {
		if where[i] = slices.Index(items[0].Key.Shape().Limbs, l); where[i] < 0 {
			return fmt.Errorf("%w: the key has no limb for modulus %d", cutrantt.ErrShape, l)
		}
	}
	sums := make([]*scratch, len(items))
	for i := range sums {
		sums[i] = getScratch(2 * len(all) * r.n)
		defer sums[i].putPublic()
	}
	r.innerProducts(g, items, mods, where, sums)
	d := r.newDivider(mods, len(items[0].Dst.Limbs()))
	for i, it := range items {
		r.finishSwitch(d, it, sums[i].words, len(x.Limbs()))
	}
	return nil
}

// innerProducts sets the sums of each item: two polynomials over mods, limb by limb.
func (r *ring) innerProducts(g cutrantt.Gadget, items []cutrantt.KeySwitch, mods []*modulus, where []int, sums []*scratch) {
	x, n := items[0].X, r.n
	limbs := len(x.Limbs())
	count := g.Digits(limbs)
	span := func(d int) (lo, hi int) { return d * g.Alpha, min((d+1)*g.Alpha, limbs) }
	stride := rowStride(n)
	buf := getScratch(limbs*stride + count*n)
	defer buf.putPublic()
	y, v := rows{buf.words, stride}, rows{buf.words[limbs*stride:], n}
	r.run(limbs, n*r.logN, func(i int) { r.inverse(y.row(i, 0, n), r.limb(x, 0, i), mods[i]) })
	bases := make([]*basis, count)
	r.run(count, n*g.Alpha, func(d int) {
		lo, hi := span(d)
		bases[d] = r.newBasis(mods[lo:hi])
		part := rows{y.words[lo*stride:], stride}
		r.digits(bases[d], part, part, v.row(d, 0, n), 0, n)
	})
	size := groupSize(limbs, n)
	r.run((len(mods)+size-1)/size, size*count*n*r.logN, func(group int) {
		first, last := group*size, min((group+1)*size, len(mods))
		tmp := getScratch((last - first) * count * n)
		defer tmp.putPublic()
		targets := make([]*target, last-first)
		for d := range count {
			lo, hi := span(d)
			row := func(i int) []uint32 { at := (i*count + d) * n; return tmp.words[at : at+n] }
			for j := first; j < last; j++ {
				targets[j-first] = nil
				if j < lo || j >= hi {
					targets[j-first] = r.target(bases[d], mods[j])
				}
			}
			r.extendGroup(targets, row, rows{y.words[lo*stride:], stride}, v.row(d, 0, n), hi-lo)
			for i, t := range targets {
				if t == nil { // a digit's own limb: it is x's
					copy(row(i), r.limb(x, 0, first+i))
				} else {
					r.forward(row(i), row(i), mods[first+i])
				}
			}
		}
		for j := first; j < last; j++ {
			m := mods[j]
			for i, it := range items {
				o := it.Key.(*operand)
				y, step := o.pieces(0, where[j], 0)
				r.vec.inner[1](&sums[i].words[j*n], &tmp.words[(j-first)*count*n], y, len(mods)*n, n, o.piece, step, count, n, uint32(m.qinv), m.q)
			}
		}
	})
}

// finishSwitch divides the sums of an item and adds and turns what it asks for.
func (r *ring) finishSwitch(d *divider, it cutrantt.KeySwitch, sums []uint32, limbs int) {
	n := r.n
	merged := d.keep < limbs
	var t *turn
	if it.Galois > 1 {
		t = newTurn(n, int(it.Galois))
	}
	for p := range 2 {
		row := func(i int) []uint32 { at := (p*len(d.mods) + i) * n; return sums[at : at+n] }
		low := it.Low != nil && p < it.Low.Polys()
		if low && merged {
			r.run(limbs, 2*n, func(j int) { r.addLifted(row(j), r.limb(it.Low, p, j), d.mods[j], d.mods[limbs:]) })
		}
		r.divide(d, row, 1, func(j int, e []uint32) {
			z, m := r.limb(it.Dst, p, j), d.mods[j]
			to := z
			if t != nil {
				to = e
			}
			r.subScale(to, row(j), e, d.inverses[j], m)
			if low && !merged {
				r.vec.add(&to[0], &to[0], &r.limb(it.Low, p, j)[0], n, m.q)
			}
			if t != nil {
				t.apply(r, z, to)
			}
		})
	}
	it.Dst.SetDomain(it.X.Domain())
}

// addLifted adds the product of the special moduli times low to z.
func (r *ring) addLifted(z, low []uint32, m *modulus, special []*modulus) {
	p := uint32(1)
	for _, s := range special {
		p = m.mul(p, m.reduce(uint64(s.q)))
	}
	tmp := getScratch(len(z))
	defer tmp.putPublic()
	w := m.shoup(p)
	r.vec.scale(&tmp.words[0], &low[0], len(z), &w, m.q)
	r.vec.add(&z[0], &z[0], &tmp.words[0], len(z), m.q)
}
