package cpu

import (
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
)

// chunk is how many coefficients of all limbs are converted at a time: the
// scaled residues of 32 limbs then fill 32 KiB. It divides N.
const chunk = 256

// basis holds the constants that read an integer from its residues modulo the
// primes of a source, S their product (Ring.Extend).
type basis struct {
	mods  []*modulus
	scale []factor // (S/q_i)^-1 mod q_i
	round []uint64 // floor(2^56/q_i)
	words []uint64 // 3 for each prime for vector code (vectorCode.digits); nil without it
}

// minVectorQ is the least prime for the vector code of digits: round is below 2^32.
const minVectorQ = 1 << 24

func (r *ring) newBasis(mods []*modulus) *basis {
	s := &basis{mods: mods, scale: make([]factor, len(mods)), round: make([]uint64, len(mods))}
	vec := r.vec != nil
	for i, m := range mods {
		w := m.inv(s.product(m, i))
		s.scale[i] = m.factor(w)
		s.round[i] = (1 << 56) / uint64(m.q)
		s.words = append(s.words, m.shoup(w), s.round[i], uint64(m.q))
		vec = vec && m.q > minVectorQ
	}
	if !vec {
		s.words = nil
	}
	return s
}

// times makes the digits those of residues times c: y_i = c_i*x_i*(S/q_i)^-1 mod q_i.
func (s *basis) times(c []uint32) {
	for i, m := range s.mods {
		w := s.scale[i].mul(c[i], uint64(m.q))
		s.scale[i] = m.factor(w)
		if s.words != nil {
			s.words[3*i] = m.shoup(w)
		}
	}
}

// product is S/q_skip mod m.q, or S mod m.q for skip = -1.
func (s *basis) product(m *modulus, skip int) uint32 {
	p := uint32(1)
	for i, o := range s.mods {
		if i != skip {
			p = m.mul(p, m.reduce(uint64(o.q)))
		}
	}
	return p
}

// rows is k rows of residues, each stride after the one before.
type rows struct {
	words  []uint32
	stride int
}

// rowStride is the distance of rows that are read together: not a power of two, at
// which all of them would compete for the same lines of a cache.
func rowStride(n int) int { return n + chunk }

// newRows is k rows of n digits and the row of v in scratch memory.
func newRows(k, n int) (buf *scratch, y rows, v []uint32) {
	stride := rowStride(n)
	buf = getScratch(k*stride + n)
	return buf, rows{buf.words[:k*stride], stride}, buf.words[k*stride:]
}

// from is the rows from number i on.
func (r rows) from(i int) rows { return rows{r.words[i*r.stride:], r.stride} }

// row is part [lo, hi) of row i.
func (r rows) row(i, lo, hi int) []uint32 { return r.words[i*r.stride+lo : i*r.stride+hi] }

// digits sets y_i = x_i*(S/q_i)^-1 mod q_i and v to the rounded sum of y_i/q_i, for
// the coefficients in [lo, hi), a multiple of chunk of them. y may be x.
func (r *ring) digits(s *basis, y, x rows, v []uint32, lo, hi int) {
	if s.words != nil {
		r.vec.digits(&y.words[lo], &x.words[lo], y.stride, x.stride, len(s.mods), hi-lo, &s.words[0], &v[lo], 0)
		return
	}
	var acc [chunk]uint64
	for o := lo; o < hi; o += chunk {
		for c := range acc {
			acc[c] = 1 << 55
		}
		for i, m := range s.mods {
			q, w, round := uint64(m.q), s.scale[i], s.round[i]
			from, to := (*[chunk]uint32)(x.row(i, o, o+chunk)), (*[chunk]uint32)(y.row(i, o, o+chunk))
			for c, d := range from {
				d = w.mul(d, q)
				to[c] = d
				acc[c] += uint64(d) * round // at most 255 terms below 2^56
			}
		}
		for c, a := range acc {
			v[o+c] = uint32(a >> 56)
		}
	}
}

// target holds the constants that take the digits of a basis to one modulus p.
type target struct {
	p    *modulus
	hats []uint64 // S/q_i mod p, then -S mod p; for vector code times 2^32 mod p
}

func (r *ring) target(s *basis, p *modulus) *target {
	t := &target{p: p, hats: make([]uint64, 0, len(s.mods)+1)}
	add := func(h uint32) {
		if r.vec != nil {
			h = p.montgomery(h)
		}
		t.hats = append(t.hats, uint64(h))
	}
	for i := range s.mods {
		add(s.product(p, i))
	}
	add(neg(s.product(p, -1), p.q))
	return t
}

