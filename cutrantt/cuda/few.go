package cuda

// few holds the constants of changes of basis from few limbs. The transforms before
// and after do these (kernels/digits.cuh): the inverse one multiplies each source limb,
// the forward one sums them. The zero value has no constants.
type few struct {
	at    pointer // struct Digits of every output
	words int
	last  pointer // of kernels/inverse.cu, of every source limb
	// inverses are the Shoup factors of S^-1 modulo each output of the first part.
	inverses pointer
}

// fewLimbs returns the constants for parts, whose source limbs are in sources, with n2
// columns. It computes them once for each key. Where no kernel takes them it returns
// the zero value.
func (r *ring) fewLimbs(key []byte, sources []int, n2 int, of func() []part) (few, error) {
	log := log2(r.n / n2)
	if !r.backend.fuseUp || log < leastUp || log > mostUp || !r.single(n2) {
		return few{}, nil
	}
	key = append(key, 'f', byte(n2))
	if f, ok := r.fews[string(key)]; ok {
		return f, nil
	}
	f := few{}
	if parts := of(); r.takesFew(parts) {
		digits, last, inverses := r.digitWords(parts), r.lastWords(parts, sources, log), r.inverseWords(parts)
		f.words = len(digits) + len(last) + len(inverses)
		at, err := r.constant(append(append(digits, last...), inverses...))
		if err != nil {
			return few{}, err
		}
		f.at, f.last = at, at+pointer(4*len(digits))
		f.inverses = f.last + pointer(4*len(last))
	}
	r.fews[string(key)] = f
	return f, nil
}

// takesFew reports whether kernels/digits.cuh takes these parts.
func (r *ring) takesFew(parts []part) bool {
	for _, p := range parts {
		if len(p.from) > mostUpLimbs {
			return false
		}
		for _, l := range p.from {
			if r.check.Moduli()[l].Q <= 1<<24 { // floor(2^56/q) has 32 bits
				return false
			}
		}
	}
	return true
}

// digitWords is struct Digits of each output of each part.
func (r *ring) digitWords(parts []part) (w []uint32) {
	moduli := r.check.Moduli()
	for _, p := range parts {
		for _, to := range p.to {
			q := moduli[to].Q
			for i := range mostUpLimbs {
				if i >= len(p.from) {
					w = append(w, 0, 0, 0, uint32(p.first)) // a limb that can be read
					continue
				}
				f := r.product(p.from, q, i)
				w = append(w, f, quotient(f, q), uint32((1<<56)/uint64(moduli[p.from[i]].Q)), uint32(p.first+i))
			}
			w = append(w, (q-r.product(p.from, q, -1))%q, uint32(len(p.from)), 0, 0)
		}
	}
	return w
}

// lastWords are the factors of the last level of the inverse transform with columns
// of 2^log, times (S/q_i)^-1, for each source limb.
func (r *ring) lastWords(parts []part, sources []int, log int) []uint32 {
	w := make([]uint32, 4*len(sources))
	for _, p := range parts {
		for i, l := range p.from {
			m := r.check.Moduli()[l]
			scale := invMod(mulMod(r.product(p.from, m.Q, i), 1<<log%m.Q, m.Q), m.Q)
			turned := mulMod(scale, powMod(m.Psi, uint32(r.n/2), m.Q), m.Q)
			copy(w[4*(p.first+i):], []uint32{scale, quotient(scale, m.Q), turned, quotient(turned, m.Q)})
		}
	}
	return w
}

// inverseWords are the factors S^-1 of the outputs of parts that ask for them.
func (r *ring) inverseWords(parts []part) (w []uint32) {
	for _, p := range parts {
		if !p.withInverses {
			continue
		}
		for _, l := range p.to {
			q := r.check.Moduli()[l].Q
			inv := invMod(r.product(p.from, q, -1), q)
			w = append(w, inv, quotient(inv, q))
		}
	}
	return w
}

// extendDigits queues the transforms of the extensions of all digits: in one kernel
// where digits have few limbs, else a conversion and a transform. coeffs are the
// inverse transforms by s.few.last.
func (r *ring) extendDigits(dst, coeffs tensor, polys int, s *switching, n2 int) error {
	if s.few.at != 0 {
		return columns(r, "up", polys, s.up, n2, upArgs{args: between(dst, coeffs), digits: s.few.at})
	}
	if err := r.convertBasis(dst, coeffs, polys, s.modUp); err != nil {
		return err
	}
	return r.forward(dst, dst, polys, s.up, n2)
}
