package bootstrap

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Keys is what bootstrapping needs, made by henc/secret's Key.BootstrapKeys. All of it is public.
// It is immutable once in use.
type Keys struct {
	// Evaluation has the relinearisation key and the Galois keys of Plan.Rotations and of
	// conjugation.
	Evaluation *henc.EvaluationKeys
	// ToSparse switches from the dense secret s to the sparse t: digit d, one limb of level 0, is
	// (-a_d*t + e_d + p*s on limb d, a_d) over Plan.SparseLimbs, p the special prime. It exists modulo
	// these limbs only: a longer one would not be secure.
	ToSparse *cutrantt.Batch
	// ToDense switches from t to s.
	ToDense *henc.SwitchingKey
}

// check refuses keys that are not for the plan.
func (k *Keys) check(ctx *henc.Context, pl *Plan) error {
	if k == nil || k.Evaluation == nil || k.ToSparse == nil || k.ToDense == nil || k.ToDense.Value == nil {
		return fmt.Errorf("%w: bootstrapping needs evaluation keys and the keys to and from the sparse secret",
			henc.ErrNoKey)
	}
	limbs := pl.SparseLimbs()
	if b := k.ToSparse; b.Polys() != 2*(len(limbs)-1) || !slices.Equal(b.Limbs(), limbs) ||
		b.Domain() != ctx.Domain() || b.N() != pl.params.N() {
		return fmt.Errorf("%w: the key of the sparse secret is not over the limbs %v", henc.ErrParams, limbs)
	}
	p := pl.params
	b, all := k.ToDense.Value, p.QPLimbs(p.MaxLevel())
	if b.Polys() != 2*p.Dnum(p.MaxLevel()) || !slices.Equal(b.Limbs(), all) || b.Domain() != ctx.Domain() ||
		b.N() != p.N() {
		return fmt.Errorf("%w: the key from the sparse secret is not of %s", henc.ErrParams, p.Name())
	}
	return nil
}
