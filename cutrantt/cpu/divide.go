package cpu

import "github.com/hencedge/hencedge/cutrantt"

func (r *ring) DivRound(dst, src *cutrantt.Batch) error {
	if err := r.check.DivRound(dst, src); err != nil {
		return err
	}
	domain, n2 := src.Domain(), 0
	if domain.NTT {
		n2 = int(domain.N2)
	}
	limbs, keep := src.Limbs(), len(dst.Limbs())
	if loose := n2 == 1 && r.vec != nil; loose {
		d := r.looseDividers.get(
			shape{limbs: limbs, keep: keep}, func() *divider { return r.newDivider(r.lookup(limbs), keep, true) },
		)
		for p := 0; p < src.Polys(); p += 2 {
			r.divideLoose(d, dst, src, p, min(p+2, src.Polys()))
		}
	} else {
		d := r.dividers.get(
			shape{limbs: limbs, keep: keep}, func() *divider { return r.newDivider(r.lookup(limbs), keep, false) },
		)
		for p := range src.Polys() {
			r.divide(d, dst, src, p, n2)
		}
	}
	dst.SetDomain(domain)
	return nil
}

// divide divides polynomial p. n2 is 0 for coefficients.
func (r *ring) divide(d *divider, dst, src *cutrantt.Batch, p, n2 int) {
	k := len(d.mods) - d.keep
	buf, y, v := newRows(k, r.n)
	defer buf.putPublic()
	r.run(k, r.n*r.logN, func(i int) {
		to, from := y.row(i, 0, r.n), r.limb(src, p, d.keep+i)
		if n2 == 0 {
			copy(to, from)
		} else {
			r.columns(to, from, n2, d.mods[d.keep+i], r.inverse)
		}
	})
	r.run(r.n/chunk, chunk*k, func(c int) { r.digits(d.basis.basis, y, y, v, c*chunk, (c+1)*chunk) })
	r.run(d.keep, r.n*r.logN, func(j int) {
		tmp := getScratch(r.n)
		defer tmp.putPublic()
		e := tmp.words
		r.extend(d.targets[j], e, y, v, 0, r.n)
		if n2 > 0 {
			r.columns(e, e, n2, d.mods[j], r.forward)
		}
		r.subScale(r.limb(dst, p, j), r.limb(src, p, j), e, d.inverse[j], d.mods[j])
	})
}

// divideLoose divides the polynomials from lo up to hi, limb by limb, so that they
// share the twiddles of a limb.
func (r *ring) divideLoose(d *divider, dst, src *cutrantt.Batch, lo, hi int) {
	k, polys, stride := len(d.mods)-d.keep, hi-lo, rowStride(r.n)
	buf := getScratch(polys * (k + 1) * stride)
	defer buf.putPublic()
	y := rows{buf.words, stride}
	of := func(p int) (rows, []uint32) { return y.from(p * (k + 1)), y.row(p*(k+1)+k, 0, r.n) }
	r.run(k, polys*r.n*r.logN, func(i int) {
		for p := range polys {
			r.digit(d.basis, i, y.row(p*(k+1)+i, 0, r.n), r.limb(src, lo+p, d.keep+i))
		}
	})
	r.run(polys, r.n*k, func(p int) {
		digits, v := of(p)
		r.rounds(d.basis, digits, v)
	})
	size := r.liftGroup(d.lift.few != nil, d.keep, polys*stride, len(y.words))
	r.run((d.keep+size-1)/size, size*polys*r.n*r.logN, func(g int) {
		first, last := g*size, min((g+1)*size, d.keep)
		tmp := getScratch((last - first) * polys * stride)
		defer tmp.putPublic()
		for p := range polys {
			digits, v := of(p)
			r.lift(d.lift, first, last, rows{tmp.words[p*stride:], polys * stride}, digits, v)
		}
		for j := first; j < last; j++ {
			for p := range polys {
				e := rows{tmp.words, stride}.row((j-first)*polys+p, 0, r.n)
				m := d.mods[j]
				r.divideBy(&quotient{dst: r.limb(dst, lo+p, j), from: r.limb(src, lo+p, j), w: &d.pairs[j]}, e, m)
			}
		}
	})
}

// columns runs f for the n2 columns of a limb.
func (r *ring) columns(dst, src []uint32, n2 int, m *modulus, f func(dst, src []uint32, m *modulus)) {
	n1 := r.n / n2
	for c := range n2 {
		f(dst[c*n1:(c+1)*n1], src[c*n1:(c+1)*n1], m)
	}
}

// subScale sets z = (x - y)*w; all in [0, q).
func (r *ring) subScale(z, x, y []uint32, w uint32, m *modulus) {
	if r.vec != nil {
		pair := m.shoup(w)
		r.vec.subScale(&z[0], &x[0], &y[0], len(z), &pair, m.q)
		return
	}
	x, y = x[:len(z)], y[:len(z)]
	f := m.factor(w)
	for i := range z {
		z[i] = f.mul(x[i]-y[i]+m.q, uint64(m.q)) // from (0, 2q)
	}
}
