package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDivideBy compares the end of a division, in the transform where a variant has that,
// with plain Go: primes of every class, every form of the last levels, extreme inputs.
func TestDivideBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for _, logN := range []int{10, 12, 13, 14, 15, 16} {
		n := 1 << logN
		of := func(q uint32) []uint32 {
			x := make([]uint32, n)
			for i := range x {
				if x[i] = rng.Uint32N(q); i%4 > 0 {
					x[i] = (q - 1) * uint32(i%2)
				}
			}
			return x
		}
		for _, m := range lazyTestPrimes(t, max(logN, 13)) {
			if logN > 14 && m.q < 1<<26 {
				continue
			}
			from, z, e, w := of(m.q), of(m.q), of(m.q), 1+rng.Uint32N(m.q-1)
			want, sum, pair := slices.Clone(e), make([]uint32, n), m.shoup(w)
			forward(want, m.twiddles(n), m.q)
			for i := range want {
				want[i] = m.mul(sub(from[i], want[i], m.q), w)
				sum[i] = add(want[i], z[i], m.q)
			}
			for _, c := range variants() {
				r := &ring{vec: c, n: n, logN: logN}
				input := func() []uint32 {
					x := slices.Clone(e)
					for i := range x {
						if c.lazy != nil { // takes [0, 4q)
							x[i] += m.q * rng.Uint32N(4)
						}
					}
					return x
				}
				got := make([]uint32, n)
				if r.divideBy(&quotient{dst: got, from: from, w: &pair}, input(), m); !slices.Equal(got, want) {
					t.Fatalf("%s: 2^%d, q = %d: quotients differ", c.name, logN, m.q)
				}
				got = slices.Clone(from)
				if r.divideBy(&quotient{dst: got, from: got, z: z, w: &pair}, input(), m); !slices.Equal(got, sum) {
					t.Fatalf("%s: 2^%d, q = %d: quotients with a sum, in place, differ", c.name, logN, m.q)
				}
			}
		}
	}
}
