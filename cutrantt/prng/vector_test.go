package prng

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestVectorized fails where CUTRANTT_TEST_REQUIRE asks for vector code that is off.
func TestVectorized(t *testing.T) {
	if strings.Contains(os.Getenv("CUTRANTT_TEST_REQUIRE"), "avx512") && !vectorized() {
		t.Error("the AVX-512 code is required but not used")
	}
}

// TestVariantsAgree compares the vector code with plain Go for lengths and starts
// around its groups, moduli of every rejection rate, and many streams.
func TestVariantsAgree(t *testing.T) {
	if !vectorized() {
		t.Skip("no vector code here")
	}
	seed := sequence()
	for _, n := range []int{0, 1, 15, 16, 17, 255, 256, 257, 511, 512, 1000, 4096, 4111, 5000} {
		for _, start := range []int{0, 1, 15, 16, 250, 256, 4095, 1<<36 - 8192} {
			got, want := make([]uint32, n), make([]uint32, n)
			vectorWords(got, seed, 3, 4, 5, start)
			genericWords(want, seed, 3, 4, 5, start)
			if !slices.Equal(got, want) {
				t.Fatalf("%d words from %d differ", n, start)
			}
		}
	}
	for _, n := range []int{16, 32, 256, 1024, 4096, 4112, 16384} {
		for i, q := range []uint32{2, 3, 5, 257, 65537, 1<<29 + 1, 1 << 29, 1<<30 - 1, 3 << 28, 1<<31 + 1, 1<<32 - 1} {
			got, want := make([]uint32, n), make([]uint32, n)
			Uniform(got, seed, 1, uint32(i), q)
			mask := uint32(1)
			for mask < q {
				mask = 2*mask + 1
			}
			genericUniform(want, seed, 1, uint32(i), q, mask)
			if !slices.Equal(got, want) {
				t.Fatalf("%d residues modulo %d differ", n, q)
			}
		}
		for label := range uint32(8) {
			got, want := make([]int32, n), make([]int32, n)
			Ternary(got, seed, label)
			genericTernary(want, seed, label)
			if !slices.Equal(got, want) {
				t.Fatalf("%d ternary values differ", n)
			}
			CBD(got, seed, label)
			genericCBD(want, seed, label)
			if !slices.Equal(got, want) {
				t.Fatalf("%d binomial values differ", n)
			}
		}
	}
}

func BenchmarkSamplers(b *testing.B) {
	seed, u, v := sequence(), make([]uint32, 8192), make([]int32, 8192)
	for name, f := range map[string]func(){
		"uniform/near a power of two": func() { Uniform(u, seed, 1, 2, 1<<30-1) },
		"uniform/just above":          func() { Uniform(u, seed, 1, 2, 1<<29+1) },
		"ternary":                     func() { Ternary(v, seed, 1) },
		"cbd":                         func() { CBD(v, seed, 1) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8192, "ns/value")
		})
	}
}
