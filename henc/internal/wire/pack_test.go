package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/simd"
	"github.com/hencedge/hencedge/internal/testenv"
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

var moduli = []uint32{12289, 40961, 10223617, 18137089, 67084289, 67239937, 536903681, 1073692673, 1073741789, 3, 2,
	65537, 65535, 46341}

// TestVectorCode: what must be tested is there.
func TestVectorCode(t *testing.T) {
	for _, name := range []string{simd.AVX512, simd.AVX2, simd.NEON} {
		if codes[name] == nil || !slices.Contains(simd.Have(), name) {
			testenv.Without(t, name, "no such code here")
		}
	}
	for _, name := range simd.Have() {
		if c := codes[name]; c != nil && (c.packSome(make([]byte, 600), make([]uint32, 160), 1<<30-35) != 144 ||
			c.unpackSome(make([]uint32, 160), make([]byte, 600), 1<<30-35) != 144) {
			t.Errorf("%s: of 10 groups of 60 bytes 9 have 64 bytes from their first on", name)
		}
	}
}

func TestPackAgainstBigInteger(t *testing.T) {
	for _, name := range simd.Have() {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testPack(t, codes[name]) }) })
	}
}

func testPack(t *rapid.T, c *code) {
	q := rapid.SampledFrom(moduli).Draw(t, "q")
	n := 16 * rapid.IntRange(0, 20).Draw(t, "n")
	x := rapid.SliceOfN(rapid.OneOf(rapid.Uint32Range(0, q-1), rapid.Just(q-1), rapid.Just(uint32(0))), n,
		n).Draw(t, "x")
	got := make([]byte, cutrantt.PackedBytes(n, q)+3)
	copy(got[len(got)-3:], "end")
	packInto(c, got[:cutrantt.PackedBytes(n, q)], x, q)
	if want := append(packSlow(x, q), "end"...); !bytes.Equal(got, want) {
		t.Fatalf("pack modulo %d: %x, want %x", q, got, want)
	}
	back := make([]uint32, n)
	if err := unpack(c, back, got[:len(got)-3], q); err != nil || !slices.Equal(back, x) {
		t.Fatalf("unpack: %v", err)
	}
}

// TestPackEveryWidth: moduli of each bit length, at both ends of it, and so pairs of
// every width from 3 to 60 bits.
func TestPackEveryWidth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range simd.Have() {
		widths := make(map[int]bool)
		for b := 2; b <= 30; b++ {
			for _, q := range []uint32{1<<(b-1) + 1, 3 << (b - 2), 1<<b - 1,
				uint32(big.NewInt(0).Sqrt(big.NewInt(1 << (2*b - 1))).Uint64())} {
				widths[cutrantt.PairBits(q)] = true
				x := make([]uint32, 16*(3+r.IntN(20)))
				for i := range x {
					x[i] = r.Uint32N(q)
					if r.IntN(4) == 0 {
						x[i] = q - 1
					}
				}
				got := make([]byte, cutrantt.PackedBytes(len(x), q))
				packInto(codes[name], got, x, q)
				if !bytes.Equal(got, packSlow(x, q)) {
					t.Fatalf("%s: pack %d modulo %d", name, len(x), q)
				}
				back := make([]uint32, len(x))
				if err := unpack(codes[name], back, got, q); err != nil || !slices.Equal(back, x) {
					t.Fatalf("%s: unpack %d modulo %d: %v", name, len(x), q, err)
				}
				// Plain Go would make up for vector code that refuses what it should not.
				if c, w := codes[name], cutrantt.PairBits(q); c != nil && w >= minVector {
					if n, want := c.unpackSome(back, got, q), 16*min(groups(len(got), w), len(x)/16); n != want {
						t.Fatalf("%s: unpacked %d of %d modulo %d", name, n, want, q)
					}
				}
			}
		}
		if len(widths) < 57 {
			t.Fatalf("%d widths only", len(widths))
		}
	}
}

// packed returns the packed residues x.
func packed(x []uint32, q uint32) []byte {
	out := make([]byte, cutrantt.PackedBytes(len(x), q))
	PackInto(out, x, q)
	return out
}

// TestPackWithin: PackInto writes its bytes and leaves those before alone.
func TestPackWithin(t *testing.T) {
	x := []uint32{15: 5}
	got := append([]byte{1, 2, 3}, make([]byte, cutrantt.PackedBytes(len(x), 12289))...)
	PackInto(got[3:], x, 12289)
	if !bytes.Equal(got, append([]byte{1, 2, 3}, packSlow(x, 12289)...)) {
		t.Fatalf("%x", got)
	}
}

func TestUnpackRefuses(t *testing.T) {
	q := uint32(67084289)
	x := make([]uint32, 32)
	b := packed(x, q)
	for _, bad := range [][]byte{nil, b[:len(b)-1], append(slices.Clone(b), 0)} {
		if err := Unpack(x, bad, q); !errors.Is(err, ErrLength) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
	if err := Unpack(make([]uint32, 8), b, q); !errors.Is(err, ErrLength) {
		t.Errorf("8 residues: %v", err)
	}
	// Every value q^2 .. 2^w-1 of any pair is refused, q^2-1 is not.
	w := uint(cutrantt.PairBits(q))
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

// TestUnpackRefusesEverywhere: plain Go and vector code refuse a pair that is not
// below q^2 wherever it is, and accept q^2-1.
func TestUnpackRefusesEverywhere(t *testing.T) {
	for _, name := range simd.Have() {
		for _, q := range []uint32{65537, 67084289, 1073741789, 1<<29 + 11, 93<<23 + 1} {
			w, square := uint(cutrantt.PairBits(q)), uint64(q)*uint64(q)
			n := 96
			x := make([]uint32, n)
			for pair := range n / 2 {
				for _, v := range []uint64{square - 1, square, square + uint64(q) - 1, 1<<w - 1} {
					b := make([]byte, cutrantt.PackedBytes(n, q))
					sum := new(big.Int).Lsh(new(big.Int).SetUint64(v), w*uint(pair)).Bytes()
					slices.Reverse(sum)
					copy(b, sum)
					err := unpack(codes[name], x, b, q)
					if v < square {
						if err != nil || x[2*pair] != q-1 || x[2*pair+1] != q-1 {
							t.Fatalf("%s: q^2-1 modulo %d at %d: %v", name, q, pair, err)
						}
					} else if !errors.Is(err, ErrRange) ||
						!strings.Contains(err.Error(), fmt.Sprintf("pair %d ", pair)) {
						t.Fatalf("%s: %d modulo %d at %d: %v", name, v, q, pair, err)
					}
				}
			}
		}
	}
}

// BenchmarkPack: pairs of 60 bits, two of which fill whole bytes, and of 59, which do not.
func BenchmarkPack(b *testing.B) {
	for _, q := range []uint32{1073692673, 536903681} {
		x := make([]uint32, 1<<13)
		for i := range x {
			x[i] = rand.Uint32N(q)
		}
		packed := packed(x, q)
		for _, name := range simd.Have() {
			b.Run(fmt.Sprintf("pack/%d/%s", cutrantt.PairBits(q), name), func(b *testing.B) {
				b.SetBytes(int64(len(packed)))
				for b.Loop() {
					packInto(codes[name], packed, x, q)
				}
			})
			b.Run(fmt.Sprintf("unpack/%d/%s", cutrantt.PairBits(q), name), func(b *testing.B) {
				b.SetBytes(int64(len(packed)))
				for b.Loop() {
					if err := unpack(codes[name], x, packed, q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
