package cpu

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
)

// keySwitch is a key switch at work. It goes limb by limb: the limbs that are dropped
// first, whose sums of digits times keys become the digits of a division, and then the
// kept ones, whose sums are divided at once and never lie in memory together. The
// transforms of one limb follow each other and share its twiddles.
type keySwitch struct {
	*switchPlan
	r     *ring
	items []cutrantt.KeySwitch // with one X
	x     *cutrantt.Batch
	where []int // the limb of the key for each of mods

	y rows // digits of x
	v rows // of each digit
	// Digits of each sum over the dropped limbs, polynomial by polynomial of the
	// items, each followed by its v.
	z rows
}

// switchTogether switches items with one X.
func (r *ring) switchTogether(g cutrantt.Gadget, items []cutrantt.KeySwitch) error {
	x := items[0].X
	p := r.findSwitch(g, x.Limbs(), len(items[0].Dst.Limbs()))
	if p == nil {
		all := append(slices.Clone(x.Limbs()), g.Special...)
		if err := r.check.Shape(1, all, x.Domain()); err != nil {
			return err
		}
		p = r.switchPlan(g, x.Limbs(), len(items[0].Dst.Limbs()))
	}
	key := items[0].Key.Shape().Limbs
	where := make([]int, len(p.mods))
	for i := range where {
		l := 0
		if i < p.own {
			l = x.Limbs()[i]
		} else {
			l = g.Special[i-p.own]
		}
		if where[i] = slices.Index(key, l); where[i] < 0 {
			return fmt.Errorf("%w: the key has no limb for modulus %d", cutrantt.ErrShape, l)
		}
	}
	n, stride := r.n, rowStride(r.n)
	sums, dropped := 2*len(items), len(p.mods)-p.down.keep
	buf := getScratch((p.own+len(p.digits))*stride + sums*(dropped+1)*stride)
	defer buf.putPublic()
	all := rows{buf.words, stride}
	s := &keySwitch{switchPlan: p, r: r, items: items, x: x, where: where,
		y: all, v: all.from(p.own), z: all.from(p.own + len(p.digits))}

	r.run(p.own, n*r.logN, func(i int) {
		d := p.digits[i/g.Alpha]
		r.digit(d.basis, i-d.lo, s.y.row(i, 0, n), r.limb(x, 0, i))
	})
	r.run(
		len(p.digits), n*g.Alpha,
		func(d int) { r.rounds(p.digits[d].basis, s.y.from(p.digits[d].lo), s.v.row(d, 0, n)) },
	)
	if dropped == 0 { // no remainders
		s.limbs(0, len(p.mods), len(p.digits))
	} else {
		s.limbs(p.down.keep, len(p.mods), len(p.digits))
		r.run(sums, n*dropped, func(i int) {
			digits, v := s.sum(i)
			r.rounds(p.down.basis, digits, v)
		})
		s.limbs(0, p.down.keep, len(p.digits)+sums)
	}
	for _, it := range items {
		it.Dst.SetDomain(x.Domain())
	}
	return nil
}

// sum is the digits over the dropped limbs of polynomial i of the items.
func (s *keySwitch) sum(i int) (digits rows, v []uint32) {
	k := len(s.mods) - s.down.keep
	return s.z.from(i * (k + 1)), s.z.row(i*(k+1)+k, 0, s.r.n)
}

// limbs works off the limbs from lo up to hi, all dropped or all kept, with per rows
// of working memory for each.
func (s *keySwitch) limbs(lo, hi, per int) {
	r := s.r
	words := per * rowStride(r.n)
	size := r.liftGroup(s.few, hi-lo, words, s.own*r.n)
	r.run((hi-lo+size-1)/size, size*per*r.n*r.logN, func(g int) {
		first := lo + g*size
		s.group(first, min(first+size, hi), per)
	})
}

