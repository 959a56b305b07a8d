package compare_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/compare"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

// toy is an insecure set with N = 2^10 and up to 6 primes.
func toy(t testing.TB, primes int) bfv.Parameters {
	t.Helper()
	base := must(henc.NewParameters(henc.ParametersLiteral{
		Name: "bfv-toy", LogN: 10, LogScale: 10, Mode: henc.ModeSingle, Alpha: 2, Insecure: true,
		P: []uint32{1073692673, 1073668097}, Q: []uint32{1073651713, 1073643521, 1073479681, 1073430529, 1073184769,
			1073053697}[:primes],
	}))(t)
	return must(bfv.NewParameters(base, 0))(t)
}

type rig struct {
	ctx  *bfv.Context
	enc  *bfv.Encryptor
	dec  *secret.IntegerDecryptor
	key  *secret.Key
	keys *henc.EvaluationKeys
	c    *compare.Comparer
}

func newRig(t testing.TB, p bfv.Parameters) *rig {
	t.Helper()
	r := &rig{ctx: must(bfv.NewContext(p, henc.WithBackend(backendtest.New(t)), henc.WithN2(1)))(t)}
	key := must(secret.Generate(r.ctx.Base(), nil))(t)
	r.enc = must(bfv.NewEncryptor(r.ctx, must(key.PublicKey())(t)))(t)
	r.dec, r.key = secret.NewIntegerDecryptor(r.ctx, key), key
	r.keys = must(key.EvaluationKeys(nil, false))(t)
	r.keys.Galois = must(key.GaloisKeys(compare.Elements(p)))(t)
	r.c = must(compare.New(r.ctx, r.keys))(t)
	return r
}

func (r *rig) number(t testing.TB, v int) *bfv.Ciphertext {
	t.Helper()
	return must(r.enc.Encrypt(must(compare.Encode(r.ctx, v))(t), nil))(t)
}

func (r *rig) wide(t testing.TB, v int) compare.Wide {
	t.Helper()
	high, low, err := compare.EncodeWide(r.ctx, v)
	if err != nil {
		t.Fatal(err)
	}
	return compare.Wide{High: must(r.enc.Encrypt(high, nil))(t), Low: must(r.enc.Encrypt(low, nil))(t)}
}

