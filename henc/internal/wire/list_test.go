package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// TestListHeads compares list heads with the library's encoder.
func TestListHeads(t *testing.T) {
	em, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 23, 24, 255, 256, 1024, 65535} {
		w := &Writer{}
		w.List(n)
		got, err := w.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		want, err := em.Marshal(make([]any, n)) // n nulls of one byte each
		if err != nil || !bytes.HasPrefix(want, got) || len(want)-len(got) != n {
			t.Fatalf("%d elements: %x, %v", n, got, err)
		}
		for limit, ok := range map[int]bool{n: true, n - 1: false, 65535: true} {
			r := &Reader{b: got}
			have := r.List(limit)
			if ok && (have != n || r.Close() != nil) || !ok && !errors.Is(r.Err(), ErrMalformed) {
				t.Errorf("%d elements, limit %d: %d, %v", n, limit, have, r.Err())
			}
		}
	}
	for _, n := range []int{-1, 1 << 16} {
		w := &Writer{}
		w.List(n)
		if _, err := w.Bytes(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d elements: %v", n, err)
		}
	}
	for _, n := range []int{-1, 24} {
		w := &Writer{}
		w.Array(n)
		if _, err := w.Bytes(); !errors.Is(err, ErrMalformed) {
			t.Errorf("array of %d elements: %v", n, err)
		}
	}
}

func TestListRefuses(t *testing.T) {
	for h, want := range map[string]error{
		"":         ErrTruncated,
		"98":       ErrTruncated,
		"9900":     ErrTruncated,
		"9817":     ErrMalformed, // fits in one byte
		"9900ff":   ErrMalformed, // fits in two
		"9a000000": ErrMalformed, // 32-bit length
		"9f":       ErrMalformed, // indefinite
		"a0":       ErrMalformed,
		"40":       ErrMalformed,
		"00":       ErrMalformed,
	} {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		r := &Reader{b: b}
		if n := r.List(60000); n != 0 || !errors.Is(r.Err(), want) {
			t.Errorf("%s: %d, %v", h, n, r.Err())
		}
		if r.Uint() != 0 || r.Float() != 0 || r.Blob(1) != nil || r.Array() != 0 || r.List(9) != 0 || !errors.Is(r.Close(), want) {
			t.Errorf("%s: the error does not stick", h)
		}
	}
}

func TestSecretAndKinds(t *testing.T) {
	w := &Writer{}
	w.Secret([]byte{1, 2, 3})
	if b, err := w.Bytes(); err != nil || hex.EncodeToString(b) != "43010203" {
		t.Errorf("%x %v", b, err)
	}
	seen := map[string]bool{}
	for k := range Kind(6) {
		seen[k.String()] = true
	}
	if len(seen) != 6 || !seen["secret key"] || !seen["kind 5"] {
		t.Errorf("%v", seen)
	}
}

// FuzzReader: no input panics, and what was read is written back the same.
func FuzzReader(f *testing.F) {
	w := NewWriter(KindCiphertext, [32]byte{1}, 8, 0)
	w.Uint(300)
	w.Float(0x1p26)
	w.Blob([]byte{7})
	w.Blob(nil)
	w.List(30)
	good, err := w.Bytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte{0x88, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(b, KindCiphertext, 8)
		if err != nil {
			return
		}
		u, x, one, opt, n := r.Uint(), r.Float(), r.Blob(1), r.OptionalBlob(1), r.List(1000)
		if r.Close() != nil {
			return
		}
		w := NewWriter(KindCiphertext, r.Head.Params, 8, 0)
		w.Uint(u)
		w.Float(x)
		w.Blob(one)
		w.Blob(opt)
		w.List(n)
		if back, err := w.Bytes(); err != nil || !bytes.Equal(back, b) {
			t.Fatalf("%x is written back as %x, %v", b, back, err)
		}
	})
}
