package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/fxamacker/cbor/v2"
)

// TestWriterIsDeterministicCBOR compares with the library's encoder.
func TestWriterIsDeterministicCBOR(t *testing.T) {
	hash := [32]byte{1, 2, 3}
	for _, size := range []int{0, 1, 23, 24, 255, 256, 65535, 65536} {
		blob := make([]byte, size)
		for _, f := range []float64{1, 0x1p26, 0x1p51, 1.1, 0x1p1000, 65504, 65505, 67108864.5} {
			w := NewWriter(KindCiphertext, hash, 7, 0)
			w.Uint(uint64(size))
			w.Float(f)
			w.Blob(blob)
			w.Blob(nil)
			got, err := w.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			em, _ := cbor.CoreDetEncOptions().EncMode()
			want, _ := em.Marshal([]any{Version, 1, hash[:], size, f, blob, nil})
			if !bytes.Equal(got, want) {
				t.Fatalf("size %d float %g: %x, want %x", size, f, got[:60], want[:60])
			}
			r, err := NewReader(got, KindCiphertext, 7)
			if err != nil || r.Head.Params != hash {
				t.Fatal(err)
			}
			if u, g := r.Uint(), r.Float(); u != uint64(size) || g != f {
				t.Fatalf("read %d %g", u, g)
			}
			if b := r.Blob(size); !bytes.Equal(b, blob) {
				t.Fatal("blob")
			}
			if b := r.OptionalBlob(32); b != nil || r.Close() != nil {
				t.Fatalf("null: %v %v", b, r.Err())
			}
		}
	}
}

func TestResiduesBlob(t *testing.T) {
	q := []uint32{12289, 1073692673}
	x := make([]uint32, 64)
	for i := range x {
		x[i] = uint32(i)
	}
	w := NewWriter(KindPublicKey, [32]byte{}, 4, 0)
	w.ResiduesBy(32, q, func(i int) ([]uint32, error) { return x[32*i:], nil })
	b, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(b, KindPublicKey, 4)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Blob(ResiduesLen(32, q))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p, append(packSlow(x[:32], q[0]), packSlow(x[32:], q[1])...)) {
		t.Error("content")
	}
	w = NewWriter(KindPublicKey, [32]byte{}, 4, 0)
	w.ResiduesBy(32, q, func(int) ([]uint32, error) { return x[:63], nil })
	if _, err := w.Bytes(); !errors.Is(err, ErrLength) {
		t.Errorf("63 residues: %v", err)
	}
}

func TestReaderRefuses(t *testing.T) {
	w := NewWriter(KindCiphertext, [32]byte{}, 4, 0)
	w.Uint(10)
	good, _ := w.Bytes()
	hash := hex.EncodeToString(make([]byte, 32))
	for _, tc := range []struct {
		name, hex string
		want      error
	}{
		{"good", hex.EncodeToString(good), nil},
		{"empty", "", ErrTruncated},
		{"map", "a4", ErrMalformed},
		{"indefinite array", "9f0201ff", ErrMalformed},
		{"long array head", "98040201", ErrMalformed},
		{"only a head", "84", ErrTruncated},
		{"version 1", "840101", ErrVersion},
		{"version 3", "840301", ErrVersion},
		{"version 0", "840001", ErrVersion},
		{"version 3 of another shape", "8103", ErrVersion},
		{"version as text", "846131", ErrMalformed},
		{"version null", "84f601", ErrMalformed},
		{"version 2 in two bytes", "841802", ErrMalformed},
		{"version 2.0", "84f94000", ErrMalformed},
		{"tagged version", "84c102", ErrMalformed},
		{"version true", "84f5", ErrMalformed},
		{"bignum version", "84c24102", ErrMalformed},
		{"public key", "840202", ErrKind},
		{"five elements", "850201", ErrMalformed},
		{"short hash", "8402015803000000", ErrLength},
		{"hash with a long head", "840201590020" + hash, ErrLength},
		{"hash in chunks", "8402015f5820" + hash + "ff", ErrLength},
		{"hash null", "840201f60a", ErrMalformed},
		{"hash cut", "8402015820" + hash[:10], ErrTruncated},
		{"hash head cut", "84020158", ErrTruncated},
		{"hash as text", "8402017820" + hash, ErrMalformed},
		{"last missing", "8402015820" + hash, ErrTruncated},
		{"trailing", hex.EncodeToString(good) + "00", ErrMalformed},
	} {
		b, _ := hex.DecodeString(tc.hex)
		r, err := NewReader(b, KindCiphertext, 4)
		if err == nil {
			r.Uint()
			err = r.Close()
		}
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	for name, h := range map[string]string{"double for 1": "fb3ff0000000000000", "integer": "01", "NaN": "f97e00",
		"infinity": "f97c00", "null": "f6", "float for half": "fa3f800000"} {
		b, _ := hex.DecodeString(h)
		r := &Reader{b: b}
		if v := r.Float(); !errors.Is(r.Err(), ErrMalformed) || v != 0 {
			t.Errorf("%s: %g %v", name, v, r.Err())
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1)} {
		w := NewWriter(KindCiphertext, [32]byte{}, 4, 0)
		w.Float(f)
		if _, err := w.Bytes(); !errors.Is(err, ErrMalformed) {
			t.Errorf("wrote %g: %v", f, err)
		}
	}
}

// FuzzReaderFrom: an object that comes in pieces reads like one that is whole.
func FuzzReaderFrom(f *testing.F) {
	w := NewWriter(KindEvaluationKeys, [32]byte{1}, 7, 0)
	w.Uint(300)
	w.Blob([]byte("12345"))
	w.Blob(nil)
	w.List(30)
	whole, err := w.Bytes()
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{nil, whole, whole[:20], whole[:len(whole)-3], append(slices.Clone(whole), 1)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(r *Reader, err error) []any {
			if err != nil {
				return []any{"refused"}
			}
			out := []any{r.Head, r.Uint(), string(r.Blob(5)), string(r.OptionalBlob(300)), r.List(1000)}
			if err := r.Close(); err != nil {
				return []any{"refused"}
			}
			return out
		}
		pieces := iotest.OneByteReader(bytes.NewReader(b))
		want, got := read(NewReader(b, KindEvaluationKeys, 7)), read(NewReaderFrom(pieces, KindEvaluationKeys, 7))
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces %v, whole %v", got, want)
		}
	})
}
