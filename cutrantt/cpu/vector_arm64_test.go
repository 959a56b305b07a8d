package cpu

import (
	"math/rand/v2"
	"testing"
)

// signedColumn is vectorN values in (-bound, bound), many of them at the ends.
func signedColumn(rng *rand.Rand, bound uint64) []uint32 {
	x := column(rng, 2*bound-1)
	for i := range x {
		x[i] -= uint32(bound - 1)
	}
	return x
}

// halves is what a pass of the inverse leaves in parts of size: [0, 2q), then (-q, q).
func halves(rng *rand.Rand, q uint32, size int) []uint32 {
	x, y := column(rng, 2*uint64(q)), signedColumn(rng, uint64(q))
	for i := range x {
		if i%size >= size/2 {
			x[i] = y[i]
		}
	}
	return x
}

// TestSignedRanges drives the passes with the largest values that their comments
// allow, and checks the results modulo q and their ranges.
func TestSignedRanges(t *testing.T) {
	eachVector(t, func(t *testing.T, c *vectorCode, m *modulus, rng *rand.Rand, mod func(x int64) uint32) {
		q := m.q
		// A table of twiddles of any value: the passes do not need roots of unity.
		w, pairs := make([]uint32, 16), make([]uint64, 16)
		for i := range w {
			w[i] = []uint32{q - 1, 0, 1, q / 2, rng.Uint32N(q), rng.Uint32N(q)}[rng.IntN(6)]
			pairs[i] = c.pair(&m.barrett, w[i])
		}
		value := func(x uint32) int64 { return int64(int32(x)) }
		for k := 1; k <= 3; k++ {
			size := vectorN >> k
			x := signedColumn(rng, 2*uint64(q))
			want := make([]int64, vectorN)
			for i := range x {
				want[i] = int64(mod(value(x[i])))
			}
			c.forward[k](&x[0], &x[0], size, 1, 1, &pairs[0], q)
			for j := range k {
				d := vectorN >> (j + 1)
				for i := range want {
					if i%(2*d) < d {
						z := want[i+d] * int64(w[1<<j+i/(2*d)]) % int64(q)
						want[i], want[i+d] = int64(mod(want[i]+z)), int64(mod(want[i]-z))
					}
				}
			}
			for i := range x {
				if v := value(x[i]); v <= -2*int64(q) || v >= 2*int64(q) || int64(mod(v)) != want[i] {
					t.Fatalf("forward%d, q = %d: word %d is %d, want %d", k, q, i, v, want[i])
				}
			}

			x = halves(rng, q, size)
			scale := [2]uint64{c.pair(&m.barrett, w[3]), c.pair(&m.barrett, w[4])}
			for i := range x {
				want[i] = int64(mod(value(x[i])))
			}
			end := append([]uint32(nil), x...)
			c.inverse[k](&x[0], &x[0], size, 1, 1, &pairs[0], q)
			c.inverseEnd[k](&end[0], &end[0], size, 1, 1, &pairs[0], q, &scale[0])
			last := make([]int64, vectorN)
			for j := k - 1; j >= 0; j-- {
				d := vectorN >> (j + 1)
				for i := range want {
					if i%(2*d) < d {
						sum, diff := want[i]+want[i+d], want[i+d]-want[i]
						if j == 0 {
							last[i], last[i+d] = int64(mod(sum%int64(q)*int64(w[3]))), int64(mod(diff*int64(w[4])))
						}
						want[i], want[i+d] = int64(mod(sum)), int64(mod(diff*int64(w[2<<j-1-i/(2*d)])))
					}
				}
			}
			for i := range x {
				lo, hi := int64(0), 2*int64(q)
				if i >= vectorN/2 {
					lo, hi = 1-int64(q), int64(q)
				}
				if v := value(x[i]); v < lo || v >= hi || int64(mod(v)) != want[i] {
					t.Fatalf("inverse%d, q = %d: word %d is %d, want %d", k, q, i, v, want[i])
				}
				if int64(end[i]) != last[i] {
					t.Fatalf("inverseEnd%d, q = %d: word %d is %d, want %d", k, q, i, end[i], last[i])
				}
			}
		}
	})
}

// TestSignedEnds: the last five levels with the largest values, against plain Go's
// rule for them.
func TestSignedEnds(t *testing.T) {
	eachVector(t, func(t *testing.T, c *vectorCode, m *modulus, rng *rand.Rand, mod func(x int64) uint32) {
		const blocks = vectorN / vectorBlock
		q, w := m.q, make([]uint32, vectorN)
		for i := range w {
			w[i] = []uint32{q - 1, 0, 1, q / 2, rng.Uint32N(q), rng.Uint32N(q)}[rng.IntN(6)]
		}
		stream := make([]uint64, vectorN)
		for b := range blocks {
			c.fill(stream[32*b:32*b+32], w, b, m.signedPair)
		}
		x, want := signedColumn(rng, 2*uint64(q)), make([]int64, vectorN)
		for i := range x {
			want[i] = int64(mod(int64(int32(x[i]))))
		}
		c.forwardLast[0](&x[0], blocks, &stream[0], q)
		for d := 16; d > 0; d /= 2 {
			for i := range want {
				if i%(2*d) < d {
					z := want[i+d] * int64(w[vectorN/2/d+i/(2*d)])
					want[i], want[i+d] = int64(mod(want[i]+z)), int64(mod(want[i]-z))
				}
			}
		}
		expect(t, "forwardLast", q, x, func(i int) uint32 { return uint32(want[i]) })

		x = column(rng, 2*uint64(q))
		for i := range x {
			want[i] = int64(mod(int64(x[i])))
		}
		c.inverseFirst[0](&x[0], &x[0], blocks, &stream[vectorN-vectorBlock], q)
		for d := 1; d <= 16; d *= 2 {
			for i := range want {
				if i%(2*d) < d {
					turned := w[vectorN/d-1-i/(2*d)]
					want[i], want[i+d] = int64(mod(want[i]+want[i+d])), int64(mod((want[i+d]-want[i])*int64(turned)))
				}
			}
		}
		for i := range x {
			lo, hi := int64(0), 2*int64(q)
			if i%vectorBlock >= vectorBlock/2 {
				lo, hi = 1-int64(q), int64(q)
			}
			if v := int64(int32(x[i])); v < lo || v >= hi || int64(mod(v)) != want[i] {
				t.Fatalf("inverseFirst, q = %d: word %d is %d, want %d", q, i, v, want[i])
			}
		}
	})
}
