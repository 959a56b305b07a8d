package lattigo

import (
	"errors"
	"math/big"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// Every Lattigo ciphertext without a counterpart here is refused with its reason.
func TestCiphertextFromLattigoRefuses(t *testing.T) {
	r := newRig(t, "edge13-d2p")
	good := func() *rlwe.Ciphertext {
		ct := ckks.NewCiphertext(r.lp, 1, r.lp.MaxLevel())
		ct.Value[1].Coeffs[0][0] = 1
		return ct
	}
	if _, err := r.b.CiphertextFromLattigo(good()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(ct *rlwe.Ciphertext)
		want   error
	}{
		{"coefficients", func(ct *rlwe.Ciphertext) { ct.IsNTT = false }, ErrObject},
		{"montgomery", func(ct *rlwe.Ciphertext) { ct.IsMontgomery = true }, ErrObject},
		{"unbatched", func(ct *rlwe.Ciphertext) { ct.IsBatched = false }, ErrObject},
		{"bit-reversed", func(ct *rlwe.Ciphertext) { ct.IsBitReversed = true }, ErrObject},
		{"sparse", func(ct *rlwe.Ciphertext) { ct.LogDimensions.Cols-- }, ErrObject},
		{"no metadata", func(ct *rlwe.Ciphertext) { ct.MetaData = nil }, ErrObject},
		{"plaintext modulus", func(ct *rlwe.Ciphertext) { ct.Scale.Mod = big.NewInt(65537) }, ErrObject},
		{"scale 0", func(ct *rlwe.Ciphertext) { ct.Scale = rlwe.NewScale(0) }, henc.ErrScale},
		{"negative scale", func(ct *rlwe.Ciphertext) { ct.Scale.Value.SetFloat64(-4) }, henc.ErrScale},
		{"infinite scale", func(ct *rlwe.Ciphertext) { ct.Scale.Value.SetInf(false) }, henc.ErrScale},
		{"degree 2", func(ct *rlwe.Ciphertext) { ct.Value = append(ct.Value, ct.Value[0]) }, ErrObject},
		{"degree 0", func(ct *rlwe.Ciphertext) { ct.Value = ct.Value[:1] }, ErrObject},
		{"half a pair", func(ct *rlwe.Ciphertext) { ct.Resize(1, ct.Level()-1) }, henc.ErrLevel},
		{"no limbs", func(ct *rlwe.Ciphertext) { ct.Value[0] = ring.Poly{} }, henc.ErrLevel},
		{"unequal levels", func(ct *rlwe.Ciphertext) { ct.Value[1].Coeffs = ct.Value[1].Coeffs[1:] }, ErrObject},
		{"short limb", func(ct *rlwe.Ciphertext) { ct.Value[1].Coeffs[2] = ct.Value[1].Coeffs[2][1:] }, ErrLayout},
		{"large residue", func(ct *rlwe.Ciphertext) { ct.Value[0].Coeffs[3][5] = r.lp.Q()[3] }, cutrantt.ErrRange},
		{"huge residue", func(ct *rlwe.Ciphertext) { ct.Value[0].Coeffs[3][5] = 1<<32 + 7 }, cutrantt.ErrRange},
	} {
		ct := good()
		tc.change(ct)
		if _, err := r.b.CiphertextFromLattigo(ct); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if _, err := r.b.CiphertextFromLattigo(nil); !errors.Is(err, ErrObject) {
		t.Errorf("nil: %v", err)
	}
	if _, err := r.b.PlaintextFromLattigo(nil); !errors.Is(err, ErrObject) {
		t.Errorf("nil: %v", err)
	}
	pt := ckks.NewPlaintext(r.lp, 0)
	if _, err := r.b.PlaintextFromLattigo(pt); !errors.Is(err, henc.ErrLevel) {
		t.Errorf("plaintext with one limb: %v", err)
	}
}

func TestToLattigoRefuses(t *testing.T) {
	r, other := newRig(t, "edge12-d1"), newRig(t, "edge13-d3")
	if _, err := r.b.CiphertextToLattigo(nil); err == nil {
		t.Error("nil ciphertext accepted")
	}
	if _, err := r.b.PlaintextToLattigo(nil); err == nil {
		t.Error("nil plaintext accepted")
	}
	foreign := must(other.ctx.NewCiphertext(1, 4))(t)
	if _, err := r.b.CiphertextToLattigo(foreign); !errors.Is(err, henc.ErrParams) {
		t.Errorf("ciphertext of another set: %v", err)
	}
	n2 := newRig(t, "edge12-d1", henc.WithN2(1))
	if _, err := r.b.CiphertextToLattigo(must(n2.ctx.NewCiphertext(1, 4))(t)); !errors.Is(err, henc.ErrDomain) {
		t.Errorf("ciphertext in another domain: %v", err)
	}
	if _, err := r.b.PublicKeyToLattigo(nil); !errors.Is(err, ErrObject) {
		t.Errorf("nil public key: %v", err)
	}
	k := other.ourKeys(t)
	if _, err := r.b.PublicKeyToLattigo(k.pk); !errors.Is(err, ErrObject) {
		t.Errorf("public key of another set: %v", err)
	}
	if _, err := r.b.RelinearizationKeyToLattigo(k.evk.Relin); !errors.Is(err, ErrObject) {
		t.Errorf("relinearisation key of another set: %v", err)
	}
	if _, err := r.b.SecretKeyToLattigo(k.sk); !errors.Is(err, henc.ErrParams) {
		t.Errorf("secret key of another set: %v", err)
	}
	if _, err := r.b.SecretKeyToLattigo(nil); !errors.Is(err, henc.ErrParams) {
		t.Errorf("nil secret key: %v", err)
	}
	if _, err := r.b.EvaluationKeysToLattigo(nil); !errors.Is(err, ErrObject) {
		t.Errorf("nil evaluation keys: %v", err)
	}
	if _, err := other.b.GaloisKeyToLattigo(4, k.evk.Relin); !errors.Is(err, ErrObject) {
		t.Errorf("even galois element: %v", err)
	}
	if err := k.sk.Wipe(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.b.SecretKeyToLattigo(k.sk); !errors.Is(err, secret.ErrWiped) {
		t.Errorf("wiped secret key: %v", err)
	}
}

func TestKeysFromLattigoRefuse(t *testing.T) {
	r := newRig(t, "edge13-d3")
	k := r.lattigoKeys(t)
	gen := rlwe.NewKeyGenerator(r.lp)
	base, low := 15, r.lp.MaxLevelQ()-1
	relin := func(p rlwe.EvaluationKeyParameters) *rlwe.RelinearizationKey {
		return gen.GenRelinearizationKeyNew(k.lsk, p)
	}
	short := k.levk.RelinearizationKey.CopyNew()
	short.Value = short.Value[1:]
	for name, rlk := range map[string]*rlwe.RelinearizationKey{
		"compressed": relin(rlwe.EvaluationKeyParameters{Compressed: true}),
		"base two":   relin(rlwe.EvaluationKeyParameters{BaseTwoDecomposition: &base}),
		"low level":  relin(rlwe.EvaluationKeyParameters{LevelQ: &low}),
		"few digits": short,
		"nil":        nil,
	} {
		if _, err := r.b.RelinearizationKeyFromLattigo(rlk); !errors.Is(err, ErrObject) {
			t.Errorf("%s relinearisation key: %v, want ErrObject", name, err)
		}
	}
	gk := k.levk.GaloisKeys[r.lp.GaloisElement(1)].CopyNew()
	gk.GaloisElement = 2
	if _, _, err := r.b.GaloisKeyFromLattigo(gk); !errors.Is(err, ErrObject) {
		t.Errorf("even galois element: %v", err)
	}
	if _, _, err := r.b.GaloisKeyFromLattigo(nil); !errors.Is(err, ErrObject) {
		t.Errorf("nil galois key: %v", err)
	}
	pk := k.lpk.CopyNew()
	pk.Value = pk.Value[:1]
	for _, bad := range []*rlwe.PublicKey{nil, pk} {
		if _, err := r.b.PublicKeyFromLattigo(bad); !errors.Is(err, ErrObject) {
			t.Errorf("public key: %v", err)
		}
	}
	if _, err := r.b.EvaluationKeysFromLattigo(nil, nil); !errors.Is(err, ErrObject) {
		t.Errorf("nil evaluation keys: %v", err)
	}
	for name, change := range map[string]func(sk *rlwe.SecretKey){
		"without P":       func(sk *rlwe.SecretKey) { sk.Value.P = ring.Poly{} },
		"of another limb": func(sk *rlwe.SecretKey) { sk.Value.Q.Coeffs[1][3] ^= 1 },
		"short":           func(sk *rlwe.SecretKey) { sk.Value.Q.Coeffs[1] = nil },
	} {
		sk := k.lsk.CopyNew()
		change(sk)
		if _, err := r.b.SecretKeyFromLattigo(sk, nil); !errors.Is(err, ErrObject) {
			t.Errorf("secret key %s: %v, want ErrObject", name, err)
		}
	}
	sk := k.lsk.CopyNew()
	sk.Value.Q.Coeffs[2][0] = r.lp.Q()[2]
	if _, err := r.b.SecretKeyFromLattigo(sk, nil); !errors.Is(err, cutrantt.ErrRange) {
		t.Errorf("secret key with a large residue: %v", err)
	}
	if _, err := r.b.SecretKeyFromLattigo(nil, nil); !errors.Is(err, ErrObject) {
		t.Errorf("nil secret key: %v", err)
	}
	twice := k.lsk.CopyNew()
	r.lp.RingQP().Add(twice.Value, twice.Value, twice.Value)
	if _, err := r.b.SecretKeyFromLattigo(twice, nil); !errors.Is(err, henc.ErrMalformed) {
		t.Errorf("secret key with coefficients of 2: %v", err)
	}
}

// Parameters whose digits Lattigo would cut elsewhere move ciphertexts, public and
// secret keys, but no switching keys; sets without special primes have none.
func TestSwitchingKeysNeedEqualDigits(t *testing.T) {
	lit := must(henc.Named("edge13-d3"))(t).Literal()
	lit.Name, lit.Alpha = "edge13-d3-alpha1", 1
	ctx := must(henc.NewContext(must(henc.NewParameters(lit))(t)))(t)
	b := must(NewBridge(ctx))(t)
	sk := must(secret.Generate(ctx, nil))(t)
	if _, err := b.RelinearizationKeyToLattigo(must(sk.RelinKey())(t)); !errors.Is(err, ErrObject) {
		t.Errorf("digits of one prime and two special primes: %v", err)
	}
	if _, err := b.PublicKeyToLattigo(must(sk.PublicKey())(t)); err != nil {
		t.Error(err)
	}
	r := newRig(t, "edge12-add")
	if _, err := r.b.RelinearizationKeyToLattigo(&henc.SwitchingKey{}); !errors.Is(err, ErrNoSpecialPrimes) {
		t.Errorf("no special primes: %v", err)
	}
}

// Roots of unity other than Lattigo's are refused, and so are secret keys of
// insecure sets.
func TestBridgeRefuses(t *testing.T) {
	lit := must(henc.Named("edge12-d1"))(t).Literal()
	q := uint64(lit.Q[1])
	lit.PsiQ[1] = uint32(ring.ModExp(uint64(lit.PsiQ[1]), 3, q)) // another primitive root
	ctx := must(henc.NewContext(must(henc.NewParameters(lit))(t)))(t)
	if _, err := NewBridge(ctx); !errors.Is(err, ErrLayout) {
		t.Errorf("another root of unity: %v", err)
	}
	lit = must(henc.Named("edge12-d1"))(t).Literal()
	lit.Name, lit.Insecure = "insecure", true
	ctx = must(henc.NewContext(must(henc.NewParameters(lit))(t)))(t)
	b := must(NewBridge(ctx))(t)
	sk := must(secret.Generate(ctx, nil))(t)
	if _, err := b.SecretKeyToLattigo(sk); !errors.Is(err, henc.ErrInsecureKey) {
		t.Errorf("insecure set: %v", err)
	}
}
