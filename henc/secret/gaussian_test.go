package secret

import (
	"fmt"
	"math"
	"testing"
	"testing/cryptotest"

	"github.com/hencedge/hencedge/henc"
)

func testWords(b byte) *words { return &words{seed: &henc.Seed{b, 1, 2, 3}} }

// TestGaussianExact compares samples of small deviations with the exact
// probabilities, value by value, by Pearson's chi-squared test.
func TestGaussianExact(t *testing.T) {
	const samples = 1 << 19
	for log := 1; log <= 4; log++ {
		sigma := math.Exp2(float64(log))
		g := gaussian{log: log, word: testWords(byte(log)).word}
		seen := map[int]int{}
		for range samples {
			negative, v, u := g.sample()
			x := v<<log + int(u)
			if negative {
				x = -x
			}
			seen[x]++
		}
		density := func(x int) float64 { return math.Exp(-float64(x*x) / (2 * sigma * sigma)) }
		total, far := 0.0, int(20*sigma)
		for x := -far; x <= far; x++ {
			total += density(x)
		}
		chi, cells := 0.0, 0
		rest, restWant := float64(samples), float64(samples)
		for x := -far; x <= far; x++ {
			want := samples * density(x) / total
			if want < 20 {
				continue
			}
			d := float64(seen[x]) - want
			chi += d * d / want
			cells++
			rest -= float64(seen[x])
			restWant -= want
		}
		chi += (rest - restWant) * (rest - restWant) / restWant
		// Wilson and Hilferty: the cube root of chi^2/k is about normal.
		k := float64(cells)
		z := (math.Cbrt(chi/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
		if math.Abs(z) > 4.5 {
			t.Errorf("deviation 2^%d: chi^2 %.1f of %d cells, %.1f deviations off", log, chi, cells, z)
		}
	}
}

// TestGaussianLarge: at large deviations the moments and the tails are a Gaussian's.
func TestGaussianLarge(t *testing.T) {
	const n = 1 << 16
	high, low := make([]float64, n), make([]float64, n)
	for _, log := range []int{17, 31, 32, 33, 45, henc.MaxFloodLog} {
		if err := noise(high, low, log, &henc.Seed{byte(log)}); err != nil {
			t.Fatal(err)
		}
		var sum, square, fourth float64
		beyond, odd := 0, 0
		for i := range high {
			if high[i] != math.Trunc(high[i]) || low[i] != math.Trunc(low[i]) || math.Mod(high[i], 1<<32) != 0 {
				t.Fatalf("deviation 2^%d: %g + %g", log, high[i], low[i])
			}
			x := (high[i] + low[i]) / math.Exp2(float64(log))
			sum, square, fourth = sum+x, square+x*x, fourth+x*x*x*x
			if math.Abs(x) > 2 {
				beyond++
			}
			if math.Mod(low[i], 2) != 0 {
				odd++
			}
		}
		off := func(name string, got, want, deviation float64) {
			if math.Abs(got-want) > 5*deviation {
				t.Errorf("deviation 2^%d: %s is %g, want %g with a deviation of %g", log, name, got, want, deviation)
			}
		}
		off("the mean", sum/n, 0, 1/math.Sqrt(n))
		off("the variance", square/n, 1, math.Sqrt(2.0/n))
		off("the fourth moment", fourth/n, 3, math.Sqrt(96.0/n))
		p := math.Erfc(math.Sqrt2)
		off("the part beyond two deviations", float64(beyond)/n, p, math.Sqrt(p*(1-p)/n))
		off("the part of odd values", float64(odd)/n, 0.5, 0.5/math.Sqrt(n))
	}
}

// TestGaussianHasNoEnd: where the random bits say so a value lies far beyond the 8.6
// deviations that a Gaussian made of words of 53 bits can reach.
func TestGaussianHasNoEnd(t *testing.T) {
	// A trial of probability 1 that is followed by one of 1/2 that succeeds and one of 1/3
	// that fails lets exp(-1) be true.
	k := -1
	far := gaussian{log: 4, word: func() uint64 { k++; return []uint64{0, 0, 1}[k%3] }}
	v := 0
	for v < 40 && far.exp(func() bool { return true }) {
		v++
	}
	if v != 40 {
		t.Errorf("the multiple of the deviation ends at %d", v)
	}
	// Where every trial fails, every exp is true.
	never := gaussian{log: 4, word: func() uint64 { return math.MaxInt64 }}
	if !never.accept(40, 3) {
		t.Error("40 deviations are refused whatever the bits say")
	}
}

// TestShareSeed: where the operating system repeats its random bytes, no two shared
// decryptions have one seed unless ciphertext, key and number agree.
func TestShareSeed(t *testing.T) {
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[henc.Seed]string{}
	for _, root := range []byte{1, 2} {
		k, err := Generate(ctx, &henc.Seed{root})
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []float64{0.25, 0.5} {
			ct, err := NewSeededEncryptor(ctx, k).EncryptReal([]float64{value}, 0, 0, &henc.Seed{7})
			if err != nil {
				t.Fatal(err)
			}
			for used := range uint64(2) {
				cryptotest.SetGlobalRandom(t, 1)
				s, err := NewDecryptor(ctx, k).shareSeed(ct, used)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("key %d, value %g, query %d", root, value, used)
				if before, ok := seen[*s]; ok {
					t.Errorf("%s and %s have one seed", before, name)
				}
				seen[*s] = name
			}
		}
	}
}
