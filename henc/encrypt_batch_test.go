package henc_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// TestEncryptBatch: messages that are encrypted together give the ciphertexts that
// they give one by one, for every kind of encryption and of slots.
func TestEncryptBatch(t *testing.T) {
	for _, n2 := range []int{1, 16} {
		r := newRig(t, "toy", n2)
		const count = 9
		var seeds []*henc.Seed
		var reals, packed [][]float64
		var complexes [][]complex128
		for i := range count {
			z := uniform(r.p.Slots(), uint64(i))
			seeds = append(seeds, &henc.Seed{byte(i), 7})
			complexes = append(complexes, z)
			flat := make([]float64, 0, 2*len(z))
			for _, v := range z {
				flat = append(flat, real(v), imag(v))
			}
			reals, packed = append(reals, flat[:1+i]), append(packed, flat)
		}
		for name, enc := range map[string]henc.BatchEncryptor{"public": r.enc, "seeded": r.seeded} {
			for _, level := range []int{0, r.p.MaxLevel()} {
				for kind, c := range map[string]struct {
					all []*henc.Ciphertext
					one func(i int) (*henc.Ciphertext, error)
				}{
					"real": {must(enc.EncryptRealBatch(reals, level, 0, seeds))(t),
						func(i int) (*henc.Ciphertext, error) {
							return enc.EncryptReal(reals[i], level, 0, seeds[i])
						}},
					"complex": {must(enc.EncryptComplexBatch(complexes, level, 0, seeds))(t),
						func(i int) (*henc.Ciphertext, error) {
							return enc.EncryptComplex(complexes[i], level, 0, seeds[i])
						}},
					"packed": {must(enc.EncryptPackedBatch(packed, level, 0, seeds))(t),
						func(i int) (*henc.Ciphertext, error) {
							return enc.EncryptPacked(packed[i], level, 0, seeds[i])
						}},
				} {
					what := fmt.Sprintf("%s, %s, n2 = %d, level %d", name, kind, n2, level)
					if len(c.all) != count {
						t.Fatalf("%s: %d ciphertexts", what, len(c.all))
					}
					for i, ct := range c.all {
						want := must(c.one(i))(t)
						if !slices.Equal(download(t, r, ct.Value), download(t, r, want.Value)) ||
							ct.Level != want.Level || ct.Scale != want.Scale {
							t.Errorf("%s: ciphertext %d differs", what, i)
						}
						if name == "seeded" && *ct.Seed != *want.Seed {
							t.Errorf("%s: public seed %d differs", what, i)
						}
						check(t, r.ctx.CheckCiphertext(ct))
					}
				}
			}
			got := must(enc.EncryptRealBatch([][]float64{{1}, {1}}, 0, 0, nil))(t)
			if slices.Equal(download(t, r, got[0].Value), download(t, r, got[1].Value)) {
				t.Errorf("%s: two fresh encryptions are equal", name)
			}
			if none, err := enc.EncryptRealBatch(nil, 0, 0, nil); err != nil || len(none) != 0 {
				t.Errorf("%s, no messages: %v, %v", name, none, err)
			}
		}
	}
}

// TestEncryptBatchRefusals: one bad message fails the whole call, and the error
// says which one.
func TestEncryptBatchRefusals(t *testing.T) {
	r := newRig(t, "toy", 16)
	for name, enc := range map[string]henc.BatchEncryptor{"public": r.enc, "seeded": r.seeded} {
		for what, values := range map[string][][]float64{
			"not a number": {{1}, {2}, {math.NaN()}}, "too large": {{1}, {2}, {1e12}},
			"too many": {{1}, {2}, make([]float64, r.p.N()+1)},
		} {
			cts, err := enc.EncryptRealBatch(values, 0, 0, nil)
			if cts != nil || !errors.Is(err, henc.ErrMessage) || !strings.Contains(err.Error(), "message 2") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if _, err := enc.EncryptRealBatch([][]float64{{1}, {2}}, 0, 0, make([]*henc.Seed, 3)); !errors.Is(err,
			henc.ErrParams) {
			t.Errorf("%s: three seeds for two messages: %v", name, err)
		}
	}
}

// TestCheckCoeffs: what is integral is found out right at the edges of float64.
func TestCheckCoeffs(t *testing.T) {
	r := newRig(t, "toy", 16)
	level := r.p.MaxLevel()
	for _, tt := range []struct {
		x  float64
		ok bool
	}{
		{0, true}, {math.Copysign(0, -1), true}, {1, true}, {-1, true}, {0.5, false}, {-0.5, false}, {5e-324, false},
		{1<<51 - 0.5, false}, {1 << 51, true}, {1<<51 + 0.5, false}, {1<<52 - 0.5, false}, {-(1<<52 - 0.5), false},
		{1<<52 - 1, true},
		{1 << 52, true}, {1<<52 + 1, true}, {1<<53 - 1, true}, {-(1<<53 + 2), true}, {0x1p60, true}, {0x1p900, false},
		{math.Inf(1), false}, {math.Inf(-1), false}, {math.NaN(), false},
	} {
		c := make([]float64, r.p.N())
		c[17] = tt.x
		if _, err := r.ctx.Encoder().CheckCoeffs(c, level); (err == nil) != tt.ok ||
			err != nil && !errors.Is(err, henc.ErrMessage) {
			t.Errorf("%g: %v", tt.x, err)
		}
	}
}
