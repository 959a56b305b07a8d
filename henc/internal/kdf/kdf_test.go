package kdf

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

// TestDeriveStandard compares Derive with the standard library's HKDF for inputs of
// every length around the edges of a block, and of random ones.
func TestDeriveStandard(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	check := func(ikm []byte, info string) {
		t.Helper()
		want, err := hkdf.Key(sha256.New, ikm, nil, info, Size)
		if err != nil {
			t.Fatal(err)
		}
		var got [Size]byte
		if Derive(&got, ikm, info); string(got[:]) != string(want) {
			t.Fatalf("%d bytes under an info of %d: %x, want %x", len(ikm), len(info), got, want)
		}
	}
	for n := range 200 {
		check(random(n), string(random(200-n)))
	}
	for range 200 {
		check(random(r.IntN(1000)), string(random(r.IntN(1000))))
	}
}

// TestDeriveVector is RFC 5869, appendix A.3 (no salt, no info), of which the first 32
// bytes are derived.
func TestDeriveVector(t *testing.T) {
	ikm, _ := hex.DecodeString("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b")
	var got [Size]byte
	Derive(&got, ikm, "")
	if text := hex.EncodeToString(got[:]); text != "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d" {
		t.Error(text)
	}
}

// TestWiped: a hasher that is wiped holds nothing.
func TestWiped(t *testing.T) {
	h := newHasher()
	h.hmacStart([]byte("a key that nobody may find"))
	h.write([]byte("a secret that nobody may find"))
	h.hmacEnd(&h.prk)
	h.wipe()
	h.length = 0
	if *h != (hasher{}) {
		t.Errorf("%+v", *h)
	}
}