// says decrypts a ciphertext that holds one number in every slot.
func (r *rig) says(t testing.TB, ct *bfv.Ciphertext) uint64 {
	t.Helper()
	slots := must(r.dec.Slots(ct))(t)
	for i, v := range slots {
		if v != slots[0] {
			t.Fatalf("slot %d holds %d, slot 0 %d", i, v, slots[0])
		}
	}
	if noise, limit := must(r.dec.Noise(ct))(t), r.ctx.Parameters().Noise().Largest(ct.Noise); noise > limit {
		t.Errorf("noise of %g, above the bound %g", noise, limit)
	}
	return slots[0]
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// TestGreater compares encrypted numbers at and beside the ends of the range, and equal ones.
func TestGreater(t *testing.T) {
	r := newRig(t, toy(t, 5))
	n := r.ctx.Parameters().N()
	values := []int{0, 1, n/2 - 1, n / 2, n - 2, n - 1}
	for _, a := range values {
		for _, b := range values {
			x, y := r.number(t, a), r.number(t, b)
			if got := r.says(t, must(r.c.Greater(x, y))(t)); got != truth(a > b) {
				t.Errorf("%d > %d: %d", a, b, got)
			}
			if got := r.says(t, must(r.c.Different(x, y))(t)); got != truth(a != b) {
				t.Errorf("%d != %d: %d", a, b, got)
			}
			coeffs := must(r.dec.Coeffs(must(r.c.Masked(x, y, rand.Reader))(t)))(t)
			if coeffs[0] != truth(a > b) {
				t.Errorf("%d > %d, masked: %d", a, b, coeffs[0])
			}
			counts := map[uint64]int{}
			for _, c := range coeffs[1:] {
				counts[c]++
			}
			if len(counts) < n*9/10 {
				t.Errorf("%d and %d: the mask has %d values in %d coefficients", a, b, len(counts), n)
			}
		}
	}
}

// TestWide compares numbers of two digits, and goes on with the result.
func TestWide(t *testing.T) {
	r := newRig(t, toy(t, 5))
	n := r.ctx.Parameters().N()
	for _, c := range [][2]int{
		{0, 0}, {0, 1}, {1, 0}, {n - 1, n}, {n, n - 1}, {n, n}, {n*n - 1, 0}, {0, n*n - 1},
		{5*n + 3, 5*n + 3}, {5*n + 3, 5*n + 4},
		{5*n + 4, 5*n + 3}, {6 * n, 5*n + 7}, {5*n + 7, 6 * n},
	} {
		ct := must(r.c.GreaterWide(r.wide(t, c[0]), r.wide(t, c[1])))(t)
		if got := r.says(t, ct); got != truth(c[0] > c[1]) {
			t.Errorf("%d > %d: %d", c[0], c[1], got)
		}
		again := must(bfv.NewEvaluator(r.ctx, r.keys).Mul(ct, ct))(t)
		if got := r.says(t, again); got != truth(c[0] > c[1]) {
			t.Errorf("%d > %d, squared: %d", c[0], c[1], got)
		}
	}
}

// TestRefused covers numbers out of range, missing keys and randomness that ends.
func TestRefused(t *testing.T) {
	r := newRig(t, toy(t, 5))
	n := r.ctx.Parameters().N()
	for _, v := range []int{-1, n} {
		if _, err := compare.Encode(r.ctx, v); !errors.Is(err, henc.ErrMessage) {
			t.Errorf("%d: %v", v, err)
		}
	}
	for _, v := range []int{-1, n * n} {
		if _, _, err := compare.EncodeWide(r.ctx, v); !errors.Is(err, henc.ErrMessage) {
			t.Errorf("wide %d: %v", v, err)
		}
	}
	if _, err := r.c.Masked(r.number(t, 1), r.number(t, 2), bytes.NewReader(nil)); err == nil {
		t.Error("masked without randomness")
	}
	if _, err := r.c.Greater(nil, r.number(t, 2)); err == nil {
		t.Error("compared with nothing")
	}
	delete(r.keys.Galois, 3)
	if _, err := compare.New(r.ctx, r.keys); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

// BenchmarkGreater times one comparison of 13-bit numbers at 128 bits, 32 of them one after another, and one of 26-bit
// numbers, and checks each.
func BenchmarkGreater(b *testing.B) {
	r := newRig(b, must(bfv.Named("bfv13", 0))(b))
	x, y := r.number(b, 5000), r.number(b, 4999)
	wx, wy := r.wide(b, 5000<<13), r.wide(b, 5000<<13-1)
	one := func() (*bfv.Ciphertext, error) { return r.c.Greater(x, y) }
	wide := func() (*bfv.Ciphertext, error) { return r.c.GreaterWide(wx, wy) }
	for _, c := range []struct {
		name    string
		count   int
		compare func() (*bfv.Ciphertext, error)
	}{{"1", 1, one}, {"32", 32, one}, {"wide", 1, wide}, {"32-wide", 32, wide}} {
		b.Run(c.name, func(b *testing.B) {
			answers := make([]*bfv.Ciphertext, c.count)
			for b.Loop() {
				for i := range answers {
					answers[i] = must(c.compare())(b)
				}
				if err := r.ctx.Base().Ring().Sync(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				for _, ct := range answers {
					if got := r.says(b, ct); got != 1 {
						b.Fatalf("the first number is larger: %d", got)
					}
					r.ctx.Free(ct)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkMasked times a comparison without the automorphisms that keep one coefficient alone, and checks each.
func BenchmarkMasked(b *testing.B) {
	r := newRig(b, must(bfv.Named("bfv13", 0))(b))
	x, y := r.number(b, 5000), r.number(b, 4999)
	for b.Loop() {
		ct := must(r.c.Masked(x, y, rand.Reader))(b)
		b.StopTimer()
		if got := must(r.dec.Coeffs(ct))(b)[0]; got != 1 {
			b.Fatalf("5000 > 4999: %d", got)
		}
		b.StartTimer()
	}
}
