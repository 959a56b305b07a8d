package lattigo

import (
	"math"
	"testing"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
)

// TestBootstrap: Lattigo encrypts under its own secret and decrypts what our bootstrapping makes of it. Lattigo's
// own bootstrapping of the same message agrees within the errors of both.
func TestBootstrap(t *testing.T) {
	p := must(henc.NamedInsecure("boot10-insecure"))(t)
	ctx := must(henc.NewContext(p))(t)
	b := must(NewBridge(ctx))(t)
	lp := b.Parameters()
	sk := rlwe.NewKeyGenerator(lp).GenSecretKeyNew()
	key := must(b.SecretKeyFromLattigo(sk, nil))(t)
	plan := must(bootstrap.NewPlan(p, must(bootstrap.LiteralOf(p))(t)))(t)
	bs := must(bootstrap.New(ctx, plan, must(key.BootstrapKeys(plan))(t)))(t)

	values := make([]complex128, p.Slots())
	for i := range values {
		values[i] = complex(math.Sin(float64(i)), math.Cos(float64(3*i)))
	}
	enc := ckks.NewEncoder(lp, 53)
	pt := ckks.NewPlaintext(lp, b.LattigoLevel(plan.LowestLevel()))
	pt.Scale = rlwe.NewScale(p.ScaleAt(plan.LowestLevel()))
	check(t, enc.Encode(values, pt))
	ct := must(rlwe.NewEncryptor(lp, sk).EncryptNew(pt))(t)

	out := must(bs.Bootstrap(must(b.CiphertextFromLattigo(ct))(t)))(t)
	if out.Level != plan.Level() || out.Level != 6 {
		t.Errorf("level %d", out.Level)
	}
	got := make([]complex128, p.Slots())
	check(t, enc.Decode(rlwe.NewDecryptor(lp, sk).DecryptNew(must(b.CiphertextToLattigo(out))(t)), got))
	ours, theirs := math.Exp2(-16.5), math.Exp2(-15)
	own := lattigoBootstrap(t, p.LogN(), values)
	off, offOwn, apart := maxError(got, values), maxError(own, values), maxError(got, own)
	t.Logf("largest errors 2^%.1f, Lattigo's 2^%.1f; apart by 2^%.1f", math.Log2(off), math.Log2(offOwn),
		math.Log2(apart))
	if off > ours || offOwn > theirs || apart > ours+theirs {
		t.Errorf("largest errors 2^%.1f, Lattigo's 2^%.1f; apart by 2^%.1f", math.Log2(off), math.Log2(offOwn),
			math.Log2(apart))
	}
}

// lattigoBootstrap is what Lattigo's bootstrapping makes of the values, by its set for 2^15 in a smaller ring. Its
// two factors of SlotsToCoeffs have levels of their own: for both on one Lattigo 6.1.1 rescales twice.
func lattigoBootstrap(t *testing.T, logN int, values []complex128) []complex128 {
	t.Helper()
	scheme, lit := bootstrapping.N15QP880H16384H32.SchemeParams, bootstrapping.N15QP880H16384H32.BootstrappingParams
	scheme.LogN, scheme.Xs = logN, ring.Ternary{H: 1 << (logN - 1)}
	lit.LogN, lit.LogP, lit.Xs = &logN, scheme.LogP, scheme.Xs
	lit.SlotsToCoeffsFactorizationDepthAndLogScales = [][]int{{30}, {30}}
	p := must(ckks.NewParametersFromLiteral(scheme))(t)
	bp := must(bootstrapping.NewParametersFromLiteral(p, lit))(t)
	sk := rlwe.NewKeyGenerator(p).GenSecretKeyNew()
	keys, _, err := bp.GenEvaluationKeys(sk)
	check(t, err)
	enc, pt := ckks.NewEncoder(p), ckks.NewPlaintext(p, 0)
	check(t, enc.Encode(values, pt))
	ct := must(rlwe.NewEncryptor(p, sk).EncryptNew(pt))(t)
	out := must(must(bootstrapping.NewEvaluator(bp, keys))(t).Bootstrap(ct))(t)
	got := make([]complex128, len(values))
	check(t, enc.Decode(rlwe.NewDecryptor(p, sk).DecryptNew(out), got))
	return got
}
