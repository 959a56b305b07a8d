package lattigo

import (
	"math"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
)

// TestBootstrap: Lattigo encrypts under its own secret and decrypts what our bootstrapping makes of it.
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
	pt := ckks.NewPlaintext(lp, b.LattigoLevel(0))
	pt.Scale = rlwe.NewScale(p.ScaleAt(0))
	check(t, enc.Encode(values, pt))
	ct := must(rlwe.NewEncryptor(lp, sk).EncryptNew(pt))(t)

	out := must(bs.Bootstrap(must(b.CiphertextFromLattigo(ct))(t)))(t)
	if out.Level != plan.Level() || out.Level != 3 {
		t.Errorf("level %d", out.Level)
	}
	got := make([]complex128, p.Slots())
	check(t, enc.Decode(rlwe.NewDecryptor(lp, sk).DecryptNew(must(b.CiphertextToLattigo(out))(t)), got))
	e := math.Log2(maxError(got, values))
	t.Logf("largest error 2^%.1f", e)
	if e > -16.5 {
		t.Errorf("error 2^%.1f", e)
	}
}
