package henc

import (
	"bytes"
	"testing"
)

func fuzzSeeds(f *testing.F) map[int]*Context {
	p := tinyParams(f)
	ctxs := map[int]*Context{}
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		c := mustContext(f, p, WithN2(n2))
		ctxs[n2] = c
		for _, seeded := range []bool{true, false} {
			b := mustMarshal(f, c, randomCiphertext(f, c, n2%2, 64.5, seeded))
			f.Add(b)
			f.Add(b[:len(b)/2])
			f.Add(b[:60])
		}
	}
	f.Add([]byte{})
	f.Add([]byte{0x89, 1, 1, 0x58, 32})
	return ctxs
}

// FuzzPeekCiphertext: no input panics, and what Unmarshal accepts Peek accepts.
func FuzzPeekCiphertext(f *testing.F) {
	c := fuzzSeeds(f)[16]
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := PeekCiphertext(b)
		ct, full := c.UnmarshalCiphertext(b)
		if full == nil && (err != nil || h.Level != ct.Level || h.Scale != ct.Scale ||
			h.Params != c.Parameters().Hash()) {
			t.Fatalf("header %+v, %v of an accepted ciphertext", h, err)
		}
	})
}

// FuzzUnmarshalCiphertext: no input panics, and an accepted one marshals to the
// same bytes in a context of its domain.
func FuzzUnmarshalCiphertext(f *testing.F) {
	ctxs := fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		ct, err := ctxs[16].UnmarshalCiphertext(b)
		if err != nil {
			return
		}
		h, err := PeekCiphertext(b)
		if err != nil {
			t.Fatal(err)
		}
		c := ctxs[int(h.Domain.N2)]
		if !h.Domain.NTT { // written by no context: the second generation is stable
			if b, err = ctxs[16].MarshalCiphertext(ct); err != nil {
				t.Fatal(err)
			}
			c = ctxs[16]
		}
		if ct, err = c.UnmarshalCiphertext(b); err != nil {
			t.Fatal(err)
		}
		if back, err := c.MarshalCiphertext(ct); err != nil || !bytes.Equal(back, b) {
			t.Fatalf("accepted, but marshals differently: %v", err)
		}
	})
}
