package secret_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// uniform is a ciphertext of random residues: it decrypts to nothing small.
func uniform(t *testing.T, ctx *henc.Context, level int, seed uint64) *henc.Ciphertext {
	t.Helper()
	p, r := ctx.Parameters(), rand.New(rand.NewPCG(seed, 7))
	residues := make([]uint32, 0, 2*p.LimbsAt(level)*p.N())
	for range 2 {
		for _, l := range p.QLimbs(level) {
			for range p.N() {
				residues = append(residues, r.Uint32N(ctx.Ring().Moduli()[l].Q))
			}
		}
	}
	b := must(cutrantt.NewResult(ctx.Ring(), 2, p.QLimbs(level), ctx.Domain()))(t)
	if err := ctx.Ring().Upload(b, residues); err != nil {
		t.Fatal(err)
	}
	return &henc.Ciphertext{Value: b, Level: level, Scale: p.DefaultScale()}
}

// An honest message decrypts as ever, at every level and up to magnitudes that four primes
// do not hold; a ciphertext of anything gives numbers and no error.
func TestDecryptRealBounded(t *testing.T) {
	for _, set := range []string{"edge12-d1", "edge13-d3", "edge13-d2p", "std14-d5"} {
		ctx := context(t, set, 1)
		p := ctx.Parameters()
		key := must(secret.Generate(ctx, nil))(t)
		enc := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
		dec := secret.NewDecryptor(ctx, key)
		values := []float64{0.5, -0.25, 1}
		for level := range p.MaxLevel() + 1 {
			for _, scale := range []float64{p.DefaultScale(), 0x1p100, 0x1p118} {
				if math.Log2(scale) > p.LogQ(level)-4 {
					continue
				}
				ct := must(enc.EncryptReal(values, level, scale, nil))(t)
				want := must(dec.DecryptReal(ct))(t)
				got, err := dec.DecryptRealBounded(ct, 2*scale)
				if err != nil {
					t.Fatalf("%s, level %d, scale %g: %v", set, level, scale, err)
				}
				for i := range values {
					if d := math.Abs(got[i] - want[i]); d > 0x1p-12 {
						t.Errorf("%s, level %d, scale %g: value %d is %g, want %g", set, level, scale, i,
							got[i], want[i])
					}
				}
			}
			got, err := dec.DecryptRealBounded(uniform(t, ctx, level, 3), 2*p.DefaultScale())
			if err != nil || len(got) != p.Slots() {
				t.Errorf("%s, level %d, random residues: %d values, %v", set, level, len(got), err)
			}
		}
	}
	if _, err := secret.NewDecryptor(nil, nil).DecryptRealBounded(nil, 1); err == nil {
		t.Error("decrypted without a context")
	}
}
