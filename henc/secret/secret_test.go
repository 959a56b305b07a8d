package secret_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

func seed(t testing.TB, label string) *henc.Seed {
	t.Helper()
	return must((&henc.Seed{}).Derive("hencedge secret test " + label))(t)
}

func context(t testing.TB, set string, n2 int) *henc.Context {
	t.Helper()
	return must(henc.NewContext(must(henc.Named(set))(t), henc.WithBackend(backendtest.New(t)), henc.WithN2(n2)))(t)
}

// TestSecretIsTernary: equal seeds give equal keys, and the coefficients are
// uniform in {-1, 0, 1}.
func TestSecretIsTernary(t *testing.T) {
	ctx := context(t, "edge12-d1", 16)
	s := must(must(secret.Generate(ctx, seed(t, "a")))(t).Coefficients())(t)
	again := must(must(secret.Generate(context(t, "edge12-d1", 1), seed(t, "a")))(t).Coefficients())(t)
	other := must(must(secret.Generate(ctx, seed(t, "b")))(t).Coefficients())(t)
	if !slices.Equal(s, again) || slices.Equal(s, other) {
		t.Error("the key does not follow its seed")
	}
	count := map[int32]int{}
	for _, v := range s {
		count[v]++
	}
	third := float64(len(s)) / 3
	chi := 0.0
	for _, v := range []int32{-1, 0, 1} {
		d := float64(count[v]) - third
		chi += d * d / third
	}
	if len(count) != 3 || chi > 20 { // two degrees of freedom: exceeded with probability 4.5e-5
		t.Errorf("coefficients %v, chi squared %.1f", count, chi)
	}
}

// TestSecretRoundTrip: a key read back makes the same public key and decrypts.
func TestSecretRoundTrip(t *testing.T) {
	ctx := context(t, "edge12-d1", 16)
	k := must(secret.Generate(ctx, seed(t, "round trip")))(t)
	k.SetEpoch(3)
	b := must(k.Marshal())(t)
	other := context(t, "edge12-d1", 2)
	back := must(secret.Unmarshal(other, b))(t)
	if back.Epoch() != 3 || !bytes.Equal(b, must(back.Marshal())(t)) {
		t.Error("epoch or bytes changed")
	}
	pkA, pkB := must(k.PublicKey())(t), must(back.PublicKey())(t)
	if pkA.KeyID != pkB.KeyID || pkB.Epoch != 3 {
		t.Error("the public key changed")
	}
	// The same s with another root: another public key for the same secret.
	same := must(secret.FromCoefficients(ctx, must(k.Coefficients())(t), nil))(t)
	if must(same.PublicKey())(t).KeyID == pkA.KeyID {
		t.Error("two roots give one public key")
	}
	ct := must(secret.NewSeededEncryptor(ctx, k).EncryptReal([]float64{0.25}, 1, 0, nil))(t)
	if x := must(secret.NewDecryptor(ctx, same).DecryptReal(ct))(t)[0]; math.Abs(x-0.25) > 0x1p-14 {
		t.Errorf("decrypted %g", x)
	}
	if x := must(secret.NewDecryptor(ctx, must(secret.Generate(ctx, nil))(t)).DecryptReal(ct))(t)[0]; math.Abs(
		x-0.25) < 0x1p-5 {
		t.Errorf("another key decrypts: %g", x)
	}
}

