package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"
)

// packSlow is Pack by one big integer: pair i is added at bit i*bitlen(q^2-1).
func packSlow(x []uint32, q uint32) []byte {
	qq := new(big.Int).Mul(big.NewInt(int64(q)), big.NewInt(int64(q)))
	w := uint(new(big.Int).Sub(qq, big.NewInt(1)).BitLen())
	sum := new(big.Int)
	for i := 0; i < len(x); i += 2 {
		v := big.NewInt(int64(x[i+1]))
		v.Mul(v, big.NewInt(int64(q))).Add(v, big.NewInt(int64(x[i])))
		sum.Or(sum, v.Lsh(v, w*uint(i/2)))
	}
	b := sum.Bytes()
	slices.Reverse(b)
	return append(b, make([]byte, len(x)/16*int(w)-len(b))...)
}

var moduli = []uint32{12289, 40961, 10223617, 18137089, 67084289, 67239937, 536903681, 1073692673, 1073741789, 3, 2, 65537}

func TestPackAgainstBigInteger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.SampledFrom(moduli).Draw(t, "q")
		n := 16 * rapid.IntRange(0, 20).Draw(t, "n")
		x := rapid.SliceOfN(rapid.OneOf(rapid.Uint32Range(0, q-1), rapid.Just(q-1), rapid.Just(uint32(0))), n, n).Draw(t, "x")
		got := Pack([]byte{1, 2, 3}, x, q)
		if !bytes.Equal(got[:3], []byte{1, 2, 3}) || !bytes.Equal(got[3:], packSlow(x, q)) {
			t.Fatalf("pack modulo %d: %x", q, got)
		}
		if len(got)-3 != PackedLen(n, q) {
			t.Fatalf("length %d, want %d", len(got)-3, PackedLen(n, q))
		}
		back := make([]uint32, n)
		if err := Unpack(back, got[3:], q); err != nil || !slices.Equal(back, x) {
			t.Fatalf("unpack: %v", err)
		}
	})
}

func TestUnpackRefuses(t *testing.T) {
	q := uint32(67084289)
	x := make([]uint32, 32)
	b := Pack(nil, x, q)
	for _, bad := range [][]byte{nil, b[:len(b)-1], append(slices.Clone(b), 0)} {
		if err := Unpack(x, bad, q); !errors.Is(err, ErrLength) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
	if err := Unpack(make([]uint32, 8), b, q); !errors.Is(err, ErrLength) {
		t.Errorf("8 residues: %v", err)
	}
	// Every value q^2 .. 2^w-1 of any pair is refused, q^2-1 is not.
	w := uint(pairBits(q))
	for pair := range 16 {
		for _, tc := range []struct {
			v    uint64
			want error
		}{{uint64(q)*uint64(q) - 1, nil}, {uint64(q) * uint64(q), ErrRange}, {1<<w - 1, ErrRange}} {
			sum := new(big.Int).Lsh(new(big.Int).SetUint64(tc.v), w*uint(pair))
			c := sum.Bytes()
			slices.Reverse(c)
			c = append(c, make([]byte, len(b)-len(c))...)
			if err := Unpack(x, c, q); !errors.Is(err, tc.want) {
				t.Errorf("pair %d value %d: %v", pair, tc.v, err)
			}
			if tc.want == nil && (x[2*pair] != q-1 || x[2*pair+1] != q-1) {
				t.Errorf("pair %d: %v", pair, x)
			}
		}
	}
}

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
			want, _ := em.Marshal([]any{1, 1, hash[:], size, f, blob, nil})
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
	w.Residues(x, 32, q)
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
	w.Residues(x[:63], 32, q)
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
		{"indefinite array", "9f0101ff", ErrMalformed},
		{"long array head", "98040101", ErrMalformed},
		{"only a head", "84", ErrTruncated},
		{"version 2", "840201", ErrVersion},
		{"version 0", "840001", ErrVersion},
		{"version 2 of another shape", "8102", ErrVersion},
		{"version as text", "846131", ErrMalformed},
		{"version null", "84f601", ErrMalformed},
		{"version 1 in two bytes", "841801", ErrMalformed},
		{"version 1.0", "84f93c00", ErrMalformed},
		{"tagged version", "84c101", ErrMalformed},
		{"version true", "84f5", ErrMalformed},
		{"bignum version", "84c24101", ErrMalformed},
		{"public key", "840102", ErrKind},
		{"five elements", "850101", ErrMalformed},
		{"short hash", "8401015803000000", ErrLength},
		{"hash with a long head", "840101590020" + hash, ErrLength},
		{"hash in chunks", "8401015f5820" + hash + "ff", ErrLength},
		{"hash null", "840101f60a", ErrMalformed},
		{"hash cut", "8401015820" + hash[:10], ErrTruncated},
		{"hash head cut", "84010158", ErrTruncated},
		{"hash as text", "8401017820" + hash, ErrMalformed},
		{"last missing", "8401015820" + hash, ErrTruncated},
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
	for name, h := range map[string]string{"double for 1": "fb3ff0000000000000", "integer": "01", "NaN": "f97e00", "infinity": "f97c00", "null": "f6", "float for half": "fa3f800000"} {
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
