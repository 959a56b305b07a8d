package lattigo

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// lattigoEncode encodes with Lattigo at our level and scale.
func (r *rig) lattigoEncode(t *testing.T, values []complex128, level int) *rlwe.Plaintext {
	t.Helper()
	pt := ckks.NewPlaintext(r.lp, r.b.LattigoLevel(level))
	pt.Scale = rlwe.NewScale(r.p.ScaleAt(level))
	check(t, r.lenc.Encode(values, pt))
	return pt
}

// The encoders agree: slot order, scale and, up to float64 rounding, every
// coefficient; what one encodes the other decodes; conjugation and rotation by
// automorphism are the same maps of the slots.
func TestEncoder(t *testing.T) {
	eachSet(t, func(t *testing.T, r *rig) {
		enc, values := r.ctx.Encoder(), r.values()
		for _, level := range r.levels() {
			scale := r.p.ScaleAt(level)
			pt := must(enc.EncodeComplex(values, level, scale))(t)
			mine := must(r.b.PlaintextToLattigo(pt))(t)
			their := r.lattigoEncode(t, values, level)
			// A coefficient has magnitude about scale*sqrt(2/3/N)*sqrt(N); both
			// FFTs lose a few units of its 53 bits, and rounding one unit more.
			if d, most := r.deviation(mine.Value, their.Value), 0.5+scale*0x1p-50; d > most {
				t.Errorf("level %d: coefficients of the two encoders deviate by %.3g, want at most %.3g",
					level, d, most)
			}
			bound := r.slotError(math.Sqrt(1.0/12), scale) + r.floatError(2)
			got := make([]complex128, r.p.Slots())
			check(t, r.lenc.Decode(mine, got))
			if e := maxError(got, values); e > bound {
				t.Errorf("level %d: ours decoded by Lattigo: error %.3g above %.3g", level, e, bound)
			}
			back := must(r.b.PlaintextFromLattigo(their))(t)
			got = must(enc.DecodeComplex(back))(t)
			if e := maxError(got, values); e > bound {
				t.Errorf("level %d: Lattigo's decoded by us: error %.3g above %.3g", level, e, bound)
			}
			if back.Level != level || back.Scale != scale {
				t.Errorf("level %d, scale %g came back as %d, %g", level, scale, back.Level, back.Scale)
			}
			again := must(r.b.PlaintextToLattigo(back))(t)
			if !again.Equal(their) {
				t.Errorf("level %d: round trip of a plaintext differs", level)
			}
			if level > 0 {
				continue
			}
			rq := r.ringAt(level)
			turned := ckks.NewPlaintext(r.lp, r.b.LattigoLevel(level))
			turned.MetaData = mine.MetaData
			for _, k := range append([]int{0}, rotations...) {
				want := make([]complex128, len(values))
				for j := range want {
					want[j] = values[(j+k+len(values))%len(values)]
				}
				rq.AutomorphismNTT(mine.Value, henc.GaloisElement(r.p, k), turned.Value)
				got := must(enc.DecodeComplex(must(r.b.PlaintextFromLattigo(turned))(t)))(t)
				if e := maxError(got, want); e > bound {
					t.Errorf("rotation by %d: error %.3g above %.3g", k, e, bound)
				}
			}
			want := make([]complex128, len(values))
			for j := range want {
				want[j] = cmplx.Conj(values[j])
			}
			rq.AutomorphismNTT(mine.Value, henc.ConjugationElement(r.p), turned.Value)
			got = must(enc.DecodeComplex(must(r.b.PlaintextFromLattigo(turned))(t)))(t)
			if e := maxError(got, want); e > bound {
				t.Errorf("conjugation: error %.3g above %.3g", e, bound)
			}
		}
	})
}