// times makes t give residues times c.
func (t *target) times(c uint32) {
	for i, h := range t.hats {
		t.hats[i] = uint64(t.p.mul(uint32(h), c))
	}
}

// extend sets dst to the sum of y_i*(S/q_i) - v*S mod p, for the coefficients in
// [lo, hi) of y and v, a multiple of chunk of them. v is below 2^8.
func (r *ring) extend(t *target, dst []uint32, y rows, v []uint32, lo, hi int) {
	k := len(t.hats) - 1
	if r.vec != nil {
		r.vec.extend(&dst[0], &y.words[lo], y.stride, k, hi-lo, &v[lo], &t.hats[0], uint32(t.p.qinv), t.p.q)
		return
	}
	var acc [chunk]uint64
	for o := lo; o < hi; o += chunk {
		for c, x := range v[o : o+chunk] {
			acc[c&(chunk-1)] = uint64(x) * t.hats[k] // below 2^38
		}
		for i, h := range t.hats[:k] {
			if i > 0 && i%15 == 0 {
				for c := range acc {
					acc[c] = uint64(t.p.reduce(acc[c]))
				}
			}
			for c, x := range (*[chunk]uint32)(y.row(i, o, o+chunk)) {
				acc[c] += uint64(x) * h // 15 terms below 2^60, and 2^38
			}
		}
		to := (*[chunk]uint32)(dst[o-lo:])
		for c := range to {
			to[c] = t.p.reduce(acc[c])
		}
	}
}

// lookup is the moduli of a list of limbs.
func (r *ring) lookup(limbs []int) []*modulus {
	m := make([]*modulus, len(limbs))
	for i, l := range limbs {
		m[i] = r.moduli[l]
	}
	return m
}

// rowsOf is the limbs from the first on of polynomial p of b.
func (r *ring) rowsOf(b *cutrantt.Batch, p, first int) rows {
	return rows{b.Mem().(*memory).data[b.Offset(p, first):], r.n}
}

func (r *ring) Extend(dst, src *cutrantt.Batch) error {
	if err := r.check.Extend(dst, src); err != nil {
		return err
	}
	r.extendBy(dst, src, nil, nil)
	return nil
}

var _ cutrantt.Scaler = (*ring)(nil)

// ExtendScaled implements cutrantt.Scaler. It refuses limbs that are copied.
func (r *ring) ExtendScaled(dst, src *cutrantt.Batch, pre, post []uint32) error {
	if err := r.check.Extend(dst, src); err != nil {
		return err
	}
	if pre != nil {
		if err := r.check.Scalars(src, pre); err != nil {
			return err
		}
	}
	if post != nil {
		if err := r.check.Scalars(dst, post); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(dst.Limbs(), func(l int) bool { return slices.Contains(src.Limbs(), l) }) {
		return cutrantt.ErrNotSupported
	}
	r.extendBy(dst, src, pre, post)
	return nil
}

// extendBy is Extend, or ExtendScaled, of what was checked.
func (r *ring) extendBy(dst, src *cutrantt.Batch, pre, post []uint32) {
	to, from := dst.Limbs(), src.Limbs()
	k := len(from)
	s := r.newBasis(r.lookup(from))
	if pre != nil {
		s.times(pre)
	}
	buf, y, v := newRows(k, r.n)
	defer buf.put()                     // src may be secret
	targets := make([]*target, len(to)) // nil for a limb that is copied
	for j, l := range to {
		if !slices.Contains(from, l) {
			targets[j] = r.target(s, r.moduli[l])
			if post != nil {
				targets[j].times(post[j])
			}
		}
	}
	for p := range src.Polys() {
		x := r.rowsOf(src, p, 0)
		r.run(r.n/chunk, chunk*(k+len(to)*k/2+1), func(c int) {
			lo, hi := c*chunk, (c+1)*chunk
			r.digits(s, y, x, v, lo, hi)
			for j, t := range targets {
				z := r.limb(dst, p, j)[lo:hi]
				if t == nil {
					copy(z, r.limb(src, p, slices.Index(from, to[j]))[lo:hi])
				} else {
					r.extend(t, z, y, v, lo, hi)
				}
			}
		})
	}
}
