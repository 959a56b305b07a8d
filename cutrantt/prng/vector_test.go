package prng

import (
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/testenv"
)

// TestVectorized fails where CUTRANTT_TEST_REQUIRE asks for vector code that the
// machine has not, and where CUTRANTT_CPU does not select its code.
func TestVectorized(t *testing.T) {
	for _, name := range []string{"avx512", "avx2", "neon"} {
		if !slices.Contains(variants(), code(name)) {
			testenv.Without(t, name, "this machine runs ", variants(), " only")
		}
	}
	want := code(os.Getenv("CUTRANTT_CPU"))
	if want == "" {
		want = variants()[0]
	}
	if slices.Contains(variants(), want) && selected() != want {
		t.Errorf("%s runs, not %s", selected(), want)
	}
}

// TestVariantsAgree compares the vector code with plain Go for lengths around its groups,
// moduli of every rejection rate, and many streams.
func TestVariantsAgree(t *testing.T) {
	for _, c := range variants() {
		if c != generic {
			t.Run(string(c), func(t *testing.T) { agrees(t, c) })
		}
	}
}

func agrees(t *testing.T, c code) {
	seed := sequence()
	for _, n := range []int{0, 16, 32, 256, 528, 1024, 4096, 4112, 8192, 16384 + 16} {
		for i, q := range []uint32{2, 3, 5, 257, 65537, 1<<29 + 1, 1 << 29, 859586561, 1<<30 - 1, 3 << 28,
			1<<31 + 1, 1<<32 - 1} {
			got, want := make([]uint32, n+1), make([]uint32, n+1)
			vectorUniform(c, got[:n], seed, 1, uint32(i), q)
			genericUniform(want[:n], seed, 1, uint32(i), q)
			if !slices.Equal(got, want) {
				t.Fatalf("%d residues modulo %d differ", n, q)
			}
		}
	}
	for _, n := range []int{0, 1, 8, 63, 64, 255, 256, 300, 1024, 5000} {
		for label := range uint32(8) {
			got, want := make([]int32, n+1), make([]int32, n+1)
			vectorSmall(c, got[:n], seed, label, false)
			genericTernary(want[:n], seed, label)
			if !slices.Equal(got, want) {
				t.Fatalf("%d ternary values differ", n)
			}
			vectorSmall(c, got[:n], seed, label, true)
			genericCBD(want[:n], seed, label)
			if !slices.Equal(got, want) {
				t.Fatalf("%d binomial values differ", n)
			}
		}
	}
}

// TestVariantsAgreeAnywhere is TestVariantsAgree for streams, lengths and moduli at
// random; a modulus has every size and any rejection rate.
func TestVariantsAgreeAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := (*[32]byte)(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		label, index := rapid.Uint32().Draw(t, "label"), rapid.Uint32().Draw(t, "index")
		q := max(rapid.Uint32().Draw(t, "q")>>rapid.IntRange(0, 31).Draw(t, "shift"), 2)
		n := 16 * rapid.IntRange(0, 1100).Draw(t, "blocks")
		residues := make([]uint32, n)
		genericUniform(residues, seed, label, index, q)
		for _, c := range variants() {
			if c == generic {
				continue
			}
			r := make([]uint32, n)
			if vectorUniform(c, r, seed, label, index, q); !slices.Equal(r, residues) {
				t.Errorf("%s: residues differ", c)
			}
		}
	})
}

// TestTernaryEdges: coefficients whose high word is floor(2^32/3) or twice that, where
// the low word decides. One word in 2^32 is like that; these were searched for.
func TestTernaryEdges(t *testing.T) {
	for _, e := range []struct {
		label     uint32
		at        int
		low, high uint32
		want      int32
	}{
		{429456, 2184, 0x44fcf262, 0x55555555, -1},
		{1055946, 724, 0x86d279cb, 0x55555555, 0},
		{9033581, 3134, 0x73cf101a, 0xaaaaaaaa, 0},
		{1495333, 56, 0xbfe62508, 0xaaaaaaaa, 1},
	} {
		v, w := make([]int32, e.at+1), make([]uint32, 2)
		genericWords(w, sequence(), e.label, 0, 0, 2*e.at)
		if w[0] != e.low || w[1] != e.high {
			t.Fatalf("words %08x of label %d, want %08x %08x", w, e.label, e.low, e.high)
		}
		genericTernary(v, sequence(), e.label)
		if v[e.at] != e.want {
			t.Errorf("plain Go: %08x gives %d, want %d", w, v[e.at], e.want)
		}
		for _, c := range variants() {
			if c != generic {
				if vectorSmall(c, v, sequence(), e.label, false); v[e.at] != e.want {
					t.Errorf("%s: %08x gives %d, want %d", c, w, v[e.at], e.want)
				}
			}
		}
	}
}

func BenchmarkSamplers(b *testing.B) {
	seed, u, v := sequence(), make([]uint32, 8192), make([]int32, 8192)
	for _, c := range variants() {
		for name, f := range map[string]func(){
			"uniform/few rejected":     func() { vectorUniform(c, u, seed, 1, 2, 1073692673) },
			"uniform/a fifth rejected": func() { vectorUniform(c, u, seed, 1, 2, 859586561) },
			"ternary":                  func() { vectorSmall(c, v, seed, 1, false) },
			"cbd":                      func() { vectorSmall(c, v, seed, 1, true) },
		} {
			if c == generic {
				f = map[string]func(){
					"uniform/few rejected":     func() { genericUniform(u, seed, 1, 2, 1073692673) },
					"uniform/a fifth rejected": func() { genericUniform(u, seed, 1, 2, 859586561) },
					"ternary":                  func() { genericTernary(v, seed, 1) },
					"cbd":                      func() { genericCBD(v, seed, 1) },
				}[name]
			}
			b.Run(string(c)+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8192, "ns/value")
			})
		}
	}
}
