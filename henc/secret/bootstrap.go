package secret

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/keymat"
)

// BootstrapKeys are the keys that bootstrapping by the plan needs: the evaluation keys, and the
// switches to an ephemeral sparse secret and back. The sparse secret is drawn from the key's root and
// wiped before this returns. Memory: Dnum(MaxLevel)*2*(len(Q)+len(P))*N words for each of the rotations
// and three more keys. It fails with henc.ErrParams if the plan is for other parameters.
func (k *Key) BootstrapKeys(plan *bootstrap.Plan) (*bootstrap.Keys, error) {
	const op = "bootstrapping keys"
	if plan.Slots() == 0 || !plan.Parameters().Equal(k.Context().Parameters()) {
		return nil, fmt.Errorf("%s: %w: no plan, or one for other parameters", op, henc.ErrParams)
	}
	keys := &bootstrap.Keys{}
	if err := k.sparseKeys(plan, keys); err != nil {
		return nil, fmt.Errorf("%s: sparse secret: %w", op, err)
	}
	var err error
	if keys.Evaluation, err = k.EvaluationKeys(plan.Rotations(), true); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return keys, nil
}

// sparseKeys makes the two keys of the sparse secret.
func (k *Key) sparseKeys(plan *bootstrap.Plan, keys *bootstrap.Keys) error {
	s, release, err := k.use()
	if err != nil {
		return err
	}
	defer release()
	seed, err := k.root.Derive("hencedge sparse secret")
	if err != nil {
		return err
	}
	defer seed.Wipe()
	p, r := k.ctx.Parameters(), k.ctx.Ring()
	small := make([]int32, p.N())
	defer clear(small)
	prng.Sparse(small, henc.SparseWeight, (*[32]byte)(seed), keymat.LabelSparse)
	c := chain.Secret(r)
	expand := func(limbs []int) *cutrantt.Batch {
		t := c.Batch(1, limbs, cutrantt.Coeffs(k.ctx.N2()))
		c.Do(func() error { return r.SetSmall(t, small) })
		c.Op2(r.Forward, t, t)
		return t
	}
	limbs := plan.SparseLimbs()
	own := len(limbs) - 1
	g := shape{limbs, own, 1, make([]uint32, own)}
	for i, q := range p.Q()[:own] {
		g.factor[i] = p.P()[0] % q
	}
	t, all := expand(limbs), expand(p.QPLimbs(p.MaxLevel()))
	c.Do(func() error {
		_, keys.ToSparse, err = k.pairs(g, t, s, own, "key to the sparse secret", 0)
		return err
	})
	c.Do(func() error { keys.ToDense, err = k.switching(s, all, "key from the sparse secret", 0); return err })
	return c.Close()
}
