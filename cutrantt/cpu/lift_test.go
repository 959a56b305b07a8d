package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestLift compares base conversion between transforms with Extend in plain Go: the
// largest digits, numbers of digits around those at which sums are folded, and every
// number of primes that goes through at once, with some left out.
func TestLift(t *testing.T) {
	const logN, most, primes = 10, 33, 9
	moduli := testModuli(t, logN, most)
	for _, q := range []uint32{12289, 40961, 67084289, 536903681} {
		psi, b := uint32(0), newBarrett(q)
		for g := uint32(3); psi == 0; g++ {
			if m := (cutrantt.Modulus{Q: q, Psi: b.pow(g, (q-1)>>(logN+1))}); m.Check(logN) == nil {
				psi = m.Psi
			}
		}
		moduli = append(moduli, cutrantt.Modulus{Q: q, Psi: psi})
	}
	moduli = append(moduli, testModuli(t, logN, most+primes-4)[most:]...)
	rng := rand.New(rand.NewPCG(7, 7))
	plain := ringOf(t, nil, logN, moduli)
	for _, vec := range variants() {
		r := ringOf(t, vec, logN, moduli)
		for _, k := range []int{1, 2, 3, 5, 7, 8, 11, 12, 14, 15, 16, 19, 22, 23, 29, 30, 33} {
			s, want := r.newBasis(r.moduli[:k]), plain.newBasis(plain.moduli[:k])
			stride := rowStride(r.n)
			x := rows{make([]uint32, k*stride), stride}
			for i, m := range s.mods {
				for c := range r.n {
					// The digits are then the largest, the least or random.
					w := s.product(m, i)
					x.words[i*stride+c] = [4]uint32{rng.Uint32N(m.q), neg(w, m.q), 0, rng.Uint32N(m.q)}[c%4]
				}
			}
			y, v := rows{make([]uint32, k*stride), stride}, make([]uint32, r.n)
			plain.digits(want, y, x, v, 0, r.n)
			if got := make([]uint32, r.n); vec.rounds != nil {
				vec.rounds(&y.words[0], stride, k, r.n, &s.words[0], &got[0], 0)
				if !slices.Equal(got, v) {
					t.Fatalf("%s: rounded sums of %d digits differ", vec.name, k)
				}
			}
			for lo := range 4 {
				l := r.newLift(s, r.moduli[most:], lo, lo+1)
				dst := rows{make([]uint32, primes*stride), stride}
				r.lift(l, 0, primes, dst, y, v)
				for j, m := range r.moduli[most:] {
					e := make([]uint32, r.n)
					if j != lo {
						plain.extend(plain.target(want, plain.moduli[most+j]), e, y, v, 0, r.n)
					}
					for c, got := range dst.row(j, 0, r.n) {
						if uint64(got) >= 4*uint64(m.q) || got%m.q != e[c] {
							t.Fatalf("%s: %d digits to prime %d, coefficient %d: %d, want %d modulo %d and below "+
								"four times that", vec.name, k, j, c, got, e[c], m.q)
						}
					}
				}
			}
		}
	}
}

func ringOf(t *testing.T, vec *vectorCode, logN int, moduli []cutrantt.Modulus) *ring {
	t.Helper()
	r, err := backend{vec: vec}.NewRing(logN, moduli, cutrantt.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r.(*ring)
}
