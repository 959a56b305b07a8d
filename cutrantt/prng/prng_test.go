package prng

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

// sequence is the key 00 01 02 ... 1f of RFC 8439.
func sequence() *[32]byte {
	var s [32]byte
	for i := range s {
		s[i] = byte(i)
	}
	return &s
}

// TestBlock maps ChaCha20 block vectors of RFC 8439 to (seed, label, index,
// attempt, word).
func TestBlock(t *testing.T) {
	for _, c := range []struct {
		source                string
		seed                  *[32]byte
		label, index, attempt uint32
		start                 int
		want                  [16]uint32
	}{
		{
			// nonce 00:00:00:09:00:00:00:4a:00:00:00:00, block counter 1
			"section 2.3.2", sequence(), 0x09000000, 0x4a000000, 0, 16,
			[16]uint32{
				0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033, 0x9aaa2204, 0x4e6cd4c3,
				0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9, 0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2,
			},
		},
		{
			"appendix A.1, vector 1", &[32]byte{}, 0, 0, 0, 0,
			[16]uint32{
				0xade0b876, 0x903df1a0, 0xe56a5d40, 0x28bd8653, 0xb819d2bd, 0x1aed8da0, 0xccef36a8, 0xc70d778b,
				0x7c5941da, 0x8d485751, 0x3fe02477, 0x374ad8b8, 0xf4b8436a, 0x1ca11815, 0x69b687c3, 0x8665eeb2,
			},
		},
		{
			// nonce 00:00:00:00:00:00:00:00:00:00:00:02, block counter 0
			"appendix A.1, vector 5", &[32]byte{}, 0, 0, 0x02000000, 0,
			[16]uint32{
				0x374dc6c2, 0x3736d58c, 0xb904e24a, 0xcd3f93ef, 0x88228b1a, 0x96a4dfb3, 0x5b76ab72, 0xc727ee54,
				0x0e0e978a, 0xf3145c95, 0x1b748ea8, 0xf786c297, 0x99c28f5f, 0x628314e8, 0x398a19fa, 0x6ded1b53,
			},
		},
	} {
		var got [16]uint32
		genericWords(got[:], c.seed, c.label, c.index, c.attempt, c.start)
		if got != c.want {
			t.Errorf("%s: %08x, want %08x", c.source, got, c.want)
		}
	}
}

// TestWordsAnywhere: a word does not depend on where reading starts.
func TestWordsAnywhere(t *testing.T) {
	all := make([]uint32, 1000)
	genericWords(all, sequence(), 1, 2, 3, 0)
	for _, start := range []int{0, 1, 15, 16, 17, 250, 256, 512, 997} {
		for _, n := range []int{0, 1, 3, 16, 255, 256, 257} {
			n = min(n, len(all)-start)
			got := make([]uint32, n)
			genericWords(got, sequence(), 1, 2, 3, start)
			if !slices.Equal(got, all[start:start+n]) {
				t.Errorf("%d words from %d differ", n, start)
			}
		}
	}
}

// TestStreamsDiffer: every part of the address selects another stream.
func TestStreamsDiffer(t *testing.T) {
	seen := make(map[[4]uint32]string)
	other := sequence()
	other[31] ^= 1
	for name, f := range map[string]func(dst []uint32){
		"base":    func(d []uint32) { genericWords(d, sequence(), 0, 0, 0, 0) },
		"seed":    func(d []uint32) { genericWords(d, other, 0, 0, 0, 0) },
		"label":   func(d []uint32) { genericWords(d, sequence(), 1, 0, 0, 0) },
		"index":   func(d []uint32) { genericWords(d, sequence(), 0, 1, 0, 0) },
		"attempt": func(d []uint32) { genericWords(d, sequence(), 0, 0, 1, 0) },
		"start":   func(d []uint32) { genericWords(d, sequence(), 0, 0, 0, 16) },
	} {
		var w [4]uint32
		f(w[:])
		if before, ok := seen[w]; ok {
			t.Errorf("%s and %s give the same words", name, before)
		}
		seen[w] = name
	}
}

// word is one word on its own.
func word(seed *[32]byte, label, index, attempt uint32, j int) uint32 {
	var w [1]uint32
	genericWords(w[:], seed, label, index, attempt, j)
	return w[0]
}

// simpleResidue is the definition in big integers: the residue that word x gives,
// unless it is rejected.
func simpleResidue(x, q uint32) (r uint32, ok bool) {
	words, modulus := new(big.Int).Lsh(big.NewInt(1), 32), big.NewInt(int64(q))
	high, low := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(int64(x)), modulus), words, new(big.Int))
	return uint32(high.Uint64()), low.Cmp(words.Mod(words, modulus)) >= 0
}

