package lattigo

import (
	"fmt"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/ring/ringqp"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Keys have the same form on both sides, residue for residue, once the order of
// the transform is converted: (-a*s + e, a) over QP for a public key, and for
// digit d of a switching key (-a_d*s + e_d + g_d*t, a_d), g_d = P modulo the
// primes of digit d and 0 elsewhere, digit d being primes d*len(P) up to
// (d+1)*len(P)-1 of Q. The relinearisation key has t = s^2. Both libraries rotate
// by switching first and permuting afterwards, so the Galois key of element g
// switches from s to phi_(1/g)(s). Lattigo keeps keys in Montgomery form.

// PublicKeyToLattigo converts a public key.
func (b *Bridge) PublicKeyToLattigo(pk *henc.PublicKey) (*rlwe.PublicKey, error) {
	if pk == nil {
		return nil, fmt.Errorf("public key to lattigo: %w: nil key", ErrObject)
	}
	polys, err := b.exportKey(pk.Value, 2)
	if err != nil {
		return nil, fmt.Errorf("public key to lattigo: %w", err)
	}
	return &rlwe.PublicKey{Value: rlwe.VectorQP{b.join(polys[0]), b.join(polys[1])}}, nil
}

// PublicKeyFromLattigo is the inverse of PublicKeyToLattigo. The key id is
// computed; the epoch is 0 and may be set before first use.
func (b *Bridge) PublicKeyFromLattigo(pk *rlwe.PublicKey) (*henc.PublicKey, error) {
	if pk == nil || len(pk.Value) != 2 {
		return nil, fmt.Errorf("public key from lattigo: %w: want two polynomials", ErrObject)
	}
	batch, err := b.load([]limbs{split(pk.Value[0]), split(pk.Value[1])}, b.allLimbs(), true)
	if err != nil {
		return nil, fmt.Errorf("public key from lattigo: %w", err)
	}
	id, err := henc.ComputeKeyID(b.ctx, batch, nil)
	if err != nil {
		return nil, fmt.Errorf("public key from lattigo: %w", err)
	}
	return &henc.PublicKey{Value: batch, KeyID: id}, nil
}

// RelinearizationKeyToLattigo converts a relinearisation key.
func (b *Bridge) RelinearizationKeyToLattigo(k *henc.SwitchingKey) (*rlwe.RelinearizationKey, error) {
	g, err := b.gadgetToLattigo(k)
	if err != nil {
		return nil, fmt.Errorf("relinearisation key to lattigo: %w", err)
	}
	return &rlwe.RelinearizationKey{EvaluationKey: rlwe.EvaluationKey{GadgetCiphertext: *g}}, nil
}

// RelinearizationKeyFromLattigo is the inverse of RelinearizationKeyToLattigo.
func (b *Bridge) RelinearizationKeyFromLattigo(k *rlwe.RelinearizationKey) (*henc.SwitchingKey, error) {
	if k == nil {
		return nil, fmt.Errorf("relinearisation key from lattigo: %w: nil key", ErrObject)
	}
	out, err := b.gadgetFromLattigo(&k.GadgetCiphertext)
	if err != nil {
		return nil, fmt.Errorf("relinearisation key from lattigo: %w", err)
	}
	return out, nil
}

// GaloisKeyToLattigo converts the Galois key of element g, odd in [1, 2N).
func (b *Bridge) GaloisKeyToLattigo(g uint64, k *henc.SwitchingKey) (*rlwe.GaloisKey, error) {
	if err := b.checkElement(g); err != nil {
		return nil, fmt.Errorf("galois key to lattigo: %w", err)
	}
	gct, err := b.gadgetToLattigo(k)
	if err != nil {
		return nil, fmt.Errorf("galois key %d to lattigo: %w", g, err)
	}
	return &rlwe.GaloisKey{
		GaloisElement: g,
		NthRoot:       b.params.RingQ().NthRoot(),
		EvaluationKey: rlwe.EvaluationKey{GadgetCiphertext: *gct},
	}, nil
}

// GaloisKeyFromLattigo is the inverse of GaloisKeyToLattigo; it returns the
// Galois element too.
func (b *Bridge) GaloisKeyFromLattigo(k *rlwe.GaloisKey) (uint64, *henc.SwitchingKey, error) {
	if k == nil {
		return 0, nil, fmt.Errorf("galois key from lattigo: %w: nil key", ErrObject)
	}
	if err := b.checkElement(k.GaloisElement); err != nil {
		return 0, nil, fmt.Errorf("galois key from lattigo: %w", err)
	}
	out, err := b.gadgetFromLattigo(&k.GadgetCiphertext)
	if err != nil {
		return 0, nil, fmt.Errorf("galois key %d from lattigo: %w", k.GaloisElement, err)
	}
	return k.GaloisElement, out, nil
}

// EvaluationKeysToLattigo converts whatever keys are present.
func (b *Bridge) EvaluationKeysToLattigo(keys *henc.EvaluationKeys) (*rlwe.MemEvaluationKeySet, error) {
	if keys == nil {
		return nil, fmt.Errorf("evaluation keys to lattigo: %w: nil keys", ErrObject)
	}
	out := rlwe.NewMemEvaluationKeySet(nil)
	if keys.Relin != nil {
		rlk, err := b.RelinearizationKeyToLattigo(keys.Relin)
		if err != nil {
			return nil, err
		}
		out.RelinearizationKey = rlk
	}
	for g, k := range keys.Galois {
		gk, err := b.GaloisKeyToLattigo(g, k)
		if err != nil {
			return nil, err
		}
		out.GaloisKeys[g] = gk
	}
	return out, nil
}

// EvaluationKeysFromLattigo converts whatever keys are present. pk names the
// public key of the same secret, whose id and epoch the result carries; it may
// be nil, then both are zero.
func (b *Bridge) EvaluationKeysFromLattigo(set *rlwe.MemEvaluationKeySet,
	pk *henc.PublicKey) (*henc.EvaluationKeys, error) {
	if set == nil {
		return nil, fmt.Errorf("evaluation keys from lattigo: %w: nil keys", ErrObject)
	}
	out := &henc.EvaluationKeys{Galois: make(map[uint64]*henc.SwitchingKey, len(set.GaloisKeys))}
	if pk != nil {
		out.KeyID, out.Epoch = pk.KeyID, pk.Epoch
	}
	if set.RelinearizationKey != nil {
		k, err := b.RelinearizationKeyFromLattigo(set.RelinearizationKey)
		if err != nil {
			return nil, err
		}
		out.Relin = k
	}
	for _, gk := range set.GaloisKeys {
		g, k, err := b.GaloisKeyFromLattigo(gk)
		if err != nil {
			return nil, err
		}
		out.Galois[g] = k
	}
	return out, nil
}

// gadgetToLattigo converts the digits of a switching key.
func (b *Bridge) gadgetToLattigo(k *henc.SwitchingKey) (*rlwe.GadgetCiphertext, error) {
	if k == nil {
		return nil, fmt.Errorf("%w: nil key", ErrObject)
	}
	if err := b.checkDigits(); err != nil {
		return nil, err
	}
	p := b.ctx.Parameters()
	polys, err := b.exportKey(k.Value, 2*p.Dnum(p.MaxLevel()))
	if err != nil {
		return nil, err
	}
	out := &rlwe.GadgetCiphertext{Value: make([][]rlwe.VectorQP, len(polys)/2)}
	for d := range out.Value {
		out.Value[d] = []rlwe.VectorQP{{b.join(polys[2*d]), b.join(polys[2*d+1])}}
	}
	return out, nil
}

// gadgetFromLattigo is the inverse of gadgetToLattigo.
func (b *Bridge) gadgetFromLattigo(g *rlwe.GadgetCiphertext) (*henc.SwitchingKey, error) {
	if err := b.checkDigits(); err != nil {
		return nil, err
	}
	p := b.ctx.Parameters()
	if g.BaseTwoDecomposition != 0 {
		return nil, fmt.Errorf("%w: key with a base-two decomposition", ErrObject)
	}
	if want := p.Dnum(p.MaxLevel()); len(g.Value) != want {
		return nil, fmt.Errorf("%w: key with %d digits, %s has %d", ErrObject, len(g.Value), p.Name(), want)
	}
	var polys []limbs
	for d, digit := range g.Value {
		if len(digit) != 1 || len(digit[0]) != 2 {
			return nil,
				fmt.Errorf("%w: digit %d is not a pair of polynomials (a compressed key must be expanded first)",
					ErrObject, d)
		}
		polys = append(polys, split(digit[0][0]), split(digit[0][1]))
	}
	batch, err := b.load(polys, b.allLimbs(), true)
	if err != nil {
		return nil, err
	}
	return &henc.SwitchingKey{Value: batch}, nil
}

// checkDigits refuses parameters whose key-switching digits Lattigo would cut
// elsewhere: its digits always have len(P) primes.
func (b *Bridge) checkDigits() error {
	p := b.ctx.Parameters()
	switch n := len(p.P()); {
	case n == 0:
		return fmt.Errorf("%w: %s", ErrNoSpecialPrimes, p.Name())
	case n != p.Alpha():
		return fmt.Errorf("%w: %s has %d primes per digit and %d special primes, Lattigo needs as many", ErrObject,
			p.Name(), p.Alpha(), n)
	}
	return nil
}

func (b *Bridge) checkElement(g uint64) error {
	if g&1 == 0 || g >= b.params.RingQ().NthRoot() {
		return fmt.Errorf("%w: galois element %d is not odd and below %d", ErrObject, g, b.params.RingQ().NthRoot())
	}
	return nil
}

// allLimbs are the moduli of keys: Q at the top level, then P.
func (b *Bridge) allLimbs() []int {
	p := b.ctx.Parameters()
	return p.QPLimbs(p.MaxLevel())
}

// exportKey exports polys polynomials over QP in Montgomery form.
func (b *Bridge) exportKey(batch *cutrantt.Batch, polys int) ([]limbs, error) {
	want := b.allLimbs()
	if batch == nil || batch.Polys() != polys || len(batch.Limbs()) != len(want) || batch.N() != b.params.N() {
		return nil, fmt.Errorf("%w: want %d polynomials over the %d primes of %s", ErrObject, polys, len(want),
			b.ctx.Parameters().Name())
	}
	for i, m := range batch.Limbs() {
		if m != want[i] {
			return nil, fmt.Errorf("%w: limb %d is modulus %d, want %d", ErrObject, i, m, want[i])
		}
	}
	return b.export(batch, true)
}

// join makes Lattigo's pair of polynomials from the limbs of Q and then P.
func (b *Bridge) join(l limbs) ringqp.Poly {
	nq := b.params.QCount()
	out := ringqp.Poly{Q: ring.Poly{Coeffs: l[:nq:nq]}}
	if len(l) > nq {
		out.P = ring.Poly{Coeffs: l[nq:]}
	}
	return out
}

// split is the inverse of join.
func split(p ringqp.Poly) limbs {
	return append(append(limbs(nil), p.Q.Coeffs...), p.P.Coeffs...)
}
