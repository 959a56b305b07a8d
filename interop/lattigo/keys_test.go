package lattigo

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"

	"github.com/hencedge/hencedge/henc"
)

// Keys of either library have, read by Lattigo, the noise that they should have,
// and every digit of it; and they come back from the other side unchanged.
func TestKeys(t *testing.T) {
	eachSet(t, func(t *testing.T, r *rig) {
		r.eachKeyset(t, func(t *testing.T, k *keyset) {
			sigma := ourSigma
			if k.origin == "lattigo" {
				sigma = lattigoSigma
			}
			r.secretRoundTrip(t, k)
			within(t, "public key", r.publicKeyNoise(k), sigma)
			back := must(r.b.PublicKeyFromLattigo(k.lpk))(t)
			if again := must(r.b.PublicKeyToLattigo(back))(t); !again.Equal(k.lpk) {
				t.Error("round trip of the public key differs")
			}
			if r.p.Alpha() == 0 {
				return
			}
			s2 := k.lsk.CopyNew()
			r.lp.RingQP().MulCoeffsMontgomery(s2.Value, s2.Value, s2.Value)
			r.gadgetNoise(t, "relinearisation key", &k.levk.RelinearizationKey.GadgetCiphertext,
				s2.Value.Q, k.lsk, sigma)
			rlk := must(r.b.RelinearizationKeyFromLattigo(k.levk.RelinearizationKey))(t)
			if again := must(r.b.RelinearizationKeyToLattigo(rlk))(t); !again.GadgetCiphertext.Equal(
				&k.levk.RelinearizationKey.GadgetCiphertext) {
				t.Error("round trip of the relinearisation key differs")
			}
			if want := len(rotations) + 1; len(k.levk.GaloisKeys) != want || len(k.evk.Galois) != want {
				t.Fatalf("%d and %d Galois keys, want %d", len(k.evk.Galois), len(k.levk.GaloisKeys), want)
			}
			for g, gk := range k.levk.GaloisKeys {
				under := k.lsk.CopyNew()
				r.lp.RingQP().AutomorphismNTT(k.lsk.Value, r.lp.ModInvGaloisElement(g), under.Value)
				r.gadgetNoise(t, fmt.Sprintf("galois key %d", g), &gk.GadgetCiphertext, k.lsk.Value.Q, under, sigma)
				element, ours, err := r.b.GaloisKeyFromLattigo(gk)
				check(t, err)
				if again := must(r.b.GaloisKeyToLattigo(element, ours))(t); element != g ||
					!again.GadgetCiphertext.Equal(&gk.GadgetCiphertext) {
					t.Errorf("round trip of galois key %d differs", g)
				}
			}
		})
	})
}

func (r *rig) secretRoundTrip(t *testing.T, k *keyset) {
	t.Helper()
	small := must(k.sk.Coefficients())(t)
	again := must(r.b.SecretKeyFromLattigo(k.lsk, nil))(t)
	if !slices.Equal(must(again.Coefficients())(t), small) {
		t.Error("round trip of the secret key differs")
	}
	if lsk := must(r.b.SecretKeyToLattigo(k.sk))(t); !lsk.Equal(k.lsk) {
		t.Error("round trip of Lattigo's secret key differs")
	}
	count := map[int32]int{}
	for _, v := range small {
		count[v]++
	}
	// Uniform ternary: a third each, to six deviations sqrt(2N/9).
	n := float64(len(small))
	for v := int32(-1); v <= 1; v++ {
		if d := math.Abs(float64(count[v]) - n/3); d > 6*math.Sqrt(2*n/9) {
			t.Errorf("%d of %d coefficients are %d", count[v], len(small), v)
		}
	}
	WipeSecretKey(nil)
	wiped := k.lsk.CopyNew()
	WipeSecretKey(wiped)
	if !wiped.Equal(rlwe.NewSecretKey(r.lp)) {
		t.Error("wiped secret key is not zero")
	}
}

// publicKeyNoise is the deviation of b + a*s.
func (r *rig) publicKeyNoise(k *keyset) float64 {
	rq := r.lp.RingQ()
	sum, zero := rq.NewPoly(), rq.NewPoly()
	rq.MulCoeffsMontgomery(k.lpk.Value[1].Q, k.lsk.Value.Q, sum)
	rq.Add(sum, k.lpk.Value[0].Q, sum)
	rq.IMForm(sum, sum)
	return r.deviation(sum, zero)
}

// gadgetNoise checks digit by digit that b_d + a_d*under - g_d*target is small
// noise modulo Q and the same noise modulo P.
func (r *rig) gadgetNoise(t *testing.T, what string, g *rlwe.GadgetCiphertext, target ring.Poly, under *rlwe.SecretKey,
	sigma float64) {
	t.Helper()
	qp := r.lp.RingQP()
	alpha, lifted := r.lp.PCount(), qp.RingQ.NewPoly()
	qp.RingQ.MulScalarBigint(target, qp.RingP.Modulus(), lifted)
	for d, digit := range g.Value {
		sum := qp.NewPoly()
		qp.MulCoeffsMontgomery(digit[0][1], under.Value, sum)
		qp.Add(sum, digit[0][0], sum)
		for i := d * alpha; i < min((d+1)*alpha, r.lp.QCount()); i++ {
			qp.RingQ.SubRings[i].Sub(sum.Q.Coeffs[i], lifted.Coeffs[i], sum.Q.Coeffs[i])
		}
		qp.IMForm(sum, sum)
		within(t, fmt.Sprintf("%s, digit %d", what, d), r.deviation(sum.Q, qp.RingQ.NewPoly()), sigma)
		qp.INTT(sum, sum)
		first, q0 := sum.Q.Coeffs[0], int64(qp.RingQ.SubRings[0].Modulus)
		for i, sub := range qp.RingP.SubRings {
			for j, v := range sum.P.Coeffs[i] {
				if a, b := centre(first[j], q0), centre(v, int64(sub.Modulus)); a != b {
					t.Fatalf("%s, digit %d: noise %d modulo Q and %d modulo P", what, d, a, b)
				}
			}
		}
	}
}

func centre(v uint64, q int64) int64 {
	if x := int64(v); x > q/2 {
		return x - q
	}
	return int64(v)
}

// Key ids do not depend on the way through Lattigo, except that a seeded public
// key loses its seed and with it the id of the seeded form.
func TestKeyIDs(t *testing.T) {
	r := newRig(t, "edge12-d1")
	k := r.ourKeys(t)
	plain := &henc.PublicKey{Value: k.pk.Value}
	plain.KeyID = must(henc.ComputeKeyID(r.ctx, k.pk.Value, nil))(t)
	back := must(r.b.PublicKeyFromLattigo(k.lpk))(t)
	if back.KeyID != plain.KeyID {
		t.Errorf("key id %x, want %x", back.KeyID, plain.KeyID)
	}
	if evk := must(r.b.EvaluationKeysFromLattigo(k.levk, back))(t); evk.KeyID != back.KeyID {
		t.Errorf("evaluation keys carry id %x, want %x", evk.KeyID, back.KeyID)
	}
}