// TestUniformExact counts the words of a residue: floor(2^32/q) for every residue, at
// both ends and in between, so that none is likelier than another.
func TestUniformExact(t *testing.T) {
	for _, q := range []uint32{1<<24 + 43, 67084289, 536903681, 859586561, 1073692673, 1 << 29, 1<<31 + 11,
		math.MaxUint32} {
		below := rejectBelow(q)
		for _, r := range []uint32{0, 1, 2, q / 7, q / 3, q / 2, q - 3, q - 2, q - 1} {
			first := (uint64(r)<<32 + uint64(q) - 1) / uint64(q) // the least x with floor(x*q/2^32) = r
			next := (uint64(r+1)<<32 + uint64(q) - 1) / uint64(q)
			var accepted uint32
			for x := first; x < next; x++ {
				got, rejected := residue(uint32(x), q, below)
				if want, ok := simpleResidue(uint32(x), q); got != r || want != r || rejected == ok {
					t.Fatalf("modulus %d, word %d: residue %d, rejected %v; want %d, %v", q, x, got,
						rejected, want, !ok)
				}
				if !rejected {
					accepted++
				}
			}
			if want := uint32((1 << 32) / uint64(q)); accepted != want {
				t.Errorf("modulus %d: residue %d has %d words, want %d", q, r, accepted, want)
			}
		}
	}
}

// TestDefinition computes each value from its own words.
func TestDefinition(t *testing.T) {
	const n, label = 1500, 77
	seed := sequence()
	for _, q := range []uint32{2, 3, 12289, 1<<29 + 1, 1<<29 - 3, 859586561, 1073479681, 1<<31 + 11, math.MaxUint32} {
		got := make([]uint32, n)
		Uniform(got, seed, label, 5, q)
		for j, x := range got {
			attempt := uint32(0)
			want, ok := simpleResidue(word(seed, label, 5, attempt, j), q)
			for ; !ok; want, ok = simpleResidue(word(seed, label, 5, attempt, j), q) {
				attempt++
			}
			if x != want {
				t.Fatalf("uniform modulo %d, residue %d: %d, want %d", q, j, x, want)
			}
		}
	}
	ternary, cbd := make([]int32, n), make([]int32, n)
	Ternary(ternary, seed, label)
	CBD(cbd, seed, label)
	for j := range n {
		lo, hi := word(seed, label, 0, 0, 2*j), word(seed, label, 0, 0, 2*j+1)
		x := float64(uint64(hi)<<32|uint64(lo)) * 3 / (1 << 64) // exact enough away from thirds
		if want := int32(math.Floor(x)) - 1; ternary[j] != want && math.Abs(x-math.Round(x)) > 1e-9 {
			t.Fatalf("ternary %d: %d, want %d", j, ternary[j], want)
		}
		var want int32
		for b := range 21 {
			want += int32(lo>>b&1) - int32(hi>>b&1)
		}
		if cbd[j] != want {
			t.Fatalf("cbd %d: %d, want %d", j, cbd[j], want)
		}
	}
}

// TestPrefix: a longer draw begins with the shorter one.
func TestPrefix(t *testing.T) {
	long, short := make([]int32, 1000), make([]int32, 130)
	for _, f := range []func([]int32, *[32]byte, uint32){Ternary, CBD} {
		f(long, sequence(), 3)
		f(short, sequence(), 3)
		if !slices.Equal(long[:len(short)], short) {
			t.Error("the length changes the values")
		}
	}
}

