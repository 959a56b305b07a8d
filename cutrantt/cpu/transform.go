package cpu

import (
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

func (r *ring) Forward(dst, src *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	if err := check.Coeffs(src); err != nil {
		return err
	}
	n2 := int(src.Domain().N2)
	r.eachColumn(dst, src, n2, r.forward)
	dst.SetDomain(cutrantt.NTT(n2))
	return nil
}

func (r *ring) Inverse(dst, src *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	if err := check.NTT(src); err != nil {
		return err
	}
	n2 := int(src.Domain().N2)
	r.eachColumn(dst, src, n2, r.inverse)
	dst.SetDomain(cutrantt.Coeffs(n2))
	return nil
}

// forward transforms the column src to dst, which are equal or apart: from [0, q),
// or with vector code from [0, 4q), to [0, q).
func (r *ring) forward(dst, src []uint32, m *modulus) {
	if r.vec != nil {
		r.vec.transform(dst, src, m)
		return
	}
	copy(dst, src)
	forward(dst, m.twiddles(len(dst)), m.q)
}

// inverse undoes forward; in and out in [0, q).
func (r *ring) inverse(dst, src []uint32, m *modulus) {
	if r.vec != nil {
		r.vec.invert(dst, src, m, nil)
		return
	}
	copy(dst, src)
	inverse(dst, m.twiddles(len(dst)), m.inverseScale(len(dst)), m.q)
}

// eachColumn runs f for every column of dst and the one of src.
func (r *ring) eachColumn(dst, src *cutrantt.Batch, n2 int, f func(dst, src []uint32, m *modulus)) {
	n1, limbs := r.n/n2, dst.Limbs()
	per := n2 // columns per task: whole limbs when there are enough of them
	if dst.Polys()*len(limbs) < 2*r.workers {
		per = 1
	}
	r.run(dst.Polys()*len(limbs)*n2/per, per*n1*log2(n1), func(i int) {
		at, c0 := i*per/n2, i*per%n2
		l, p := at/dst.Polys(), at%dst.Polys() // the polynomials of a limb share its table
		to, from := r.limb(dst, p, l), r.limb(src, p, l)
		for c := c0; c < c0+per; c++ {
			f(to[c*n1:(c+1)*n1:(c+1)*n1], from[c*n1:(c+1)*n1], r.moduli[limbs[l]])
		}
	})
}

func (r *ring) Convert(dst, src *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	to, from := dst.Domain(), src.Domain()
	limbs := dst.Limbs()
	r.eachLimb(dst.Polys(), len(limbs), r.n*(r.logN+1), func(p, l int) {
		s := getScratch(2 * r.n)
		a, b := s.words[:r.n], s.words[r.n:]
		copy(a, r.limb(src, p, l))
		a = r.convert(a, b, from, to, r.moduli[limbs[l]])
		copy(r.limb(dst, p, l), a)
		s.put()
	})
	return nil
}

// convert brings the limb in a from one domain to another, using b as well,
// and returns the one that holds the result.
func (r *ring) convert(a, b []uint32, from, to cutrantt.Domain, m *modulus) []uint32 {
	n2, want := int(from.N2), int(to.N2)
	switch {
	case from.NTT && to.NTT:
		if n2 == want {
			return a // without the tables, which are large
		}
		for t := m.twiddles(r.n / min(n2, want)); n2 > want; n2 /= 2 {
			finishLevel(b, a, t, n2, m.q)
			a, b = b, a
		}
		for t := m.twiddles(r.n / n2); n2 < want; n2 *= 2 {
			undoLevel(b, a, t, 2*n2, m.q)
			a, b = b, a
		}
		return a
	case from.NTT:
		n1 := r.n / n2
		for c := range n2 {
			col := a[c*n1 : (c+1)*n1]
			r.inverse(col, col, m)
		}
	}
	if n2 != want {
		relayout(b, a, n2, want)
		a = b
	}
	if to.NTT {
		n1 := r.n / want
		for c := range want {
			col := a[c*n1 : (c+1)*n1]
			r.forward(col, col, m)
		}
	}
	return a
}

// relayout moves coefficients from n2 to want columns.
func relayout(dst, src []uint32, n2, want int) {
	n1, w1 := len(src)/n2, len(dst)/want
	if n2 > want { // column c of src spreads over column c%want of dst
		step := n2 / want
		for c := range n2 {
			to := dst[c%want*w1:]
			for row, x := range src[c*n1 : (c+1)*n1] {
				to[row*step+c/want] = x
			}
		}
		return
	}
	step := want / n2
	for c := range want {
		from := src[c%n2*n1:]
		to := dst[c*w1 : (c+1)*w1]
		for row := range to {
			to[row] = from[row*step+c/n2]
		}
	}
}

// finishLevel splits every block modulo X^n2 - w_b into two modulo
// X^(n2/2) -+ z, z^2 = w_b, z = t[n1+b]: one more level of the transform over
// all columns; in and out in [0, q).
func finishLevel(dst, src []uint32, t []factor, n2 int, q uint32) {
	n1 := len(src) / n2
	z := t[n1 : 2*n1]
	for c := range n2 / 2 {
		lo, hi := src[c*n1:(c+1)*n1], src[(c+n2/2)*n1:][:n1]
		to := dst[2*c*n1 : 2*(c+1)*n1]
		for b := range z {
			u, v := lo[b], z[b].mul(hi[b], uint64(q))
			to[2*b], to[2*b+1] = add(u, v, q), sub(u, v, q)
		}
	}
}

// undoLevel is the inverse of finishLevel and leaves n2 columns. The inverse
// of t[n1+b] is -t[2*n1-1-b].
func undoLevel(dst, src []uint32, t []factor, n2 int, q uint32) {
	n1 := len(src) / n2
	z := t[n1 : 2*n1]
	for c := range n2 / 2 {
		lo, hi := dst[c*n1:(c+1)*n1], dst[(c+n2/2)*n1:][:n1]
		from := src[2*c*n1 : 2*(c+1)*n1]
		for b := range z {
			u, v := from[2*b], from[2*b+1]
			lo[b] = half(add(u, v, q), q)
			hi[b] = half(z[n1-1-b].mul(v-u+q, uint64(q)), q) // from (0, 2q)
		}
	}
}
