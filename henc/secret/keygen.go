package secret

import (
	"fmt"
	"math/big"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/keymat"
	"github.com/hencedge/hencedge/internal/taint"
)

// PublicKey is (b, a) = (-a*s + e, a) over Q and P, with a expanded from a public
// seed and e centred binomial.
func (k *Key) PublicKey() (*henc.PublicKey, error) {
	s, release, err := k.use()
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	defer release()
	seed, value, err := k.uniformPairs(s, nil, 1, "public key", 0)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	id, err := henc.ComputeKeyID(k.ctx, value, seed)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return &henc.PublicKey{Value: value, Seed: seed, KeyID: id, Epoch: k.epoch}, nil
}

// RelinKey is the switching key from s^2 to s. It fails with henc.ErrParams for
// parameters without special primes.
func (k *Key) RelinKey() (*henc.SwitchingKey, error) {
	s, release, err := k.use()
	if err != nil {
		return nil, fmt.Errorf("relinearisation key: %w", err)
	}
	defer release()
	c := chain.Secret(k.ctx.Ring())
	square := c.Batch(1, s.Limbs(), s.Domain())
	c.Op3(k.ctx.Ring().Mul, square, s, s)
	var key *henc.SwitchingKey
	c.Do(func() error { key, err = k.switching(s, square, "relinearisation key", 0); return err })
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("relinearisation key: %w", err)
	}
	return key, nil
}

// GaloisKeys are the keys of X -> X^g for each element g (odd, below 2N):
// switching keys from s to phi_(1/g)(s). See henc.GaloisElement. An element 1,
// which needs no key, is left out.
func (k *Key) GaloisKeys(elements []uint64) (map[uint64]*henc.SwitchingKey, error) {
	s, release, err := k.use()
	if err != nil {
		return nil, fmt.Errorf("galois keys: %w", err)
	}
	defer release()
	keys := make(map[uint64]*henc.SwitchingKey, len(elements))
	for _, g := range elements {
		if g == 1 || keys[g] != nil {
			continue
		}
		if keys[g], err = k.galois(s, g); err != nil {
			return nil, fmt.Errorf("galois key of element %d: %w", g, err)
		}
	}
	return keys, nil
}

func (k *Key) galois(s *cutrantt.Batch, g uint64) (key *henc.SwitchingKey, err error) {
	m := uint64(2 * k.ctx.Parameters().N())
	if g%2 == 0 || g >= m {
		return nil, fmt.Errorf("%w: a Galois element is odd and below %d", henc.ErrParams, m)
	}
	inverse := uint64(1)
	for range 6 { // Newton: doubles the correct low bits from one
		inverse *= 2 - g*inverse
	}
	inverse %= m
	r := k.ctx.Ring()
	c := chain.Secret(r)
	turned := c.Batch(1, s.Limbs(), s.Domain())
	c.Do(func() error { return r.Automorphism(turned, s, inverse) })
	c.Do(func() error { key, err = k.switching(turned, s, "galois key", g); return err })
	if err := c.Close(); err != nil {
		return nil, err
	}
	return key, nil
}

// EvaluationKeys are the relinearisation key (if the parameters have special
// primes) and the Galois keys of the rotations and, if conjugate is set, of
// conjugation, with the id of the public key.
func (k *Key) EvaluationKeys(rotations []int, conjugate bool) (*henc.EvaluationKeys, error) {
	pk, err := k.PublicKey()
	if err != nil {
		return nil, err
	}
	p := k.ctx.Parameters()
	keys := &henc.EvaluationKeys{Galois: map[uint64]*henc.SwitchingKey{}, KeyID: pk.KeyID, Epoch: pk.Epoch}
	k.ctx.Ring().Free(pk.Value)
	if p.Alpha() == 0 {
		if len(rotations) > 0 || conjugate {
			return nil, fmt.Errorf(
				"evaluation keys: %w: %s has no special primes, so no rotations", henc.ErrParams, p.Name(),
			)
		}
		return keys, nil
	}
	if keys.Relin, err = k.RelinKey(); err != nil {
		return nil, err
	}
	var elements []uint64
	for _, rotation := range rotations {
		elements = append(elements, henc.GaloisElement(p, rotation))
	}
	if conjugate {
		elements = append(elements, henc.ConjugationElement(p))
	}
	if keys.Galois, err = k.GaloisKeys(elements); err != nil {
		return nil, err
	}
	return keys, nil
}

