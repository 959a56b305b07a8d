package cuda

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// benchSets is how many sets of random inputs a benchmark rotates through, so
// that they exceed the caches.
const benchSets = 8

// benchModuli are count primes from 2^30 down for degree 2^logN.
func benchModuli(tb testing.TB, logN, count int) []cutrantt.Modulus {
	tb.Helper()
	var ms []cutrantt.Modulus
	step := 2 << logN
	for q := cutrantt.MaxQ - step + 1; len(ms) < count && q > step; q -= step {
		for g := uint32(3); g < 60; g++ {
			m := cutrantt.Modulus{Q: uint32(q), Psi: powMod(g, uint32((q-1)>>(logN+1)), uint32(q))}
			if m.Check(logN) == nil {
				ms = append(ms, m)
				break
			}
		}
	}
	if len(ms) < count {
		tb.Fatalf("%d primes for degree 2^%d", len(ms), logN)
	}
	return ms
}

// timeGPU reports the time of one call of f, by events around runs of calls:
// the median and the 95th percentile of 40 runs. f gets the set to use.
func timeGPU(b *testing.B, r *ring, calls int, f func(set int) error) {
	b.Helper()
	drv := r.backend.drv
	do := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	var times []float64
	do(r.backend.locked(func() error {
		from, err := drv.NewEvent()
		if err != nil {
			return err
		}
		to, err := drv.NewEvent()
		if err != nil {
			return err
		}
		for i := range 2 * benchSets {
			if err := f(i % benchSets); err != nil {
				return err
			}
		}
		for range 40 {
			if err := drv.Record(from, r.pool.stream); err != nil {
				return err
			}
			for i := range calls {
				if err := f(i % benchSets); err != nil {
					return err
				}
			}
			if err := drv.Record(to, r.pool.stream); err != nil {
				return err
			}
			if err := drv.WaitEvent(to); err != nil {
				return err
			}
			ms, err := drv.Elapsed(from, to)
			if err != nil {
				return err
			}
			times = append(times, 1000*float64(ms)/float64(calls))
		}
		return nil
	}))
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2], "gpu-us")
	b.ReportMetric(times[len(times)*95/100], "p95-us")
	b.ReportMetric(0, "ns/op")
}

// benchRing opens the GPU and makes a ring, and sets of random batches.
func benchRing(b *testing.B, logN, moduli int, m cutrantt.Method) *ring {
	b.Helper()
	backend, err := New()
	if err != nil {
		b.Skip(err)
	}
	r, err := backend.NewRing(logN, benchModuli(b, logN, moduli), cutrantt.Options{Method: m})
	if err != nil {
		b.Fatal(err)
	}
	return r.(*ring)
}

func (r *ring) randomBatches(b *testing.B, polys int, limbs []int, d cutrantt.Domain) []*cutrantt.Batch {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var sets []*cutrantt.Batch
	for range benchSets {
		x, err := r.NewBatch(polys, limbs, d)
		if err != nil {
			b.Fatal(err)
		}
		w := make([]uint32, 0, x.Len())
		for range polys {
			for _, l := range limbs {
				for range r.n {
					w = append(w, rng.Uint32N(r.Moduli()[l].Q))
				}
			}
		}
		if err := r.Upload(x, w); err != nil {
			b.Fatal(err)
		}
		sets = append(sets, x)
	}
	return sets
}

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

var benchSizes = []struct{ logN, limbs int }{{16, 66}, {16, 1}, {15, 16}, {14, 16}, {13, 16}, {13, 5}}

func BenchmarkTransform(b *testing.B) {
	for _, c := range benchSizes {
		for _, n2 := range []int{1, 4, 16} {
			r := benchRing(b, c.logN, c.limbs, cutrantt.MethodAuto)
			src := r.randomBatches(b, 1, upTo(c.limbs), cutrantt.Coeffs(n2))
			dst := r.randomBatches(b, 1, upTo(c.limbs), cutrantt.NTT(n2))
			at := func(name string) string { return fmt.Sprintf("%s/N=2^%d/limbs=%d/n2=%d", name, c.logN, c.limbs, n2) }
			b.Run(at("ntt"), func(b *testing.B) {
				timeGPU(b, r, 2*benchSets, func(i int) error { return r.Forward(dst[i], src[i]) })
			})
			b.Run(at("intt"), func(b *testing.B) {
				timeGPU(b, r, 2*benchSets, func(i int) error { return r.Inverse(src[i], dst[i]) })
			})
			if n2 == 16 {
				b.Run(at("copy"), func(b *testing.B) {
					timeGPU(b, r, 2*benchSets, func(i int) error { return r.Copy(dst[i], dst[(i+1)%benchSets]) })
				})
			}
		}
	}
}

func BenchmarkHadamard(b *testing.B) {
	const limbs = 66
	for _, m := range cutrantt.Methods() {
		for _, n2 := range []int{16, 4, 1} {
			if !m.Supports(n2) {
				continue
			}
			r := benchRing(b, 16, limbs, m)
			x := r.randomBatches(b, 1, upTo(limbs), cutrantt.NTT(n2))
			y := r.randomBatches(b, 2, upTo(limbs), cutrantt.NTT(n2))
			dst := r.randomBatches(b, 2, upTo(limbs), cutrantt.NTT(n2))
			b.Run(fmt.Sprintf("mul/%v/n2=%d", m, n2), func(b *testing.B) {
				timeGPU(b, r, benchSets, func(i int) error { return r.Mul(x[i], x[i], x[(i+1)%benchSets]) })
			})
			ops := make([]cutrantt.Operand, benchSets)
			for i := range ops {
				var err error
				if ops[i], err = r.Precompute(y[i]); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(fmt.Sprintf("operand2/%v/n2=%d", m, n2), func(b *testing.B) {
				timeGPU(b, r, benchSets, func(i int) error { return r.MulOperand(dst[i], x[i], ops[i]) })
			})
		}
	}
}
