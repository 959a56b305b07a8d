package cuda

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/testenv"
)

// BenchmarkGraphs times single calls that the host waits for, wall clock in us, and
// runs of calls by events, with kernels queued one by one and as graphs, in turn.
func BenchmarkGraphs(b *testing.B) {
	gpu := gpu(b).(*backend)
	if err := gpu.drv.Graphs(); err != nil {
		testenv.Missing(b, "cuda-graphs", err)
	}
	defer func(u graphUse) { gpu.graphs = u }(gpu.graphs)
	compare := func(name string, r *ring, f func(i int) error) {
		modes := []struct {
			name string
			use  graphUse
		}{{"plain", graphsOff}, {"graph", graphsOn}}
		var wall [2][]float64
		for i := range 400 {
			for k, m := range modes {
				gpu.graphs = m.use
				start := time.Now()
				if err := f(i % benchSets); err != nil {
					b.Fatal(err)
				}
				if err := r.Sync(); err != nil {
					b.Fatal(err)
				}
				if i >= 100 {
					wall[k] = append(wall[k], float64(time.Since(start).Nanoseconds())/1000)
				}
			}
		}
		for k, m := range modes {
			b.Run(name+"/"+m.name, func(b *testing.B) {
				gpu.graphs = m.use
				timeCalls(b, r, benchSets, f)
				slices.Sort(wall[k])
				b.ReportMetric(wall[k][len(wall[k])/2], "wall-us")
				b.ReportMetric(wall[k][len(wall[k])*95/100], "wall-p95-us")
			})
		}
	}
	for _, c := range []struct{ logN, q, p, n2 int }{{16, 66, 22, 8}, {14, 12, 3, 4}, {13, 6, 1, 4}} {
		s := newBenchSwitch(b, c.logN, c.q, c.p, c.n2)
		compare(fmt.Sprintf("hmult/2^%d/%d+%d", c.logN, c.q, c.p), s.r, s.product)
		compare(fmt.Sprintf("ntt/2^%d/%d", c.logN, c.q), s.r, func(i int) error {
			d := s.a[i].Domain()
			s.a[i].SetDomain(cutrantt.Coeffs(c.n2))
			err := s.r.Forward(s.a[i], s.a[i])
			s.a[i].SetDomain(d)
			return err
		})
		for _, public := range []bool{true, false} {
			r := benchRing(b, c.logN, c.q, cutrantt.MethodAuto)
			m := newMetered(b, r, public, 16, c.q, 1)
			compare(fmt.Sprintf("%s/2^%d/%d", m.e.product, c.logN, c.q), r, m.Queue)
		}
	}
}