// Fresh encryptions of either library, under keys of either, at every level, are
// decrypted by both: to the same polynomial bit for bit, to the values within the
// noise, and with the noise that theory gives, neither more nor less.
func TestFresh(t *testing.T) {
	eachSet(t, func(t *testing.T, r *rig) {
		n := float64(r.p.N())
		rounding := math.Sqrt((1 + 2*n/3) / 12) // of dividing by special primes
		lattigoPK := r.freshPK(lattigoSigma)
		if ps := r.p.P(); len(ps) > 0 {
			// Lattigo encrypts over Q and the first special prime, then divides.
			lattigoPK = math.Hypot(lattigoPK/float64(ps[0]), rounding)
		}
		r.eachKeyset(t, func(t *testing.T, k *keyset) {
			values := r.values()
			libs := r.libraries(k)
			pkEnc := must(henc.NewEncryptor(r.ctx, k.pk))(t)
			seeded := secret.NewSeededEncryptor(r.ctx, k.sk)
			lpkEnc, lskEnc := rlwe.NewEncryptor(r.lp, k.lpk), rlwe.NewEncryptor(r.lp, k.lsk)
			for _, kind := range []struct {
				name    string
				sigma   float64
				encrypt func(level int) (*rlwe.Ciphertext, *rlwe.Plaintext)
			}{
				{"hencedge public", r.freshPK(ourSigma), func(level int) (*rlwe.Ciphertext, *rlwe.Plaintext) {
					return r.encryptOurs(t, pkEnc, values, level)
				}},
				{"hencedge seeded", ourSigma, func(level int) (*rlwe.Ciphertext, *rlwe.Plaintext) {
					return r.encryptOurs(t, seeded, values, level)
				}},
				{"lattigo public", lattigoPK, func(level int) (*rlwe.Ciphertext, *rlwe.Plaintext) {
					pt := r.lattigoEncode(t, values, level)
					return must(lpkEnc.EncryptNew(pt))(t), pt
				}},
				{"lattigo secret", lattigoSigma, func(level int) (*rlwe.Ciphertext, *rlwe.Plaintext) {
					pt := r.lattigoEncode(t, values, level)
					return must(lskEnc.EncryptNew(pt))(t), pt
				}},
			} {
				for _, level := range r.levels() {
					ct, pt := kind.encrypt(level)
					m := r.decryptBoth(t, libs, ct)
					noise := r.deviation(m.Value, pt.Value)
					within(t, kind.name, noise, kind.sigma)
					bound := r.slotError(math.Hypot(noise, math.Sqrt(1.0/12)), r.p.ScaleAt(level)) + r.floatError(2)
					for _, lib := range libs {
						if e := maxError(must(lib.decode(m))(t), values); e > bound {
							t.Errorf("%s, level %d, decoded by %s: error 2^%.1f above 2^%.1f", kind.name, level,
								lib.name(), math.Log2(e), math.Log2(bound))
						} else if level == r.p.MaxLevel() {
							t.Logf("%s, decoded by %s: noise %.2f, error 2^%.1f", kind.name, lib.name(),
								noise, math.Log2(e))
						}
					}
				}
			}
		})
	})
}

// encryptOurs encrypts with one of our encryptors; the second result is what was
// encrypted.
func (r *rig) encryptOurs(t *testing.T, enc henc.SlotEncryptor, values []complex128,
	level int) (*rlwe.Ciphertext, *rlwe.Plaintext) {
	t.Helper()
	pt := must(r.ctx.Encoder().EncodeComplex(values, level, r.p.ScaleAt(level)))(t)
	ct := must(enc.EncryptComplex(values, level, 0, nil))(t)
	return must(r.b.CiphertextToLattigo(ct))(t), must(r.b.PlaintextToLattigo(pt))(t)
}

// decryptBoth decrypts with every library and requires equal polynomials.
func (r *rig) decryptBoth(t *testing.T, libs []library, ct *rlwe.Ciphertext) *rlwe.Plaintext {
	t.Helper()
	first := must(libs[0].decrypt(ct))(t)
	for _, lib := range libs[1:] {
		if other := must(lib.decrypt(ct))(t); !other.Value.Equal(&first.Value) {
			t.Fatalf("%s and %s decrypt to different polynomials", libs[0].name(), lib.name())
		}
	}
	return first
}

// Ciphertexts survive the way to Lattigo and back unchanged, for every n2.
func TestCiphertextRoundTrip(t *testing.T) {
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		r := newRig(t, "edge12-d1", henc.WithN2(n2))
		k := r.ourKeys(t)
		seeded := secret.NewSeededEncryptor(r.ctx, k.sk)
		values := r.values()
		ct, pt := r.encryptOurs(t, seeded, values, 1)
		back := must(r.b.CiphertextFromLattigo(ct))(t)
		if back.Value.Domain() != r.ctx.Domain() || back.Level != 1 || back.Scale != r.p.ScaleAt(1) {
			t.Errorf("n2 = %d: came back in %s at level %d, scale %g", n2, back.Value.Domain(), back.Level, back.Scale)
		}
		if again := must(r.b.CiphertextToLattigo(back))(t); !again.Equal(ct) {
			t.Errorf("n2 = %d: round trip of a ciphertext differs", n2)
		}
		m := r.decryptBoth(t, r.libraries(k), ct)
		within(t, "seeded", r.deviation(m.Value, pt.Value), ourSigma)
	}
}
