package cuda

import "github.com/hencedge/hencedge/cutrantt"

// mulMod is x*y mod q for x, y < 2^32.
func mulMod(x, y, q uint32) uint32 { return uint32(uint64(x) * uint64(y) % uint64(q)) }

func powMod(x, e, q uint32) uint32 {
	r := uint32(1)
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r = mulMod(r, x, q)
		}
		x = mulMod(x, x, q)
	}
	return r
}

// invMod is the inverse modulo the prime q.
func invMod(x, q uint32) uint32 { return powMod(x%q, q-2, q) }

// quotient is floor(w*2^32/q), the second word of a Shoup factor, for w < q.
func quotient(w, q uint32) uint32 { return uint32(uint64(w) << 32 / uint64(q)) }

// modulusWords is struct Mod of kernels/args.cuh.
func modulusWords(m cutrantt.Modulus) []uint32 {
	q := m.Q
	r32 := uint32((1 << 32) % uint64(q))
	const turn = 1 << 62
	lift := turn - turn%uint64(q) + uint64(q)
	w := []uint32{q, r32, quotient(r32, q), quotient(1, q), uint32(lift), uint32(lift >> 32), m.Psi}
	// Toom-Cook-4 interpolation: numerators over one denominator, see
	// kernels/hadamard.cuh.
	for _, c := range []struct {
		den uint32
		num []int64
	}{
		{24, []int64{-30, 16, -1, 96}}, {24, []int64{6, -4, 1, -120}},
		{180, []int64{-40, 1, 8}}, {36, []int64{34, -1, -2}}, {90, []int64{-20, 2, 1}},
	} {
		inv := invMod(c.den, q)
		for _, n := range c.num {
			residue := uint32((n%int64(q) + int64(q)) % int64(q))
			w = append(w, mulMod(residue, inv, q))
		}
	}
	for len(w) < modWords { // the structure is a multiple of 8 bytes
		w = append(w, 0)
	}
	return w
}
