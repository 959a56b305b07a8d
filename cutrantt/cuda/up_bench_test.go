package cuda

import (
	"fmt"
	"testing"
)

// BenchmarkUp compares key switches whose digits are extended in the transform
// (kernels/up.cu) with those that do it in a kernel of its own.
func BenchmarkUp(b *testing.B) {
	gpu := gpu(b).(*backend)
	defer func(on bool) { gpu.fuseUp = on }(gpu.fuseUp)
	for _, c := range []struct{ logN, q, p, n2 int }{{14, 12, 3, 8}, {14, 12, 3, 4}, {13, 6, 1, 4}} {
		f := newBenchBatch(b, c.logN, c.q, c.p, c.n2, 1)
		set := func(on bool) { // constants are kept for the one or the other
			gpu.fuseUp = on
			clear(f.r.switchings)
			clear(f.r.fews)
		}
		for _, f.count = range []int{1, 16, 64} {
			inTurn(b, fmt.Sprintf("2^%d/%d+%d/n2=%d/%d", c.logN, c.q, c.p, c.n2, f.count), set, func(b *testing.B) {
				timeGPU(b, f.r, benchSets, f.run)
				b.ReportMetric(float64(f.count), "ciphertexts")
			})
		}
	}
}
