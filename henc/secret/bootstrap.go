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

// BootstrapKeys are the evaluation keys that bootstrapping by the plan needs, those of SparseKeys
// included. Memory: Dnum(MaxLevel)*2*(len(Q)+len(P))*N words for each of the rotations
// and three more keys. It fails with henc.ErrParams if the plan is for other parameters.
func (k *Key) BootstrapKeys(plan *bootstrap.Plan) (*henc.EvaluationKeys, error) {
	const op = "bootstrapping keys"
	if plan.Slots() == 0 || !plan.Parameters().Equal(k.Context().Parameters()) {
		return nil, fmt.Errorf("%s: %w: no plan, or one for other parameters", op, henc.ErrParams)
	}
	keys, err := k.EvaluationKeys(plan.Rotations(), true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if keys.Sparse, err = k.SparseKeys(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return keys, nil
}

// SparseKeys are the keys to an ephemeral sparse secret and back. That secret is drawn from the
// key's root and wiped before this returns. It fails with henc.ErrSecurity where the first key would not be
// secure, and with henc.ErrParams for parameters without special primes.
func (k *Key) SparseKeys() (*henc.SparseKeys, error) {
	keys, err := k.sparseKeys()
	if err != nil {
		return nil, fmt.Errorf("keys of the sparse secret: %w", err)
	}
	return keys, nil
}

func (k *Key) sparseKeys() (*henc.SparseKeys, error) {
	s, release, err := k.use()
	if err != nil {
		return nil, err
	}
	defer release()
	p, r := k.ctx.Parameters(), k.ctx.Ring()
	limbs := p.SparseLimbs()
	if len(limbs) == 0 {
		return nil, fmt.Errorf("%w: %s has no special primes, so no key switching", henc.ErrParams, p.Name())
	}
	if err := henc.CheckSparse(p, limbs); err != nil {
		return nil, err
	}
	seed, err := k.root.Derive("hencedge sparse secret")
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
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
	own := len(limbs) - 1
	g := shape{limbs, own, 1, make([]uint32, own)}
	for i, q := range p.Q()[:own] {
		g.factor[i] = p.P()[0] % q
	}
	t, all := expand(limbs), expand(p.QPLimbs(p.MaxLevel()))
	keys := &henc.SparseKeys{To: &henc.SwitchingKey{}}
	c.Do(func() error {
		keys.To.Seed, keys.To.Value, err = k.pairs(g, t, s, own, "key to the sparse secret", 0)
		return err
	})
	c.Do(func() error { keys.From, err = k.switching(s, all, "key from the sparse secret", 0); return err })
	if err := c.Close(); err != nil {
		return nil, err
	}
	return keys, nil
}
