package cpu

// Base conversion between transforms: limbs leave the inverse transform as the digits
// y_i of a basis, as its last step scales anyway, and what the digits are modulo other
// primes need not be reduced before the forward transform.

// looseBasis is a basis for digits that come from the inverse transform.
type looseBasis struct {
	*basis
	ends [][2]uint64 // per prime, scale for vectorCode.invert; nil: digits scales
}

func (r *ring) newLooseBasis(mods []*modulus) *looseBasis {
	s := &looseBasis{basis: r.newBasis(mods)}
	if s.words == nil || r.vec.rounds == nil {
		return s
	}
	for i, m := range mods {
		w := m.inv(s.product(m, i))
		end := m.vectorTable(r.vec, r.n).scale
		for j := range end {
			end[j] = r.vec.pair(&m.barrett, m.mul(uint32(end[j]>>32), w))
		}
		s.ends = append(s.ends, end)
	}
	return s
}

// digit sets y to limb i of the transform x on its way to its digits, which are
// finished by rounds.
func (r *ring) digit(s *looseBasis, i int, y, x []uint32) {
	if s.ends == nil {
		r.inverse(y, x, s.mods[i])
		return
	}
	r.vec.invert(y, x, s.mods[i], &s.ends[i])
}

// rounds completes the digits y and sets v to the rounded sum of y_i/q_i.
func (r *ring) rounds(s *looseBasis, y rows, v []uint32) {
	if s.ends == nil {
		r.digits(s.basis, y, y, v, 0, r.n)
		return
	}
	r.vec.rounds(&y.words[0], y.stride, len(s.mods), r.n, &s.words[0], &v[0], 0)
}

// lift takes the digits of a basis to several primes.
type lift struct {
	k      int        // digits
	mods   []*modulus // nil for primes that are left out
	few    func(dst, y *uint32, stride, n int, v *uint32, c *uint64, q uint32)
	stride int      // constants of one prime
	words  []uint64 // per prime: k+1 factors, 1/q mod 2^32, q
}

// newLift makes the constants for the primes mods but those in [lo, hi).
func (r *ring) newLift(s *basis, mods []*modulus, lo, hi int) *lift {
	k := len(s.mods)
	l := &lift{k: k, mods: make([]*modulus, len(mods)), stride: k + 3, words: make([]uint64, len(mods)*(k+3))}
	if k <= len(r.vec.extendFew) {
		l.few = r.vec.extendFew[k-1]
	}
	for j, m := range mods {
		if j >= lo && j < hi {
			continue
		}
		l.mods[j] = m
		c := l.words[j*l.stride : (j+1)*l.stride]
		for i := range s.mods {
			h := s.product(m, i)
			if c[i] = uint64(m.montgomery(h)); l.few != nil {
				c[i] = m.shoup(h)
			}
		}
		h := neg(s.product(m, -1), m.q)
		if c[k] = uint64(h); l.few == nil {
			c[k] = uint64(m.montgomery(h))
		}
		c[k+1], c[k+2] = m.qinv&(1<<32-1), uint64(m.q)
	}
	return l
}

// lift sets the rows of dst to the digits y, v modulo the primes from first up to
// last, in [0, 4q); the row of a prime that is left out stays as it is.
func (r *ring) lift(l *lift, first, last int, dst, y rows, v []uint32) {
	part := r.n // of the digits, which all primes read before the next
	for l.few == nil && part > chunk && part*l.k > 2*blockLimit {
		part /= 2
	}
	for lo := 0; lo < r.n; lo += part {
		for j, n := first, 1; j < last; j += n {
			if n = 1; l.mods[j] == nil {
				continue
			}
			for l.few == nil && j+n < last && l.mods[j+n] != nil && n <= len(r.vec.extendMany) &&
				r.vec.extendMany[n-1] != nil {
				n++
			}
			to, m, c := &dst.words[(j-first)*dst.stride+lo], l.mods[j], &l.words[j*l.stride]
			switch {
			case l.few != nil:
				l.few(to, &y.words[lo], y.stride, part, &v[lo], c, m.q)
			case n > 1:
				r.vec.extendMany[n-2](to, &y.words[lo], dst.stride, y.stride, l.k, part, &v[lo], c, l.stride, m.q)
			default:
				r.vec.extend(to, &y.words[lo], y.stride, l.k, part, &v[lo], c, uint32(m.qinv), m.q)
			}
		}
	}
}

// farDigits is the size of digits, in residues, that come from memory each time they
// are read.
const farDigits = 1 << 20

// liftGroup is how many primes to lift to together, of so many: what is made of the
// digits for one limb takes work residues, the digits themselves size. Few digits are
// cheap to read again. More of them share their loads, and where they are far every
// other prime saves one trip to memory; times of a product with 57 limbs of 2^16 in
// groups of 4, 8, 12 and 16: 94, 86, 80, 82 ms.
func (r *ring) liftGroup(few bool, limbs, work, size int) int {
	group := 4
	switch {
	case few:
		group = 1
	case size > farDigits:
		group = 12
	}
	group = min(group, (limbs+r.workers-1)/r.workers)
	for group > 1 && group*work > 4*farDigits {
		group /= 2
	}
	return max(group, 1)
}