// group works off the limbs from first up to last: the digits of x modulo them, their
// products with the keys, and for kept limbs the remainders of the sums.
func (s *keySwitch) group(first, last, per int) {
	r, n, stride := s.r, s.r.n, rowStride(s.r.n)
	count := len(s.digits)
	buf := getScratch(((last-first)*per + 2) * stride)
	defer buf.putPublic()
	all := rows{buf.words, stride}
	sums := all.from((last - first) * per)
	of := func(i int) rows { return rows{buf.words[i*stride:], per * stride} } // row i of every limb
	for d, digit := range s.digits {
		r.lift(digit.lift, first, last, of(d), s.y.from(digit.lo), s.v.row(d, 0, n))
	}
	for i := range per - count { // none for dropped limbs
		digits, v := s.sum(i)
		r.lift(s.down.lift, first, last, of(count+i), digits, v)
	}
	for j := first; j < last; j++ {
		m, row, own := s.mods[j], all.from((j-first)*per), -1
		for d, digit := range s.digits {
			e := row.row(d, 0, n)
			switch {
			case digit.lift.mods[j] != nil:
				r.forward(e, e, m)
			case r.vec.innerOwn != nil:
				own = d // the digit's own limb is x's
			default:
				copy(e, r.limb(s.x, 0, j))
			}
		}
		for i, it := range s.items {
			o := it.Key.(*operand)
			key, step := o.pieces(0, s.where[j], 0)
			if own >= 0 {
				r.vec.innerOwn(
					&sums.words[0], &row.words[0], key, &r.limb(s.x, 0, j)[0], own, stride, stride, o.piece, step,
					count, n, uint32(m.qinv), m.q,
				)
			} else {
				r.vec.inner[1](
					&sums.words[0], &row.words[0], key, stride, stride, o.piece, step, count, n, uint32(m.qinv), m.q,
				)
			}
			for p := range 2 {
				sum := sums.row(p, 0, n)
				merged := s.down.keep != s.own
				if merged && it.Low != nil && p < it.Low.Polys() && j < len(it.Low.Limbs()) {
					s.addLow(sum, it.Low, p, j)
				}
				if s.down.keep == len(s.mods) { // nothing is divided
					if z := r.limb(it.Dst, p, j); it.Galois > 1 {
						r.turn(it.Galois).apply(r, z, sum)
					} else {
						copy(z, sum)
					}
					continue
				}
				if j >= s.down.keep {
					digits, _ := s.sum(2*i + p)
					k := j - s.down.keep
					r.digit(s.down.basis, k, digits.row(k, 0, n), sum)
					continue
				}
				s.finish(it, p, j, sum, row.row(count+2*i+p, 0, n))
			}
		}
	}
}

// finish divides limb j of polynomial p of an item, given the sum and its remainder e
// before its transform, and adds and turns what the item asks for.
func (s *keySwitch) finish(it cutrantt.KeySwitch, p, j int, sum, e []uint32) {
	r, m, z := s.r, s.mods[j], s.r.limb(it.Dst, p, j)
	d := quotient{dst: z, from: sum, w: &s.down.pairs[j]}
	merged := s.down.keep < s.own
	if it.Low != nil && p < it.Low.Polys() && !merged {
		d.z = r.limb(it.Low, p, j)
	}
	if it.Galois > 1 {
		d.dst = sum
	}
	r.divideBy(&d, e, m)
	if it.Galois > 1 {
		r.turn(it.Galois).apply(r, z, sum)
	}
}

// addLow adds the product of the special moduli times limb j of polynomial p of b to a sum, or the limb itself where b
// has the special ones too.
func (s *keySwitch) addLow(sum []uint32, b *cutrantt.Batch, p, j int) {
	r, m := s.r, s.mods[j]
	low := r.limb(b, p, j)
	if len(b.Limbs()) > s.own {
		r.vec.add(&sum[0], &sum[0], &low[0], r.n, m.q)
		return
	}
	tmp := getScratch(r.n)
	defer tmp.putPublic()
	r.vec.scale(&tmp.words[0], &low[0], r.n, &s.low[j], m.q)
	r.vec.add(&sum[0], &sum[0], &tmp.words[0], r.n, m.q)
}

var _ cutrantt.Fused = (*ring)(nil)

// fusible refuses what fused operations do not do: plain Go, and n2 > 1.
func (r *ring) fusible(what string, b *cutrantt.Batch) error {
	if n2 := b.Domain().N2; r.vec == nil || n2 != 1 {
		return fmt.Errorf(
			"%w: %s at once with %d columns of %s code", cutrantt.ErrNotSupported, what, n2,
			r.backend.(backend).variant(),
		)
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
				z.Offset(1, l)-z.Offset(0, l), x.Offset(1, l)-x.Offset(0, l), y.Offset(1, l)-y.Offset(0, l),
				hi-lo, mu, s, m.q)
		})
		z.SetDomain(x.Domain())
	}
	return nil
}

// DivRounds has nothing to share between batches.
func (r *ring) DivRounds(_, src []*cutrantt.Batch) error {
	return fmt.Errorf("%w: dividing %d batches at once", cutrantt.ErrNotSupported, len(src))
}

// Collect is as fast one by one.
func (r *ring) Collect(_ *cutrantt.Batch, src []*cutrantt.Batch) error {
	return fmt.Errorf("%w: copying %d batches at once", cutrantt.ErrNotSupported, len(src))
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
