package lattigo

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/bgv"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
)

// TestIntegers exchanges ciphertexts of exact integers with Lattigo's BFV: each library decrypts what the other
// encrypted and computed, under the same keys, slot by slot.
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		set string
		t   uint32
		n2  int
	}{{"bfv13", 0, 1}, {"bfv13", 786433, 16}, {"bfv14", 0, 16}} {
		t.Run(c.set, func(t *testing.T) { exchange(t, c.set, c.t, c.n2) })
	}
}

func exchange(t *testing.T, set string, plain uint32, n2 int) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := bfv.Named(set, plain)
	check(err)
	ctx, err := bfv.NewContext(p, henc.WithN2(n2))
	check(err)
	b, err := NewIntegers(ctx)
	check(err)
	key, err := secret.Generate(ctx.Base(), nil)
	check(err)
	pk, err := key.PublicKey()
	check(err)
	keys, err := key.EvaluationKeys([]int{3}, true)
	check(err)
	enc, err := bfv.NewEncryptor(ctx, pk)
	check(err)
	dec, ev := secret.NewIntegerDecryptor(ctx, key), bfv.NewEvaluator(ctx, keys)

	sk, err := b.SecretKeyToLattigo(key)
	check(err)
	theirKeys, err := b.EvaluationKeysToLattigo(keys)
	check(err)
	lp := b.PlainParameters()
	encoder, decryptor := bgv.NewEncoder(lp), bgv.NewDecryptor(lp, sk)
	evaluator := bgv.NewEvaluator(lp, theirKeys, true)

	rng, m, n := rand.New(rand.NewPCG(4, 2)), uint64(p.T()), p.N()
	x, y := make([]uint64, n), make([]uint64, n)
	for i := range x {
		x[i], y[i] = rng.Uint64N(m), rng.Uint64N(m)
	}
	want := func(what string, ct *bfv.Ciphertext, theirs *rlwe.Ciphertext, f func(i int) uint64) {
		t.Helper()
		values := make([]uint64, n)
		for i := range values {
			values[i] = f(i)
		}
		got, err := dec.Slots(ct)
		check(err)
		if !slices.Equal(got, values) {
			t.Errorf("%s: our decryption differs", what)
		}
		noise, err := dec.Noise(ct)
		check(err)
		if limit := p.Noise().Largest(ct.Noise); noise > limit {
			t.Errorf("%s: noise of %g above the bound %g", what, noise, limit)
		}
		decoded := make([]uint64, n)
		check(encoder.Decode(decryptor.DecryptNew(theirs), decoded))
		if !slices.Equal(decoded, values) {
			t.Errorf("%s: Lattigo's decryption differs", what)
		}
	}
	to := func(ct *bfv.Ciphertext, err error) (*bfv.Ciphertext, *rlwe.Ciphertext) {
		t.Helper()
		check(err)
		out, err := b.ToLattigo(ct)
		check(err)
		return ct, out
	}
	from := func(ct *rlwe.Ciphertext, noise bfv.Noise, err error) (*bfv.Ciphertext, *rlwe.Ciphertext) {
		t.Helper()
		check(err)
		out, err := b.FromLattigo(ct, noise)
		check(err)
		return out, ct
	}

	// Ours to Lattigo.
	pt, err := ctx.EncodeSlots(x)
	check(err)
	a, la := to(enc.Encrypt(pt, nil))
	want("our encryption", a, la, func(i int) uint64 { return x[i] })
	// Lattigo's to us.
	lpt := bgv.NewPlaintext(lp, lp.MaxLevel())
	lpt.Scale = b.Scale()
	check(encoder.Encode(y, lpt))
	lpk, err := b.PublicKeyToLattigo(pk)
	check(err)
	fresh := p.Noise().FreshPK()
	lb, err := bgv.NewEncryptor(lp, lpk).EncryptNew(lpt)
	c, lb := from(lb, fresh, err)
	want("Lattigo's encryption", c, lb, func(i int) uint64 { return y[i] })

	product := func(i int) uint64 { return x[i] * y[i] % m }
	ours, ourProduct := to(ev.Mul(a, c))
	want("our product", ours, ourProduct, product)
	theirProduct, err := evaluator.MulRelinNew(la, lb)
	theirs, theirProduct := from(theirProduct, p.Noise().Mul(fresh, fresh), err)
	want("Lattigo's product", theirs, theirProduct, product)

	half := n / 2
	turned := func(i int) uint64 { return product(i/half*half + (i%half+3)%half) }
	ct, lct := to(ev.RotateRows(theirs, 3))
	want("our rotation", ct, lct, turned)
	lct, err = evaluator.RotateColumnsNew(ourProduct, 3)
	ct, lct = from(lct, p.Noise().Switch(ours.Noise), err)
	want("Lattigo's rotation", ct, lct, turned)
	ct, lct = to(ev.SwapRows(theirs))
	want("our exchange of rows", ct, lct, func(i int) uint64 { return product((i + half) % n) })
	lct, err = evaluator.RotateRowsNew(ourProduct)
	ct, lct = from(lct, p.Noise().Switch(ours.Noise), err)
	want("Lattigo's exchange of rows", ct, lct, func(i int) uint64 { return product((i + half) % n) })

	lb.Scale = lp.NewScale(1)
	if _, err := b.FromLattigo(lb, fresh); !errors.Is(err, ErrObject) {
		t.Errorf("another plaintext scale: %v", err)
	}
	if _, err := b.FromLattigo(nil, fresh); !errors.Is(err, ErrObject) {
		t.Errorf("no ciphertext: %v", err)
	}
}