// TestSecretRefusals: bytes and coefficients that are no key are errors.
func TestSecretRefusals(t *testing.T) {
	ctx := context(t, "edge12-d1", 16)
	k := must(secret.Generate(ctx, nil))(t)
	b := must(k.Marshal())(t)
	edit := func(f func(b []byte)) []byte {
		c := slices.Clone(b)
		f(c)
		return c
	}
	read := func(b []byte) error { _, err := secret.Unmarshal(ctx, b); return err }
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"nothing", read(nil), henc.ErrTruncated},
		{"cut", read(b[:len(b)-1]), henc.ErrTruncated},
		{"trailing", read(append(slices.Clone(b), 0)), henc.ErrMalformed},
		{"version", read(edit(func(b []byte) { b[1]++ })), henc.ErrVersion},
		{"kind", read(edit(func(b []byte) { b[2] = 2 })), henc.ErrKind},
		{"parameters", read(edit(func(b []byte) { b[9]++ })), henc.ErrParams},
		{"not ternary", read(edit(func(b []byte) { b[len(b)-3] |= 3 << 2 })), henc.ErrMalformed},
		{"no context", func() error { _, err := secret.Unmarshal(nil, b); return err }(), henc.ErrParams},
		{"generate without context", func() error { _, err := secret.Generate(nil, nil); return err }(),
			henc.ErrParams},
		{"few coefficients",
			func() error { _, err := secret.FromCoefficients(ctx, make([]int32, 5), nil); return err }(),
			henc.ErrParams},
		{"large coefficients", func() error {
			c := make([]int32, 4096)
			c[7] = 2
			_, err := secret.FromCoefficients(ctx, c, nil)
			return err
		}(), henc.ErrMalformed},
		{"negative coefficients", func() error {
			c := make([]int32, 4096)
			c[7] = math.MinInt32
			_, err := secret.FromCoefficients(ctx, c, nil)
			return err
		}(), henc.ErrMalformed},
		{"largest coefficients", func() error {
			c := make([]int32, 4096)
			c[7] = math.MaxInt32
			_, err := secret.FromCoefficients(ctx, c, nil)
			return err
		}(), henc.ErrMalformed},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, tt.err, tt.want)
		}
	}
}

// TestUseRefusals: nil, wiped and foreign keys, and what they cannot do, are errors.
func TestUseRefusals(t *testing.T) {
	ctx, add := context(t, "edge12-d1", 16), context(t, "edge12-add", 16)
	k, wiped := must(secret.Generate(ctx, nil))(t), must(secret.Generate(ctx, nil))(t)
	if err := wiped.Wipe(); err != nil {
		t.Fatal(err)
	}
	var none *secret.Key
	var noDec *secret.Decryptor
	ct := must(secret.NewSeededEncryptor(ctx, k).EncryptReal(nil, 0, 0, nil))(t)
	foreign := must(secret.NewSeededEncryptor(add, must(secret.Generate(add, nil))(t)).EncryptReal(nil, 0, 0, nil))(t)
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"nil key", func() error { _, err := none.PublicKey(); return err }(), henc.ErrParams},
		{"nil key, write", func() error { _, err := none.Marshal(); return err }(), henc.ErrParams},
		{"nil key, relin", func() error { _, err := none.RelinKey(); return err }(), henc.ErrParams},
		{"wiped key", func() error { _, err := wiped.EvaluationKeys(nil, false); return err }(), secret.ErrWiped},
		{"wiped key, galois", func() error { _, err := wiped.GaloisKeys([]uint64{5}); return err }(), secret.ErrWiped},
		{"wiped key, write", func() error { _, err := wiped.Marshal(); return err }(), secret.ErrWiped},
		{"wiped key, decrypt", func() error { _, err := secret.NewDecryptor(ctx, wiped).DecryptReal(ct); return err }(),
			secret.ErrWiped},
		{"even element", func() error { _, err := k.GaloisKeys([]uint64{6}); return err }(), henc.ErrParams},
		{"large element", func() error { _, err := k.GaloisKeys([]uint64{8193}); return err }(), henc.ErrParams},
		{"no special primes", func() error { _, err := must(secret.Generate(add, nil))(t).RelinKey(); return err }(),
			henc.ErrParams},
		{"rotation without special primes",
			func() error { _, err := must(secret.Generate(add, nil))(t).EvaluationKeys([]int{1}, false); return err }(),
			henc.ErrParams},
		{"nil decryptor", func() error { _, err := noDec.DecryptReal(ct); return err }(), henc.ErrParams},
		{"decryptor without key",
			func() error { _, err := secret.NewDecryptor(ctx, nil).DecryptReal(ct); return err }(), henc.ErrParams},
		{"decryptor without context",
			func() error { _, err := secret.NewDecryptor(nil, k).DecryptComplex(ct); return err }(), henc.ErrParams},
		{"nil ciphertext", func() error { _, err := secret.NewDecryptor(ctx, k).DecryptPacked(nil); return err }(),
			henc.ErrDegree},
		{"empty ciphertext",
			func() error { _, err := secret.NewDecryptor(ctx, k).Decrypt(&henc.Ciphertext{}); return err }(),
			henc.ErrDegree},
		{"foreign ciphertext",
			func() error { _, err := secret.NewDecryptor(ctx, k).DecryptReal(foreign); return err }(), henc.ErrLevel},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, tt.err, tt.want)
		}
	}
	if none.Wipe() != nil || none.Context() != nil || none.Epoch() != 0 {
		t.Error("a nil key is not inert")
	}
	none.SetEpoch(1)
}

