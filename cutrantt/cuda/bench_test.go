package cuda

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

// The runs that timeGPU measures: how long at least, if their kernels are not more than
// this many.
const (
	benchTime    = time.Millisecond
	benchKernels = 1024
)

// timeGPU reports the time of one call of f, by events around runs of calls that the
// GPU works off as one graph, where it has graphs and f only launches kernels. f gets the
// set to use; calls is how many use all sets.
func timeGPU(b *testing.B, r *ring, calls int, f func(set int) error) {
	b.Helper()
	run := runOf(calls, f)
	if err := run(); err != nil { // tables and constants
		b.Fatal(err)
	}
	before := r.launches.Load()
	d, parts, err := r.TimeRun(run, run)
	if err != nil {
		b.Fatal(err)
	}
	if kernels := int(r.launches.Load()-before) / 2; parts == 1 {
		calls *= max(1, min(int(benchTime/max(d, 1))+1, benchKernels/max(kernels, 1)))
		run = runOf(calls, f)
	}
	reportRuns(b, calls, func() (time.Duration, error) {
		d, _, err := r.TimeRun(run, run)
		return d, err
	})
}

// timeCalls is timeGPU for kernels, or graphs of one call, that the host queues one after
// another.
func timeCalls(b *testing.B, r *ring, calls int, f func(set int) error) {
	b.Helper()
	run := runOf(calls, f)
	if err := run(); err != nil {
		b.Fatal(err)
	}
	reportRuns(b, calls, func() (time.Duration, error) { return r.Time(run) })
}

// runOf is a run of calls.
func runOf(calls int, f func(set int) error) func() error {
	return func() error {
		for i := range calls {
			if err := f(i % benchSets); err != nil {
				return err
			}
		}
		return nil
	}
}

// reportRuns reports the median and the 95th percentile of 40 runs, a call.
func reportRuns(b *testing.B, calls int, run func() (time.Duration, error)) {
	b.Helper()
	var times []float64
	for range 40 {
		d, err := run()
		if err != nil {
			b.Fatal(err)
		}
		times = append(times, float64(d.Nanoseconds())/1000/float64(calls))
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2], "gpu-us")
	b.ReportMetric(times[len(times)*95/100], "p95-us")
	b.ReportMetric(0, "ns/op")
}

// benchRing opens the GPU and makes a ring, and sets of random batches.
func benchRing(b *testing.B, logN, moduli int, m cutrantt.Method) *ring {
	b.Helper()
	r, err := gpu(b).NewRing(logN, benchModuli(b, logN, moduli), cutrantt.Options{Method: m})
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
		for _, n2 := range []int{1, 2, 4, 8, 16} {
			if c.limbs < 66 && (n2 == 2 || n2 == 8) {
				continue
			}
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

// BenchmarkBasis times Extend and DivRound in the shape of a key switch with 66
// primes and 22 special ones.
func BenchmarkBasis(b *testing.B) {
	const q, p = 66, 22
	r := benchRing(b, 16, q+p, cutrantt.MethodAuto)
	d := cutrantt.Coeffs(16)
	digit := r.randomBatches(b, 1, upTo(p), d)
	wide := r.randomBatches(b, 1, upTo(q+p), d)
	low := r.randomBatches(b, 1, upTo(q), d)
	b.Run("extend/22to88", func(b *testing.B) {
		timeGPU(b, r, benchSets, func(i int) error { return r.Extend(wide[i], digit[i]) })
	})
	b.Run("divround/88to66", func(b *testing.B) {
		timeGPU(b, r, benchSets, func(i int) error { return r.DivRound(low[i], wide[i]) })
	})
	for _, x := range [][]*cutrantt.Batch{low, wide} {
		for _, y := range x {
			y.SetDomain(cutrantt.NTT(16))
		}
	}
	b.Run("divround/ntt/88to66", func(b *testing.B) {
		timeGPU(b, r, benchSets, func(i int) error { return r.DivRound(low[i], wide[i]) })
	})
	b.Run("automorphism/ntt/66", func(b *testing.B) {
		timeGPU(b, r, benchSets, func(i int) error { return r.Automorphism(low[i], low[(i+1)%benchSets], 5) })
	})
}

// BenchmarkEncrypt times public-key encryption on the device, sampling
// included, from an encoded message: v, e0 and e1, three transforms a limb, two
// products that share v, two sums.
func BenchmarkEncrypt(b *testing.B) {
	for _, c := range []struct{ logN, limbs int }{{16, 66}, {13, 5}} {
		r := benchRing(b, c.logN, c.limbs, cutrantt.MethodAuto)
		limbs := upTo(c.limbs)
		key, err := r.Precompute(r.randomBatches(b, 2, limbs, cutrantt.NTT(16))[0])
		if err != nil {
			b.Fatal(err)
		}
		m := r.randomBatches(b, 1, limbs, cutrantt.Coeffs(16))
		v := r.randomBatches(b, 1, limbs, cutrantt.Coeffs(16))
		e := r.randomBatches(b, 2, limbs, cutrantt.Coeffs(16))
		ct := r.randomBatches(b, 2, limbs, cutrantt.NTT(16))
		seed := &[32]byte{7}
		b.Run(fmt.Sprintf("N=2^%d/limbs=%d", c.logN, c.limbs), func(b *testing.B) {
			timeGPU(b, r, benchSets, func(i int) error {
				v, e, ct, m := v[i], e[i], ct[i], m[i]
				v.SetDomain(cutrantt.Coeffs(16))
				e.SetDomain(cutrantt.Coeffs(16))
				e0, err := e.Slice(0, 1, 0, c.limbs)
				if err != nil {
					return err
				}
				e1, err := e.Slice(1, 2, 0, c.limbs)
				if err != nil {
					return err
				}
				return firstError(
					func() error { return r.SampleTernary(v, seed, 1) },
					func() error { return r.SampleCBD(e0, seed, 2) },
					func() error { return r.SampleCBD(e1, seed, 3) },
					func() error { return r.Add(e0, e0, m) },
					func() error { return r.Forward(v, v) },
					func() error { return r.Forward(e, e) },
					func() error { return r.MulOperand(ct, v, key) },
					func() error { return r.Add(ct, ct, e) },
				)
			})
		})
	}
}

func firstError(steps ...func() error) error {
	for _, f := range steps {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
