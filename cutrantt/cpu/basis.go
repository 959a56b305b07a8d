package cpu

import (
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
)

// chunk is how many coefficients of all limbs are converted at a time: the
// scaled residues of 32 limbs then fill 32 KiB.
const chunk = 256

// basis holds the constants that read an integer from its residues modulo the
// primes of a source, S their product (Ring.Extend).
type basis struct {
	mods  []*modulus
	scale []factor // (S/q_i)^-1 mod q_i
	round []uint64 // floor(2^56/q_i)
}

func newBasis(mods []*modulus) *basis {
	s := &basis{mods: mods, scale: make([]factor, len(mods)), round: make([]uint64, len(mods))}
	for i, m := range mods {
		s.scale[i] = m.factor(m.inv(s.product(m, i)))
		s.round[i] = (1 << 56) / uint64(m.q)
	}
	return s
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

// digits replaces residues x_i by y_i = x_i*(S/q_i)^-1 mod q_i, in place, and
// sets v to the rounded sum of y_i/q_i. The slices have one length.
func (s *basis) digits(x [][]uint32, v []uint32) {
	var acc [chunk]uint64
	for o := 0; o < len(v); o += chunk {
		k := min(chunk, len(v)-o)
		for c := range k {
			acc[c] = 1 << 55
		}
		for i, xi := range x {
			xi, q, w, round := xi[o:o+k], uint64(s.mods[i].q), s.scale[i], s.round[i]
			for c, y := range xi {
				y = w.mul(y, q)
				xi[c] = y
				acc[c&(chunk-1)] += uint64(y) * round // at most 255 terms below 2^56
			}
		}
		for c := range k {
			v[o+c] = uint32(acc[c] >> 56)
		}
	}
}

// target holds the constants that take the digits of a basis to one modulus p.
type target struct {
	p    *modulus
	hats []uint32 // S/q_i mod p
	negS uint32   // -S mod p
}

func (s *basis) target(p *modulus) *target {
	t := &target{p: p, hats: make([]uint32, len(s.mods)), negS: neg(s.product(p, -1), p.q)}
	for i := range s.mods {
		t.hats[i] = s.product(p, i)
	}
	return t
}

// extend sets dst to the sum of y_i*(S/q_i) - v*S mod p.
func (t *target) extend(dst []uint32, y [][]uint32, v []uint32) {
	var acc [chunk]uint64
	for o := 0; o < len(dst); o += chunk {
		to := dst[o:min(o+chunk, len(dst))]
		for c, x := range v[o : o+len(to)] {
			acc[c&(chunk-1)] = uint64(x) * uint64(t.negS) // below 2^38
		}
		for i, yi := range y {
			if i > 0 && i%15 == 0 {
				for c := range to {
					acc[c] = uint64(t.p.reduce(acc[c]))
				}
			}
			h := uint64(t.hats[i])
			for c, x := range yi[o : o+len(to)] {
				acc[c&(chunk-1)] += uint64(x) * h // 15 terms below 2^60, and 2^38
			}
		}
		for c := range to {
			to[c] = t.p.reduce(acc[c&(chunk-1)])
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

// digitRows is working memory for k rows of n digits and the row of v.
func digitRows(words []uint32, k, n int) (y [][]uint32, v []uint32) {
	y = make([][]uint32, k)
	for i := range y {
		y[i] = words[i*n : (i+1)*n]
	}
	return y, words[k*n : (k+1)*n]
}

func (r *ring) Extend(dst, src *cutrantt.Batch) error {
	if err := r.check.Extend(dst, src); err != nil {
		return err
	}
	to, from := dst.Limbs(), src.Limbs()
	k := len(from)
	s := newBasis(r.lookup(from))
	buf := getScratch((k + 1) * r.n)
	defer buf.put()
	y, v := digitRows(buf.words, k, r.n)
	targets := make([]*target, len(to)) // nil for a limb that is copied
	for j, l := range to {
		if !slices.Contains(from, l) {
			targets[j] = s.target(r.moduli[l])
		}
	}
	for p := range src.Polys() {
		for i := range y {
			copy(y[i], r.limb(src, p, i))
		}
		r.run(r.n/chunk, chunk*(k+len(to)*k/2+1), func(c int) {
			lo, hi := c*chunk, (c+1)*chunk
			part := make([][]uint32, k)
			for i := range y {
				part[i] = y[i][lo:hi]
			}
			s.digits(part, v[lo:hi])
			for j, t := range targets {
				z := r.limb(dst, p, j)[lo:hi]
				if t == nil {
					copy(z, r.limb(src, p, slices.Index(from, to[j]))[lo:hi])
				} else {
					t.extend(z, part, v[lo:hi])
				}
			}
		})
	}
	return nil
}

func (r *ring) DivRound(dst, src *cutrantt.Batch) error {
	if err := r.check.DivRound(dst, src); err != nil {
		return err
	}
	d, limbs := src.Domain(), src.Limbs()
	keep, n2 := len(dst.Limbs()), int(d.N2)
	k, n1 := len(limbs)-keep, r.n/n2
	s := newBasis(r.lookup(limbs[keep:]))
	buf := getScratch((k + 1) * r.n)
	defer buf.put()
	y, v := digitRows(buf.words, k, r.n)
	targets := make([]*target, keep)
	inverses := make([]factor, keep)
	for j := range targets {
		m := r.moduli[limbs[j]]
		targets[j] = s.target(m)
		inverses[j] = m.factor(m.inv(s.product(m, -1)))
	}
	for p := range src.Polys() {
		r.run(k, r.n*r.logN, func(i int) {
			x := r.limb(src, p, keep+i)
			if !d.NTT {
				copy(y[i], x)
				return
			}
			for c := range n2 {
				r.inverse(y[i][c*n1:(c+1)*n1], x[c*n1:(c+1)*n1], s.mods[i])
			}
		})
		r.run(r.n/chunk, chunk*k, func(c int) {
			part := make([][]uint32, k)
			for i := range y {
				part[i] = y[i][c*chunk : (c+1)*chunk]
			}
			s.digits(part, v[c*chunk:(c+1)*chunk])
		})
		r.run(keep, r.n*r.logN, func(j int) {
			m, tmp := r.moduli[limbs[j]], getScratch(r.n)
			e := tmp.words
			targets[j].extend(e, y, v)
			if d.NTT {
				for c := range n2 {
					col := e[c*n1 : (c+1)*n1]
					r.forward(col, col, m)
				}
			}
			x, z := r.limb(src, p, j), r.limb(dst, p, j)
			z, e = z[:len(x)], e[:len(x)]
			w := inverses[j]
			for i := range x {
				z[i] = w.mul(x[i]-e[i]+m.q, uint64(m.q)) // from (0, 2q)
			}
			tmp.put()
		})
	}
	dst.SetDomain(d)
	return nil
}
