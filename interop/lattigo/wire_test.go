package lattigo

import (
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"

	"github.com/hencedge/hencedge/henc/secret"
)

// What comes from Lattigo survives our wire format, and what goes to Lattigo
// survives Lattigo's.
func TestWireFormats(t *testing.T) {
	for _, name := range []string{"edge12-add", "edge13-d3", "edge13-d2p"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, name)
			k := r.lattigoKeys(t)
			values := r.values()
			lct := must(rlwe.NewEncryptor(r.lp, k.lpk).EncryptNew(r.lattigoEncode(t, values, r.p.MaxLevel())))(t)

			ct := must(
				r.ctx.UnmarshalCiphertext(must(r.ctx.MarshalCiphertext(must(r.b.CiphertextFromLattigo(lct))(t)))(t)))(t)
			if back := must(r.b.CiphertextToLattigo(ct))(t); !back.Equal(lct) {
				t.Error("ciphertext differs after our wire format")
			}
			pk := must(r.ctx.UnmarshalPublicKey(must(r.ctx.MarshalPublicKey(k.pk))(t)))(t)
			if back := must(r.b.PublicKeyToLattigo(pk))(t); !back.Equal(k.lpk) || pk.KeyID != k.pk.KeyID {
				t.Error("public key differs after our wire format")
			}
			evk := must(r.ctx.UnmarshalEvaluationKeys(must(r.ctx.MarshalEvaluationKeys(k.evk))(t)))(t)
			back := must(r.b.EvaluationKeysToLattigo(evk))(t)
			if len(back.GaloisKeys) != len(k.levk.GaloisKeys) {
				t.Errorf("%d Galois keys, want %d", len(back.GaloisKeys), len(k.levk.GaloisKeys))
			}
			for g, gk := range k.levk.GaloisKeys {
				if !back.GaloisKeys[g].GadgetCiphertext.Equal(&gk.GadgetCiphertext) {
					t.Errorf("galois key %d differs after our wire format", g)
				}
			}
			if rlk := k.levk.RelinearizationKey; rlk != nil &&
				!back.RelinearizationKey.GadgetCiphertext.Equal(&rlk.GadgetCiphertext) {
				t.Error("relinearisation key differs after our wire format")
			}
			sk := must(secret.Unmarshal(r.ctx, must(k.sk.Marshal())(t)))(t)
			if back := must(r.b.SecretKeyToLattigo(sk))(t); !back.Equal(k.lsk) {
				t.Error("secret key differs after our wire format")
			}

			k = r.ourKeys(t)
			var lsk rlwe.SecretKey
			check(t, lsk.UnmarshalBinary(must(k.lsk.MarshalBinary())(t)))
			if !lsk.Equal(k.lsk) {
				t.Error("secret key differs after Lattigo's wire format")
			}
			var levk rlwe.MemEvaluationKeySet
			check(t, levk.UnmarshalBinary(must(k.levk.MarshalBinary())(t)))
			for g, gk := range k.levk.GaloisKeys {
				if !levk.GaloisKeys[g].GadgetCiphertext.Equal(&gk.GadgetCiphertext) {
					t.Errorf("galois key %d differs after Lattigo's wire format", g)
				}
			}
			sent, _ := r.encryptOurs(t, secret.NewSeededEncryptor(r.ctx, k.sk), values, 0)
			var got rlwe.Ciphertext
			check(t, got.UnmarshalBinary(must(sent.MarshalBinary())(t)))
			if !got.Equal(sent) {
				t.Error("ciphertext differs after Lattigo's wire format")
			}
		})
	}
}
