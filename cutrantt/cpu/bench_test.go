package cpu

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// testModuli are the largest count primes q = 1 mod 2N below 2^30.
func testModuli(tb testing.TB, logN, count int) []cutrantt.Modulus {
	return moduliBelow(tb, cutrantt.MaxQ, logN, count)
}

// moduliBelow is testModuli below a multiple of 2N.
func moduliBelow(tb testing.TB, limit uint32, logN, count int) (ms []cutrantt.Modulus) {
	tb.Helper()
	step := uint32(2) << logN
	for q := limit - step + 1; len(ms) < count; q -= step {
		b := newBarrett(q)
		for g := uint32(3); g < 60; g++ {
			m := cutrantt.Modulus{Q: q, Psi: b.pow(g, (q-1)/step)}
			if m.Check(logN) == nil {
				ms = append(ms, m)
				break
			}
		}
	}
	return ms
}

// benchRing is a ring of one worker; batch gives random batches of it.
func benchRing(b *testing.B, logN, limbs int, method cutrantt.Method) (r cutrantt.Ring, batch func(polys int,
	d cutrantt.Domain) *cutrantt.Batch) {
	b.Helper()
	return benchRingOf(b, logN, testModuli(b, logN, limbs), method)
}

// benchRingOf is benchRing for given moduli; residues are below half of the least
// power of two above the first.
func benchRingOf(b *testing.B, logN int, moduli []cutrantt.Modulus,
	method cutrantt.Method) (r cutrantt.Ring, batch func(polys int, d cutrantt.Domain) *cutrantt.Batch) {
	b.Helper()
	limbs := len(moduli)
	r, err := New().NewRing(logN, moduli, cutrantt.Options{Method: method, Workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	at := make([]int, limbs)
	for i := range at {
		at[i] = i
	}
	return r, func(polys int, d cutrantt.Domain) *cutrantt.Batch {
		x, err := r.NewBatch(polys, at, d)
		if err != nil {
			b.Fatal(err)
		}
		words := make([]uint32, x.Len())
		for i := range words {
			words[i] = rand.Uint32N(1 << (bits.Len32(moduli[0].Q) - 1))
		}
		if err := r.Upload(x, words); err != nil {
			b.Fatal(err)
		}
		return x
	}
}

// perResidue runs f and reports its time for each of n residues.
func perResidue(b *testing.B, n int, f func() error) {
	b.Helper()
	if err := f(); err != nil { // builds the tables
		b.Fatal(err)
	}
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/residue")
}

// BenchmarkTransformSmall is for a prime below 2^28, whose butterflies need fewer
// corrections.
func BenchmarkTransformSmall(b *testing.B) {
	for _, logN := range []int{12, 13, 16} {
		r, batch := benchRingOf(b, logN, moduliBelow(b, 1<<28, logN, 1), cutrantt.MethodAuto)
		x, y, z := batch(1, cutrantt.Coeffs(1)), batch(1, cutrantt.NTT(1)), batch(1, cutrantt.NTT(1))
		b.Run(fmt.Sprintf("forward/N=2^%d", logN), func(b *testing.B) {
			perResidue(b, r.N(), func() error { return r.Forward(z, x) })
		})
		b.Run(fmt.Sprintf("inverse/N=2^%d", logN), func(b *testing.B) {
			perResidue(b, r.N(), func() error { return r.Inverse(z, y) })
		})
	}
}

func BenchmarkTransform(b *testing.B) {
	for _, logN := range []int{12, 13, 16} {
		for _, n2 := range []int{1, 4, 16} {
			r, batch := benchRing(b, logN, 1, cutrantt.MethodAuto)
			x, y := batch(1, cutrantt.Coeffs(n2)), batch(1, cutrantt.NTT(n2))
			z := batch(1, cutrantt.NTT(n2))
			b.Run(fmt.Sprintf("forward/N=2^%d/n2=%d", logN, n2), func(b *testing.B) {
				perResidue(b, r.N(), func() error { return r.Forward(z, x) })
			})
			b.Run(fmt.Sprintf("inverse/N=2^%d/n2=%d", logN, n2), func(b *testing.B) {
				perResidue(b, r.N(), func() error { return r.Inverse(z, y) })
			})
		}
	}
}

func BenchmarkHadamard(b *testing.B) {
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		for _, m := range cutrantt.Methods() {
			if !m.Supports(n2) {
				continue
			}
			r, batch := benchRing(b, 13, 1, m)
			x, y, z := batch(1, cutrantt.NTT(n2)), batch(2, cutrantt.NTT(n2)), batch(2, cutrantt.NTT(n2))
			one, err := y.Slice(0, 1, 0, 1)
			if err != nil {
				b.Fatal(err)
			}
			to, err := z.Slice(0, 1, 0, 1)
			if err != nil {
				b.Fatal(err)
			}
			op, err := r.Precompute(y)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("mul/n2=%d/%v", n2, m), func(b *testing.B) {
				perResidue(b, r.N(), func() error { return r.Mul(to, x, one) })
			})
			b.Run(fmt.Sprintf("operand2/n2=%d/%v", n2, m), func(b *testing.B) {
				perResidue(b, 2*r.N(), func() error { return r.MulOperand(z, x, op) })
			})
		}
	}
}