// switching makes the key from target to under: digit d is
// (-a_d*under + e_d + P*target on the primes of digit d, a_d).
func (k *Key) switching(under, target *cutrantt.Batch, label string, element uint64) (*henc.SwitchingKey, error) {
	p := k.ctx.Parameters()
	if p.Alpha() == 0 {
		return nil, fmt.Errorf("%w: %s has no special primes, so no key switching", henc.ErrParams, p.Name())
	}
	seed, value, err := k.uniformPairs(under, target, p.Dnum(p.MaxLevel()), label, element)
	if err != nil {
		return nil, err
	}
	return &henc.SwitchingKey{Value: value, Seed: seed}, nil
}

// shape is the moduli and the digits of a key.
type shape struct {
	limbs  []int
	own    int      // the first own limbs are cut into digits
	alpha  int      // limbs of a digit
	factor []uint32 // the product of the other limbs, modulo the first own
}

// full is the shape of every key but that of the sparse secret.
func (k *Key) full() shape {
	p := k.ctx.Parameters()
	return shape{p.QPLimbs(p.MaxLevel()), p.LimbsAt(p.MaxLevel()), p.Alpha(), specialProduct(p)}
}

// uniformPairs is pairs of the full shape.
func (k *Key) uniformPairs(
	under, target *cutrantt.Batch, count int, label string, element uint64,
) (*[32]byte, *cutrantt.Batch, error) {
	return k.pairs(k.full(), under, target, count, label, element)
}

// pairs makes count pairs (-a_d*under + e_d, a_d) over the limbs of the shape and, if
// target is not nil, adds factor*target on the primes of digit d to the first of pair
// d. under has these limbs, target at least the first own. The public seed of the a_d and the
// secret seed of the e_d are derived from the key's root under different labels, so neither
// tells about the other.
func (k *Key) pairs(
	g shape, under, target *cutrantt.Batch, count int, label string, element uint64,
) (*[32]byte, *cutrantt.Batch, error) {
	noise, err := k.root.Derive("hencedge noise of "+label, element)
	if err != nil {
		return nil, nil, err
	}
	defer noise.Wipe()
	public, err := k.root.Derive("hencedge uniform half of "+label, element)
	if err != nil {
		return nil, nil, err
	}
	seed := (*[32]byte)(public)
	taint.Public(seed[:])

	r := k.ctx.Ring()
	c := chain.Secret(r)
	value := c.Batch(2*count, g.limbs, k.ctx.Domain())
	e := c.Batch(1, g.limbs, cutrantt.Coeffs(k.ctx.N2()))
	var lifted *cutrantt.Batch // factor*target
	if target != nil {
		lifted = c.Batch(1, g.limbs[:g.own], k.ctx.Domain())
		c.Do(func() error { return r.MulScalar(lifted, c.View(target, 0, 1, 0, g.own), g.factor) })
	}
	for d := range count {
		b, a := c.Poly(value, 2*d), c.Poly(value, 2*d+1)
		c.Do(func() error { return keymat.UniformA(r, a, seed, keymat.LabelKeyA+uint32(d)) })
		c.Op3(r.Mul, b, a, under)
		c.Do(func() error { e.SetDomain(cutrantt.Coeffs(k.ctx.N2())); return nil })
		c.Sample(r.SampleCBD, e, (*[32]byte)(noise), keymat.LabelKeyE+uint32(d))
		c.Op2(r.Forward, e, e)
		c.Op3(r.Sub, b, e, b)
		if target != nil {
			lo, hi := d*g.alpha, min((d+1)*g.alpha, g.own)
			own := c.View(value, 2*d, 2*d+1, lo, hi)
			c.Op3(r.Add, own, own, c.View(lifted, 0, 1, lo, hi))
		}
	}
	kept, _ := c.Keep(value)
	if err := c.Close(); err != nil {
		return nil, nil, err
	}
	return seed, kept, nil
}

// specialProduct is P modulo every prime of Q.
func specialProduct(p henc.Parameters) []uint32 {
	var m, q big.Int
	product, out := p.PProduct(), make([]uint32, len(p.Q()))
	for i, v := range p.Q() {
		out[i] = uint32(m.Mod(product, q.SetUint64(uint64(v))).Uint64())
	}
	return out
}
