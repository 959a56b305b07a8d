package cuda

// extendDigits queues the transforms of the extensions of all digits: in one kernel
// where digits have few limbs, else a conversion and a transform.
func (r *ring) extendDigits(dst, coeffs tensor, polys int, s *switching, n2 int) error {
	if log := log2(r.n / n2); s.few > 0 && r.backend.fuseUp && leastUp <= log && log <= mostUp && r.single(n2) {
		a := args{dst: dst.at, ds: dst.stride, a: coeffs.at, as: coeffs.stride, x: s.sources + pointer(4*s.few)}
		return r.columns("up", polys, s.up, n2, a)
	}
	if err := r.convertBasis(dst, coeffs, polys, s.modUp); err != nil {
		return err
	}
	return r.forward(dst, dst, polys, s.up, n2)
}

// fewDigits says whether kernels/up.cu takes digits of these parts.
func (r *ring) fewDigits(parts []part) bool {
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

// upWords are the constants of kernels/up.cu, for each output of each part.
func (r *ring) upWords(parts []part) (w []uint32) {
	moduli := r.check.Moduli()
	for _, p := range parts {
		for _, to := range p.to {
			var factors [mostUpLimbs]uint32
			q := moduli[to].Q
			for i := range mostUpLimbs {
				if i >= len(p.from) {
					w = append(w, 0, 0, 0, 0)
					continue
				}
				own := moduli[p.from[i]].Q
				scale := invMod(r.product(p.from, own, i), own)
				w = append(w, scale, quotient(scale, own), -own, uint32((1<<56)/uint64(own)))
				factors[i] = r.product(p.from, q, i)
			}
			w = append(w, factors[:]...)
			w = append(w, (q-r.product(p.from, q, -1))%q, uint32(p.first), uint32(len(p.from)), 0)
		}
	}
	return w
}