// TestWipeWhileInUse: wiping waits for running operations; afterwards all fail.
func TestWipeWhileInUse(t *testing.T) {
	ctx := context(t, "edge12-add", 16)
	k := must(secret.Generate(ctx, nil))(t)
	enc, dec := secret.NewSeededEncryptor(ctx, k), secret.NewDecryptor(ctx, k)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				ct, err := enc.EncryptReal([]float64{0.5}, 0, 0, nil)
				var x []float64
				if err == nil {
					x, err = dec.DecryptReal(ct)
				}
				if errors.Is(err, secret.ErrWiped) {
					return
				}
				if err != nil || math.Abs(x[0]-0.5) > 0x1p-12 {
					t.Errorf("during wiping: %v, %v", x, err)
					return
				}
			}
		})
	}
	if err := k.Wipe(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// FuzzUnmarshal: the decoder never panics and accepts only what Marshal writes.
func FuzzUnmarshal(f *testing.F) {
	ctx := context(f, "edge12-d1", 16)
	f.Add(must(must(secret.Generate(ctx, nil))(f).Marshal())(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := secret.Unmarshal(ctx, b)
		if err != nil {
			return
		}
		if again := must(k.Marshal())(t); !bytes.Equal(b, again) {
			t.Error("accepted bytes are not what is written")
		}
	})
}

// TestSeedUnderTwoSets: keys from one seed under two sets of parameters share no
// noise. With the same noise the difference of two public keys modulo a common prime
// at different places would be (a'-a)*s, which gives s.
func TestSeedUnderTwoSets(t *testing.T) {
	const q = 1073692673
	coeffs := must(must(secret.Generate(context(t, "edge12-d1", 1), seed(t, "two")))(t).Coefficients())(t)
	noise := func(set string, key func(*henc.Context) (*secret.Key, error)) []uint32 {
		ctx := context(t, set, 1)
		k := must(key(ctx))(t)
		r, pk := ctx.Ring(), must(k.PublicKey())(t).Value
		i := slices.IndexFunc(ctx.Parameters().Moduli(), func(m cutrantt.Modulus) bool { return m.Q == q })
		e := must(r.NewBatch(1, []int{i}, cutrantt.Coeffs(1)))(t)
		b, a := must(pk.Slice(0, 1, i, i+1))(t), must(pk.Slice(1, 2, i, i+1))(t)
		x := make([]uint32, e.Len())
		if err := errors.Join(r.SetSmall(e, must(k.Coefficients())(t)), r.Forward(e, e), r.Mul(e, e, a), r.Add(e, e, b),
			r.Inverse(e, e), r.Download(x, e)); err != nil {
			t.Fatal(err)
		}
		for j, v := range x {
			if v > 21 && v < q-21 {
				t.Fatalf("%s: coefficient %d of the noise is %d", set, j, v)
			}
		}
		return x
	}
	for name, key := range map[string]func(*henc.Context) (*secret.Key, error){
		"generated": func(ctx *henc.Context) (*secret.Key, error) { return secret.Generate(ctx, seed(t, "two")) },
		"given": func(ctx *henc.Context) (*secret.Key, error) {
			return secret.FromCoefficients(ctx, coeffs, seed(t, "two"))
		},
	} {
		if slices.Equal(noise("edge12-add", key), noise("edge12-d1", key)) {
			t.Errorf("%s: both public keys have the same noise", name)
		}
	}
}
