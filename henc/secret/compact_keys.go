package secret

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/kdf"
)

// CompactSecret is the common secret of the compact windows whose results are under k. It is a key of
// ctx, which has the parameters of compact.Switching, and follows from k's root. Whoever holds it opens all windows of
// all boards; it never leaves the key holder.
func (k *Key) CompactSecret(ctx *henc.Context) (*Key, error) {
	s, err := k.compactSecret(ctx, "hencedge compact common secret")
	if err != nil {
		return nil, fmt.Errorf("common secret of compact windows: %w", err)
	}
	return s, nil
}

// CompactBoard is the secret of a device's board. It is a key of ctx, which has the parameters of compact.Named, and
// follows from k's root and the device's name, which has 1 to 255 bytes and no zero byte: it is the same whenever it
// is made, and tells nothing about k or about other boards. It fails with henc.ErrParams for another set and with
// henc.ErrMalformed for another name.
func (k *Key) CompactBoard(ctx *henc.Context, device string) (*Key, error) {
	s, err := k.compactBoard(ctx, device)
	if err != nil {
		return nil, fmt.Errorf("secret of a board: %w", err)
	}
	return s, nil
}

func (k *Key) compactBoard(ctx *henc.Context, device string) (*Key, error) {
	if err := compact.CheckSet(ctx.Parameters()); err != nil {
		return nil, err
	}
	if device == "" || len(device) > 255 || strings.ContainsRune(device, 0) {
		return nil, fmt.Errorf("%w: a device of %d bytes", henc.ErrMalformed, len(device))
	}
	return k.compactSecret(ctx, "hencedge compact board "+device)
}

// compactSecret is the secret that follows from k's root under a label.
func (k *Key) compactSecret(ctx *henc.Context, label string) (*Key, error) {
	_, release, err := k.use()
	if err != nil {
		return nil, err
	}
	defer release()
	seed, err := k.root.Derive(label)
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	return Generate(ctx, seed)
}

// CompactKey is the key that switches from another secret to k at level 0, for compact.Receiver: from a
// board's to the common one, and from that to the secret of the results. The other ring may be smaller: X is
// then embedded as X^(N/N'). Digit d, one limb of level 0, is (-a_d*s + e_d + p*s' on limb d, a_d) over
// Parameters.SparseLimbs, p the special prime. The key tells nothing about either secret, and who knows the
// other secret learns nothing about k. It fails with henc.ErrParams for a larger ring or parameters without
// special primes.
func (k *Key) CompactKey(from *Key) (*henc.SwitchingKey, error) {
	key, err := k.compactKey(from)
	if err != nil {
		return nil, fmt.Errorf("key of compact windows: %w", err)
	}
	return key, nil
}

func (k *Key) compactKey(from *Key) (*henc.SwitchingKey, error) {
	coefficients, err := from.Coefficients()
	if err != nil {
		return nil, err
	}
	defer clear(coefficients)
	_, release, err := k.use()
	if err != nil {
		return nil, err
	}
	defer release()
	p := k.ctx.Parameters()
	limbs := p.SparseLimbs()
	if len(limbs) == 0 || len(coefficients) > p.N() {
		return nil, fmt.Errorf("%w: %s has no special primes, or is smaller than the ring of the other secret",
			henc.ErrParams, p.Name())
	}
	embedded := make([]int32, p.N())
	defer clear(embedded)
	gap := p.N() / len(coefficients)
	for i, v := range coefficients {
		embedded[i*gap] = v
	}
	own := len(limbs) - 1
	g := shape{limbs, own, 1, make([]uint32, own)}
	for i, q := range p.Q()[:own] {
		g.factor[i] = p.P()[0] % q
	}
	c := chain.Secret(k.ctx.Ring())
	expand := func(small []int32, limbs []int) *cutrantt.Batch {
		t := c.Batch(1, limbs, cutrantt.Coeffs(k.ctx.N2()))
		c.Do(func() error { return k.ctx.Ring().SetSmall(t, small) })
		c.Op2(k.ctx.Ring().Forward, t, t)
		return t
	}
	under, target := expand(k.small, limbs), expand(embedded, limbs[:own])
	key := &henc.SwitchingKey{}
	c.Do(func() error {
		key.Seed, key.Value, err = k.pairs(g, under, target, own, switchLabel(coefficients), 0)
		return err
	})
	if err := c.Close(); err != nil {
		return nil, err
	}
	return key, nil
}

// switchLabel is the name of the seeds of a key from a secret. It has a digest of it: two boards with one name
// must not have keys with the same a and e, whose difference would be that of the two secrets.
func switchLabel(from []int32) string {
	b := make([]byte, len(from))
	defer clear(b)
	for i, v := range from {
		b[i] = byte(v)
	}
	var digest [kdf.Size]byte
	kdf.Derive(&digest, b, "hencedge compact digest")
	return "compact key " + string(digest[:])
}