func BenchmarkIntegers(b *testing.B) {
	for _, d := range []cutrantt.Domain{cutrantt.Coeffs(16), cutrantt.NTT(16)} {
		r, batch := benchRing(b, 13, 6, cutrantt.MethodAuto)
		x := batch(1, d)
		to, err := r.NewBatch(1, []int{0, 1, 2, 3}, d)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("divround/%v/6to4", d), func(b *testing.B) {
			perResidue(b, 4*r.N(), func() error { return r.DivRound(to, x) })
		})
		y := batch(1, d)
		b.Run(fmt.Sprintf("automorphism/%v", d), func(b *testing.B) {
			perResidue(b, 6*r.N(), func() error { return r.Automorphism(y, x, 5) })
		})
		if !d.NTT {
			part, err := x.Slice(0, 1, 0, 3)
			if err != nil {
				b.Fatal(err)
			}
			b.Run("extend/3to6", func(b *testing.B) {
				perResidue(b, 6*r.N(), func() error { return r.Extend(y, part) })
			})
		}
		seed := &[32]byte{}
		one := batch(1, d)
		b.Run(fmt.Sprintf("uniform/%v", d), func(b *testing.B) {
			perResidue(b, 6*r.N(), func() error { return r.SampleUniform(one, seed, 1) })
		})
		if !d.NTT {
			b.Run("cbd", func(b *testing.B) {
				perResidue(b, r.N(), func() error { return r.SampleCBD(one, seed, 1) })
			})
		}
	}
}

// BenchmarkColumns is the arithmetic of encryption (three transforms and two
// products that share a factor) and of a key-switch inner product (three
// transforms, six products), by which defaultColumns was chosen.
func BenchmarkColumns(b *testing.B) {
	for _, c := range []struct{ logN, limbs int }{{12, 2}, {13, 5}, {15, 16}} {
		for _, n2 := range []int{1, 2, 4, 8, 16} {
			r, batch := benchRing(b, c.logN, c.limbs, cutrantt.MethodAuto)
			x, y, z := batch(3, cutrantt.Coeffs(n2)), batch(6, cutrantt.NTT(n2)), batch(2, cutrantt.NTT(n2))
			long, err := r.Precompute(y)
			if err != nil {
				b.Fatal(err)
			}
			pair, err := y.Slice(0, 2, 0, c.limbs)
			if err != nil {
				b.Fatal(err)
			}
			short, err := r.Precompute(pair)
			if err != nil {
				b.Fatal(err)
			}
			f := batch(3, cutrantt.NTT(n2))
			one, err := f.Slice(0, 1, 0, c.limbs)
			if err != nil {
				b.Fatal(err)
			}
			for name, run := range map[string]func() error{
				"encrypt":   func() error { return r.MulOperand(z, one, short) },
				"keyswitch": func() error { return r.MulOperand(z, f, long) },
			} {
				b.Run(fmt.Sprintf("%s/N=2^%d/limbs=%d/n2=%d", name, c.logN, c.limbs, n2), func(b *testing.B) {
					perResidue(b, c.limbs*r.N(), func() error {
						if err := r.Forward(f, x); err != nil {
							return err
						}
						return run()
					})
				})
			}
		}
	}
}
