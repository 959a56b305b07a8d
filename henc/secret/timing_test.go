package secret_test

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testenv/dudect"
)

// TestTiming compares the times of operations on one fixed secret with those on
// random ones: O. Reparaz, J. Balasch and I. Verbauwhede, "Dude, is my code constant
// time?", DATE 2017. Unlike valgrind it runs the code that this processor runs, and sees
// instructions whose time depends on operands; it needs a machine with little else to do.
// cross/timing.sh runs it.
func TestTiming(t *testing.T) {
	if os.Getenv("HENCEDGE_TIMING") == "" {
		testenv.Missing(t, "timing", "HENCEDGE_TIMING is not set: make timing")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ctx := context(t, "edge12-d1", 1)
	p, n := ctx.Parameters(), ctx.Parameters().N()
	level := p.MaxLevel()

	// What differs between the classes is made in one place, by the same steps (mask is 0
	// for the fixed class, else all ones), or has as many copies in either class: neither
	// caches nor predictors hold a difference when the clock starts.
	var s henc.Seed
	seeds := func(mask uint64, r *rand.Rand) {
		for i := range s {
			s[i] = byte(r.Uint64() & mask)
		}
	}
	coeffs := make([]float64, n)
	messages := func(mask uint64, r *rand.Rand) {
		for i := range coeffs {
			coeffs[i] = float64(int64(r.Uint64()&mask) >> 40)
		}
	}
	const copies = 8
	var keys [2][copies]*secret.Key
	for i := range copies {
		keys[0][i] = must(secret.FromCoefficients(ctx, make([]int32, n), seed(t, "zero")))(t)
		keys[1][i] = must(secret.Generate(ctx, nil))(t)
	}
	var key *secret.Key
	choose := func(mask uint64, r *rand.Rand) { key = keys[mask&1][r.IntN(copies)] }
	enc := must(henc.NewEncryptor(ctx, must(keys[1][0].PublicKey())(t)))(t)
	zero := make([]float64, n)
	ct := must(enc.Encrypt(zero, level, 0, nil))(t)
	small := make([]int32, n)
	board := must(secret.NewCompactEncryptor(boardKey(t, "compact12", 1, "board")))(t)
	readings := make([]float64, 64)
	values := func(mask uint64, r *rand.Rand) {
		for i := range readings {
			readings[i] = float64(int64(r.Uint64()&mask)) * 0x1p-63
		}
	}

	if got := timing(seeds, func() { leak(s[:]) }); got < dudect.Leaking {
		t.Fatalf("the control leaks, but t = %.1f", got)
	}
	for _, tt := range []struct {
		what  string
		class func(mask uint64, r *rand.Rand)
		f     func() error
	}{
		{"ternary", seeds, func() error { prng.Ternary(small, (*[32]byte)(&s), 1); return nil }},
		{"binomial", seeds, func() error { prng.CBD(small, (*[32]byte)(&s), 2); return nil }},
		{"encrypt, by seed", seeds, func() error { return free(ctx)(enc.Encrypt(zero, level, 0, &s)) }},
		{"encrypt, by message", messages, func() error { return free(ctx)(enc.Encrypt(coeffs, level, 0, &s)) }},
		{"encrypt seeded, by key", choose, func() error {
			return free(ctx)(secret.NewSeededEncryptor(ctx, key).Encrypt(zero, level, 0, &s))
		}},
		{"encrypt compact, by message", values, func() error {
			_, err := board.Encrypt(readings, compact.Bits16, origin, &s)
			return err
		}},
		{"encrypt compact, by seed", seeds, func() error {
			_, err := board.Encrypt(readings, compact.Bits16, origin, &s)
			return err
		}},
		{"decrypt, by key", choose, func() error {
			pt, err := secret.NewDecryptor(ctx, key).Decrypt(ct)
			if err == nil {
				ctx.Ring().Free(pt.Value)
			}
			return err
		}},
	} {
		var err error
		got := timing(tt.class, func() { err = tt.f() })
		if err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if t.Logf("%s: t = %.1f", tt.what, got); got >= dudect.Leaking {
			t.Errorf("%s: t = %.1f: the time depends on the secret, or the machine is busy: run it again", tt.what, got)
		}
	}
}

// TestTimingBounded compares the times of decrypting ciphertexts of small messages with
// those of ciphertexts that hold anything: where an honest message is known to be small,
// nobody learns from the time whether it was.
func TestTimingBounded(t *testing.T) {
	if os.Getenv("HENCEDGE_TIMING") == "" {
		testenv.Missing(t, "timing", "HENCEDGE_TIMING is not set: make timing")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ctx := context(t, "edge13-d3", 1)
	level := ctx.Parameters().MaxLevel() // of five primes
	key := must(secret.Generate(ctx, nil))(t)
	enc := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
	const copies = 8
	var cts [2][copies]*henc.Ciphertext
	for i := range copies {
		cts[0][i] = must(enc.EncryptReal([]float64{0.5}, level, 0, nil))(t)
		cts[1][i] = uniform(t, ctx, level, uint64(i))
	}
	var ct *henc.Ciphertext
	var err error
	dec := secret.NewDecryptor(ctx, key)
	got := timing(func(mask uint64, r *rand.Rand) { ct = cts[mask&1][r.IntN(copies)] },
		func() { _, err = dec.DecryptRealBounded(ct, 0x1p40) })
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("decrypt and decode, by ciphertext: t = %.1f", got); got >= dudect.Leaking {
		t.Errorf("t = %.1f: the time depends on what a ciphertext holds, or the machine is busy: run it again", got)
	}
}

// timing is the statistic of the times of f on the two classes.
func timing(class func(mask uint64, r *rand.Rand), f func()) float64 {
	const count = 20000
	r := rand.New(rand.NewPCG(1, 2))
	var times [2][]float64
	for i := range count + 200 {
		k := r.Uint64() & 1
		class(-k, r)
		began := time.Now()
		f()
		took := float64(time.Since(began))
		if i < 200 { // warm up
			continue
		}
		times[k] = append(times[k], took)
		if i%1000 == 0 {
			runtime.GC()
		}
	}
	return dudect.Statistic(times[0], times[1])
}

// leak takes longer for bytes with their lowest bit set.
//
//go:noinline
func leak(x []byte) {
	for range 20 {
		for _, v := range x {
			if v&1 == 1 {
				control = math.Sqrt(control + float64(v))
			}
		}
	}
}

var control float64

// free gives the memory of a ciphertext back.
func free(ctx *henc.Context) func(ct *henc.Ciphertext, err error) error {
	return func(ct *henc.Ciphertext, err error) error {
		if err == nil {
			ctx.Ring().Free(ct.Value)
		}
		return err
	}
}
