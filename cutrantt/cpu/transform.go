package cpu

import (
	"math/bits"

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
	if r.splits(from, to) {
		r.eachLimb(dst.Polys(), len(limbs), r.n*4, func(p, l int) {
			r.split(r.limb(dst, p, l), r.limb(src, p, l), int(from.N2), int(to.N2), r.moduli[limbs[l]])
		})
		return nil
	}
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

// splits reports whether split brings residues from one domain to another.
func (r *ring) splits(from, to cutrantt.Domain) bool {
	return r.vec != nil && from.NTT && to.NTT && from.N2 > to.N2 && r.n/int(from.N2) >= splitRows
}

// splitRows is the least length of a column for vector code.
const splitRows = 32

// split is finishLevel for all levels from n2 columns to want, src and dst being equal or apart.
//
// It leaves the rows of a column where they are until the last level. After k levels row b of a
// column has split into 2^k rows 2^k*b + s, and the columns into 2^k groups: group s holds the
// rows s of each 2^k. Each level halves the groups, group g to 2g and 2g+1, in place: column c
// of group s of the last level is column s*want + c.
func (r *ring) split(dst, src []uint32, n2, want int, m *modulus) {
	n1, signs := r.n/n2, n2/want
	buf := getScratch(r.n + n1)
	defer buf.put()
	x, v := buf.words[:r.n], buf.words[r.n:]
	copy(x, src)
	z := m.splitters(n1, n2)
	mu, s := m.vector()
	for per := n2; per > want; per /= 2 { // columns of a group
		for first := 0; first < n2; first += per {
			for c := first; c < first+per/2; c++ {
				lo, hi := x[c*n1:(c+1)*n1], x[(c+per/2)*n1:][:n1]
				r.vec.mul(&v[0], &hi[0], &z[0], n1, mu, s, m.q)
				r.vec.sub(&hi[0], &lo[0], &v[0], n1, m.q)
				r.vec.add(&lo[0], &lo[0], &v[0], n1, m.q)
			}
			z = z[n1:]
		}
	}
	const rows = 64 // whose results stay in the cache
	for c := range want {
		to := dst[c*n1*signs : (c+1)*n1*signs]
		for b := 0; b < n1; b += rows {
			for g := range signs {
				i := b*signs + g
				for _, y := range x[(g*want+c)*n1:][b:min(b+rows, n1)] {
					to[i] = y
					i += signs
				}
			}
		}
	}
}

// splitters returns the factors of the levels of split from n2 columns of n1 residues to one:
// those of level k for each of its 2^k groups.
func (m *modulus) splitters(n1, n2 int) []uint32 {
	at := &m.split[bits.Len(uint(n2))]
	if z := at.Load(); z != nil {
		return *z
	}
	w := m.powers(n1 * n2)
	z := make([]uint32, 0, n1*(n2-1))
	for groups := 1; groups < n2; groups *= 2 {
		level := w[n1*groups:]
		for g := range groups {
			for b := range n1 {
				z = append(z, level[b*groups+g])
			}
		}
	}
	at.Store(&z)
	return z
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
