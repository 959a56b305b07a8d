package cuda

import (
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// BenchmarkRescale times DivRound by a pair of primes on both polynomials of a
// ciphertext of 66 limbs, and the transforms alone, by the number of columns.
func BenchmarkRescale(b *testing.B) {
	const limbs = 66
	r := benchRing(b, 16, limbs, cutrantt.MethodAuto)
	x := r.randomBatches(b, 2, upTo(limbs), cutrantt.NTT(16))
	y := r.randomBatches(b, 2, upTo(limbs-2), cutrantt.NTT(16))
	for _, n2 := range []int{16, 8, 4} {
		for i := range x {
			x[i].SetDomain(cutrantt.NTT(n2))
			y[i].SetDomain(cutrantt.NTT(n2))
		}
		b.Run(fmt.Sprintf("n2=%d", n2), func(b *testing.B) {
			timeGPU(b, r, benchSets, func(i int) error { return r.DivRound(y[i], x[i]) })
		})
		b.Run(fmt.Sprintf("2x66ntt/n2=%d", n2), func(b *testing.B) {
			timeGPU(b, r, benchSets, func(i int) error {
				x[i].SetDomain(cutrantt.Coeffs(n2))
				return r.Forward(x[i], x[i])
			})
		})
	}
}