// TestFrozen keeps the bits: SHA-256 over little-endian words of the seed
// 00 01 ... 1f. Ciphertexts and evaluation keys that are stored as seeds depend
// on them. The values were also computed from RFC 8439 by a second program, with
// interop/python.
func TestFrozen(t *testing.T) {
	const n = 4096
	u, s := make([]uint32, n), make([]int32, n)
	signed := func(f func([]int32, *[32]byte, uint32), label uint32) func() []uint32 {
		return func() []uint32 {
			f(s, sequence(), label)
			for i, x := range s {
				u[i] = uint32(x)
			}
			return u
		}
	}
	uniform := func(label, index, q uint32) func() []uint32 {
		return func() []uint32 { Uniform(u, sequence(), label, index, q); return u }
	}
	for _, c := range []struct {
		name string
		f    func() []uint32
		want string
	}{
		{"uniform 1073692673, label 1, index 0", uniform(1, 0, 1073692673),
			"e98dfe81ebbd27d1247308c013a91eda011f23c3bba9622060b7162ec32b1ba2"},
		{"uniform 67084289, label 1, index 1", uniform(1, 1, 67084289),
			"2067b5ba70b2b890da1d50ddfe34ac42bbe69febe8d6e79f397d00d9c7805535"},
		{"uniform 536903681, label 9, index 65", uniform(9, 65, 536903681),
			"7bd568c8a3ad0f41ac399974868f18991a520cc9ae2bdd93a3478dd3b82c1609"},
		{"uniform 859586561, a fifth rejected", uniform(7, 3, 859586561),
			"a897c8baf0707b2c625db8d98209d775ce509f31c42edb9add75e6f14f05edc6"},
		{"uniform 22724609, 4 in a million rejected", uniform(7, 4, 22724609),
			"e5b9c15f821afa9389ae2cc8a18e1a08a96c2714ae46a2b3e8512f1e80cb003e"},
		{"ternary, label 2", signed(Ternary, 2), "11b824f6fa4138b1d5a0c569c8dd03d38837f179f915399559428ea4257e6570"},
		{"cbd, label 3", signed(CBD, 3), "22ea0179456cadadb0b8207c04f3057ed99d446deb0eeb5231e0e961619d4131"},
	} {
		h := sha256.New()
		for _, x := range c.f() {
			h.Write(binary.LittleEndian.AppendUint32(nil, x))
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// chiSquare fails where the counts are farther from the expected ones than
// chance allows: beyond the mean by 5 standard deviations of the chi-square
// distribution. The seeds are fixed, so the outcome is too.
func chiSquare(t *testing.T, what string, counts []int, expected []float64) {
	t.Helper()
	var x float64
	for i, e := range expected {
		d := float64(counts[i]) - e
		x += d * d / e
	}
	free := float64(len(expected) - 1)
	if limit := free + 5*math.Sqrt(2*free); x > limit {
		t.Errorf("%s: chi-square %.1f with %.0f degrees of freedom, limit %.1f", what, x, free, limit)
	}
}

func TestUniformDistribution(t *testing.T) {
	const n, buckets = 1 << 18, 64
	u := make([]uint32, n)
	for i, q := range []uint32{12289, 67084289, 536903681, 859586561, 1073692673} {
		Uniform(u, sequence(), 4, uint32(i), q)
		counts, expected := make([]int, buckets), make([]float64, buckets)
		for _, x := range u {
			if x >= q {
				t.Fatalf("residue %d, modulus %d", x, q)
			}
			counts[uint64(x)*buckets/uint64(q)]++
		}
		for b := range expected { // exact bucket sizes
			first := (uint64(b)*uint64(q) + buckets - 1) / buckets
			next := (uint64(b+1)*uint64(q) + buckets - 1) / buckets
			expected[b] = n * float64(next-first) / float64(q)
		}
		chiSquare(t, fmt.Sprintf("uniform modulo %d", q), counts, expected)
		low := make([]int, 2)
		for _, x := range u {
			low[x&1]++
		}
		odd := float64(q/2) / float64(q)
		chiSquare(t, fmt.Sprintf("lowest bit modulo %d", q), low, []float64{n * (1 - odd), n * odd})
	}
}

func TestTernaryDistribution(t *testing.T) {
	const n = 1 << 18
	v := make([]int32, n)
	Ternary(v, sequence(), 5)
	counts, pairs := make([]int, 3), make([]int, 9)
	for j, x := range v {
		if x < -1 || x > 1 {
			t.Fatalf("coefficient %d", x)
		}
		counts[x+1]++
		if j%2 == 1 {
			pairs[3*(v[j-1]+1)+x+1]++
		}
	}
	chiSquare(t, "ternary", counts, slices.Repeat([]float64{n / 3.0}, 3))
	chiSquare(t, "ternary pairs", pairs, slices.Repeat([]float64{n / 18.0}, 9))
}

func TestCBDDistribution(t *testing.T) {
	const n = 1 << 18
	v := make([]int32, n)
	CBD(v, sequence(), 6)
	// P(x) = C(42, 21+x)/2^42; tails beyond 12 are counted together.
	const tail = 12
	counts, expected := make([]int, 2*tail+1), make([]float64, 2*tail+1)
	binomial := 1.0
	for k := range 43 {
		expected[min(max(k-21, -tail), tail)+tail] += n * binomial / (1 << 42)
		binomial = binomial * float64(42-k) / float64(k+1)
	}
	var sum, squares float64
	for _, x := range v {
		if x < -21 || x > 21 {
			t.Fatalf("coefficient %d", x)
		}
		counts[min(max(x, -tail), tail)+tail]++
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	chiSquare(t, "cbd", counts, expected)
	if mean := sum / n; math.Abs(mean) > 5*Sigma/math.Sqrt(n) {
		t.Errorf("mean %g", mean)
	}
	if s := math.Sqrt(squares / n); math.Abs(s-Sigma) > 0.03 {
		t.Errorf("standard deviation %g, want %g", s, Sigma)
	}
	if math.Abs(Sigma-math.Sqrt(10.5)) > 1e-15 {
		t.Errorf("Sigma is %v, not the square root of 21/2", Sigma)
	}
}
