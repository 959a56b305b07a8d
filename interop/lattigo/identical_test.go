package lattigo

import (
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"

	"github.com/hencedge/hencedge/henc"
)

// On the same ciphertexts and keys our product, rescaling, rotation and
// conjugation give Lattigo's residues bit for bit. Both divide exactly rounded,
// and rounding by odd divisors one after the other equals rounding by their
// product, so a pair at once, or special primes and a level at once, changes
// nothing.
//
// The inputs are fixed. The quotient of Ring.Extend is fixed point and can round
// to the other side of a half, with probability about 2^-27 per coefficient and
// source prime; then the residues differ and the plaintext does not. The seeds
// below do not meet that case.
func TestIdentical(t *testing.T) {
	eachSwitchingSet(t, func(t *testing.T, r *rig) {
		k := r.ourKeys(t)
		libs := r.libraries(k)
		enc := must(henc.NewEncryptor(r.ctx, k.pk))(t)
		encrypt := func(first byte) *rlwe.Ciphertext {
			ct := must(enc.EncryptComplex(r.values(), r.p.MaxLevel(), 0, &henc.Seed{first}))(t)
			return must(r.b.CiphertextToLattigo(ct))(t)
		}
		x, y := encrypt(1), encrypt(2)
		same := func(what string, f func(lib library) (*rlwe.Ciphertext, error)) *rlwe.Ciphertext {
			t.Helper()
			mine, their := must(f(libs[0]))(t), must(f(libs[1]))(t)
			if !mine.Value[0].Equal(&their.Value[0]) || !mine.Value[1].Equal(&their.Value[1]) {
				t.Errorf("%s: residues differ from Lattigo's", what)
			}
			return their
		}
		for _, rot := range rotations {
			same("rotate", func(lib library) (*rlwe.Ciphertext, error) { return lib.rotate(x, rot) })
		}
		same("conjugate", func(lib library) (*rlwe.Ciphertext, error) { return lib.conjugate(x) })
		same("square", func(lib library) (*rlwe.Ciphertext, error) { return lib.mul(x, x) })
		xy := same("multiply", func(lib library) (*rlwe.Ciphertext, error) { return lib.mul(x, y) })
		low := same("rescale", func(lib library) (*rlwe.Ciphertext, error) { return lib.rescale(xy) })
		same("multiply and rescale", func(lib library) (*rlwe.Ciphertext, error) {
			if o, ok := lib.(*ours); ok {
				return o.mulRescale(x, y)
			}
			return low, nil
		})
		same("rotate at a lower level", func(lib library) (*rlwe.Ciphertext, error) {
			return lib.rotate(low, rotations[0])
		})
		if low.Level() > r.b.LattigoLevel(0) {
			same("multiply at a lower level", func(lib library) (*rlwe.Ciphertext, error) { return lib.mul(low, low) })
		}
	})
}
