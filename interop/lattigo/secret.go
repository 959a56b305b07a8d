package lattigo

import (
	"fmt"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// SecretKeyToLattigo converts a secret key: the N ternary coefficients of s,
// transformed and in Montgomery form modulo Q and P. The result holds the secret
// unprotected; WipeSecretKey clears it. Keys of insecure parameters are refused
// (henc.ErrInsecureKey).
func (b *Bridge) SecretKeyToLattigo(k *secret.Key) (*rlwe.SecretKey, error) {
	p := b.ctx.Parameters()
	if p.Insecure() {
		return nil, fmt.Errorf("secret key to lattigo: %w: %s", henc.ErrInsecureKey, p.Name())
	}
	if k == nil || k.Context() == nil || !k.Context().Parameters().Equal(p) {
		return nil, fmt.Errorf("secret key to lattigo: %w: the key is not of %s", henc.ErrParams, p.Name())
	}
	small, err := k.Coefficients()
	if err != nil {
		return nil, fmt.Errorf("secret key to lattigo: %w", err)
	}
	defer clear(small)
	out := rlwe.NewSecretKey(b.params)
	for i, dst := range split(out.Value) {
		sub := b.layouts[i].sub
		for j, v := range small {
			dst[j] = uint64(int64(v) + int64(sub.Modulus)&(int64(v)>>63)) // q-1 for -1
		}
		sub.NTT(dst, dst)
		sub.MForm(dst, dst)
	}
	return out, nil
}

// SecretKeyFromLattigo is the inverse of SecretKeyToLattigo. The secret must be
// ternary (Lattigo's default and sparse secrets are). root is the secret that the
// noise of the keys made from the result derives from; nil draws a fresh one.
func (b *Bridge) SecretKeyFromLattigo(sk *rlwe.SecretKey, root *henc.Seed) (*secret.Key, error) {
	n := b.ctx.Parameters().N()
	if sk == nil || len(split(sk.Value)) != len(b.layouts) {
		return nil, fmt.Errorf("secret key from lattigo: %w: want %d limbs", ErrObject, len(b.layouts))
	}
	var small []int32
	defer func() { clear(small) }()
	tmp := make([]uint64, n)
	defer clear(tmp)
	for i, src := range split(sk.Value) {
		sub := b.layouts[i].sub
		if len(src) != n {
			return nil, fmt.Errorf("secret key from lattigo: %w: limb %d has %d residues, want %d", ErrObject,
				i, len(src), n)
		}
		for _, v := range src {
			if v >= sub.Modulus {
				return nil, fmt.Errorf("secret key from lattigo: %w: a residue of limb %d is not below %d",
					cutrantt.ErrRange, i, sub.Modulus)
			}
		}
		sub.IMForm(src, tmp)
		sub.INTT(tmp, tmp)
		first := small == nil
		if first {
			small = make([]int32, n)
		}
		half, wrong := sub.Modulus/2, int64(0)
		for j, v := range tmp {
			c := int64(v) - int64(sub.Modulus)&^(int64(v-half-1)>>63) // centred: v above q/2 is negative
			if first {
				small[j] = int32(c)
			}
			wrong |= c ^ int64(small[j])
		}
		if wrong != 0 {
			return nil, fmt.Errorf("secret key from lattigo: %w: limbs 0 and %d hold different polynomials", ErrObject,
				i)
		}
	}
	k, err := secret.FromCoefficients(b.ctx, small, root)
	if err != nil {
		return nil, fmt.Errorf("secret key from lattigo: %w", err)
	}
	return k, nil
}

// WipeSecretKey overwrites a Lattigo secret key with zeros. nil is left alone.
func WipeSecretKey(sk *rlwe.SecretKey) {
	if sk == nil {
		return
	}
	for _, l := range split(sk.Value) {
		clear(l)
	}
}
