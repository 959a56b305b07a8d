package signed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"filippo.io/edwards25519"
)

// source is a reader of predictable bytes.
func source(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

func keyOf(seed byte) ed25519.PrivateKey {
	s := make([]byte, ed25519.SeedSize)
	_, _ = source(seed).Read(s)
	return ed25519.NewKeyFromSeed(s)
}

// same fails unless the table of a key and the standard library agree on a signature. It returns their answer.
func same(t *testing.T, what string, key, message, signature []byte) bool {
	t.Helper()
	want := ed25519.Verify(key, message, signature)
	var got bool
	if tab := newTable([32]byte(key)); tab != nil {
		got = tab.verify(key, message, signature)
	}
	if got != want {
		t.Errorf("%s: %t, crypto/ed25519 says %t\nkey %x\nmessage %x\nsignature %x", what, got, want, key, message,
			signature)
	}
	return want
}

// TestLikeStandard compares answers on signatures, and on each with a bit changed.
func TestLikeStandard(t *testing.T) {
	r := source(1)
	for i := range 12 {
		priv := keyOf(byte(i))
		pub := priv.Public().(ed25519.PublicKey)
		message := make([]byte, i*17)
		_, _ = r.Read(message)
		signature := ed25519.Sign(priv, message)
		if !same(t, "a signature", pub, message, signature) {
			t.Fatal("a signature does not verify")
		}
		for bit := i % 7; bit < 8*len(signature); bit += 7 {
			other := bytes.Clone(signature)
			other[bit/8] ^= 1 << (bit % 8)
			same(t, fmt.Sprintf("bit %d of the signature", bit), pub, message, other)
		}
		for bit := i % 31; bit < 256; bit += 31 {
			other := bytes.Clone(pub)
			other[bit/8] ^= 1 << (bit % 8)
			same(t, fmt.Sprintf("bit %d of the key", bit), other, message, signature)
		}
		same(t, "another message", pub, append(message, 0), signature)
		same(t, "a short signature", pub, message, signature[:63])
		same(t, "no signature", pub, message, nil)
	}
}

// torsion are the points of small order, and their encodings that are not canonical.
func torsion(t *testing.T) (points []*edwards25519.Point, encodings [][]byte) {
	t.Helper()
	for _, text := range []string{
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"0100000000000000000000000000000000000000000000000000000000000080",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		encodings = append(encodings, b)
		if p, err := new(edwards25519.Point).SetBytes(b); err == nil && len(points) < 8 {
			points = append(points, p)
		}
	}
	if len(points) != 8 {
		t.Fatalf("%d points of small order", len(points))
	}
	return points, encodings
}

// TestSmallOrder compares answers where implementations are known to differ (Chalkias, Garillot and Nikolaenko, Taming
// the Many EdDSAs): keys and R of small order or with a part of it, encodings that are not canonical, S from the
// group's order on.
func TestSmallOrder(t *testing.T) {
	points, encodings := torsion(t)
	scalar := func(r *rand.ChaCha8) *edwards25519.Scalar {
		var b [64]byte
		_, _ = r.Read(b[:])
		s, err := new(edwards25519.Scalar).SetUniformBytes(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sign := func(r, a *edwards25519.Scalar, encodedR, encodedA, message []byte) []byte {
		h := sha512.Sum512(bytes.Join([][]byte{encodedR, encodedA, message}, nil))
		k, err := new(edwards25519.Scalar).SetUniformBytes(h[:])
		if err != nil {
			t.Fatal(err)
		}
		return append(bytes.Clone(encodedR), new(edwards25519.Scalar).MultiplyAdd(k, a, r).Bytes()...)
	}
	random, accepted, refused := source(2), 0, 0
	count := func(ok bool) {
		if ok {
			accepted++
		} else {
			refused++
		}
	}
	zero := edwards25519.NewScalar()
	for i := range 10 {
		message := []byte{byte(i)}
		a, r := scalar(random), scalar(random)
		for _, ta := range points {
			for _, tr := range points {
				pa := new(edwards25519.Point).Add(new(edwards25519.Point).ScalarBaseMult(a), ta)
				pr := new(edwards25519.Point).Add(new(edwards25519.Point).ScalarBaseMult(r), tr)
				count(same(t, "mixed order", pa.Bytes(), message, sign(r, a, pr.Bytes(), pa.Bytes(), message)))
			}
		}
		for _, ea := range encodings {
			for _, er := range encodings {
				count(same(t, "small order", ea, message, sign(zero, zero, er, ea, message)))
			}
			pr := new(edwards25519.Point).ScalarBaseMult(r)
			count(same(t, "a key of small order", ea, message, sign(r, zero, pr.Bytes(), ea, message)))
		}
		// S + L, which is below 2^256
		priv := keyOf(byte(i))
		signature := ed25519.Sign(priv, message)
		order, _ := hex.DecodeString("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
		carry := 0
		for j := range 32 {
			carry += int(signature[32+j]) + int(order[j])
			signature[32+j] = byte(carry)
			carry >>= 8
		}
		count(same(t, "S + L", priv.Public().(ed25519.PublicKey), message, signature))
	}
	if accepted < 100 || refused < 100 {
		t.Errorf("%d accepted and %d refused say little", accepted, refused)
	}
}

// TestKeys: keys get tables at their second signature, no more than there is room for, and every answer is right, also
// when many callers ask.
func TestKeys(t *testing.T) {
	k := NewKeys(3)
	message := []byte("message")
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for i := range 200 {
				priv := keyOf(byte((i + caller) % 7))
				pub := priv.Public().(ed25519.PublicKey)
				signature := ed25519.Sign(priv, message)
				if !k.Verify(pub, message, signature) {
					t.Error("a signature was refused")
				}
				signature[40]++
				if k.Verify(pub, message, signature) {
					t.Error("another signature was accepted")
				}
			}
		})
	}
	all.Wait()
	if len(k.order) != 3 || len(k.tables) > 6 {
		t.Errorf("%d tables, %d keys", len(k.order), len(k.tables))
	}
	bad := make(ed25519.PublicKey, 32)
	bad[0] = 2 // no point
	for range 3 {
		if k.Verify(bad, message, make([]byte, 64)) {
			t.Error("a signature under no point was accepted")
		}
	}
	if k.Verify(bad[:31], message, make([]byte, 64)) {
		t.Error("a key of 31 bytes")
	}
	for i := range 1000 {
		priv := keyOf(byte(i))
		pub := bytes.Clone(priv.Public().(ed25519.PublicKey))
		pub[5] = byte(i >> 8)
		k.Verify(pub, message, make([]byte, 64))
	}
	if len(k.tables) > 7 {
		t.Errorf("%d keys after a thousand that came once", len(k.tables))
	}
	for _, none := range []*Keys{nil, {}, NewKeys(0)} {
		priv := keyOf(1)
		for range 3 {
			if !none.Verify(priv.Public().(ed25519.PublicKey), message, ed25519.Sign(priv, message)) {
				t.Error("refused without tables")
			}
		}
	}
}

// FuzzLikeStandard compares answers on any bytes.
func FuzzLikeStandard(f *testing.F) {
	priv := keyOf(1)
	f.Add([]byte(priv.Public().(ed25519.PublicKey)), []byte("m"), ed25519.Sign(priv, []byte("m")))
	f.Fuzz(func(t *testing.T, key, message, signature []byte) {
		if len(key) == ed25519.PublicKeySize {
			same(t, "any bytes", key, message, signature)
		}
	})
}

// BenchmarkVerify times a check of a header's size, with a table and without.
func BenchmarkVerify(b *testing.B) {
	priv, message := keyOf(1), make([]byte, 380)
	pub, signature := priv.Public().(ed25519.PublicKey), ed25519.Sign(priv, message)
	for name, k := range map[string]*Keys{"table": NewKeys(1), "standard": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !k.Verify(pub, message, signature) {
					b.Fatal("refused")
				}
			}
		})
	}
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			newTable([32]byte(pub))
		}
	})
}
