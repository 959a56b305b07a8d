package secret

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/keymat"
)

// SeededEncryptor encrypts under the secret key itself: one transform and one
// product per limb, half the bytes on the wire (c1 travels as a 32-byte seed),
// and less noise than under the public key. It puts the secret key on the device
// that encrypts. It is safe for concurrent use.
type SeededEncryptor struct {
	ctx *henc.Context
	key *Key
}

var _ henc.SlotEncryptor = (*SeededEncryptor)(nil)

// NewSeededEncryptor makes an encryptor; k must belong to ctx.
func NewSeededEncryptor(ctx *henc.Context, k *Key) *SeededEncryptor {
	return &SeededEncryptor{ctx: ctx, key: k}
}

// EncryptReal encrypts one real value per slot; see henc.SlotEncryptor.
func (e *SeededEncryptor) EncryptReal(values []float64, level int, scale float64, seed *henc.Seed) (*henc.Ciphertext, error) {
	return e.slots().EncryptReal(values, level, scale, seed)
}

// EncryptComplex encrypts one complex value per slot; see henc.SlotEncryptor.
func (e *SeededEncryptor) EncryptComplex(values []complex128, level int, scale float64, seed *henc.Seed) (*henc.Ciphertext, error) {
	return e.slots().EncryptComplex(values, level, scale, seed)
}

// EncryptPacked encrypts two real values per slot; see henc.SlotEncryptor.
func (e *SeededEncryptor) EncryptPacked(values []float64, level int, scale float64, seed *henc.Seed) (*henc.Ciphertext, error) {
	return e.slots().EncryptPacked(values, level, scale, seed)
}

func (e *SeededEncryptor) slots() henc.SlotEncryptor {
	if e == nil {
		return henc.NewSlotEncryptor(nil, nil)
	}
	return henc.NewSlotEncryptor(e.ctx, e.Encrypt)
}

// Encrypt encrypts the polynomial with the N integral coefficients coeffs, each
// of magnitude at most Q_level/2, as c0 = NTT(m + e) - c1*s with c1 the uniform
// stream henc.LabelCipherA of a public seed, which the ciphertext carries. The
// public seed and the secret seed of e come from seed by HKDF under different
// labels: neither determines the other, and two seeds never share a c1. scale 0
// means ScaleAt(level); a nil seed draws a fresh one.
func (e *SeededEncryptor) Encrypt(coeffs []float64, level int, scale float64, seed *henc.Seed) (*henc.Ciphertext, error) {
	ct, err := e.encrypt(coeffs, level, scale, seed)
	if err != nil {
		return nil, fmt.Errorf("seeded encryption: %w", err)
	}
	return ct, nil
}

func (e *SeededEncryptor) encrypt(coeffs []float64, level int, scale float64, seed *henc.Seed) (*henc.Ciphertext, error) {
	if e == nil || e.ctx == nil {
		return nil, fmt.Errorf("%w: encryptor without a context", henc.ErrParams)
	}
	scale, err := henc.CheckMessage(e.ctx, coeffs, level, scale)
	if err != nil {
		return nil, err
	}
	s, release, err := e.key.in(e.ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	public, noise, err := splitSeed(seed)
	if err != nil {
		return nil, err
	}
	defer noise.Wipe()

	r, limbs, n2 := e.ctx.Ring(), e.ctx.Parameters().QLimbs(level), e.ctx.N2()
	c := chain.Secret(r)
	m := c.Batch(1, limbs, cutrantt.Coeffs(n2))
	out := c.Batch(2, limbs, cutrantt.NTT(n2))
	c0, c1, e0 := c.Poly(out, 0), c.Poly(out, 1), c.Poly(out, 0)
	c.Do(func() error { return r.SetFloats(m, coeffs) })
	c.Do(func() error { e0.SetDomain(cutrantt.Coeffs(n2)); return nil }) // c0's memory, lent as scratch
	c.Sample(r.SampleCBD, e0, (*[32]byte)(noise), keymat.LabelE0)
	c.Op3(r.Add, m, m, e0)
	c.Op2(r.Forward, m, m)
	c.Sample(r.SampleUniform, c1, (*[32]byte)(public), henc.LabelCipherA)
	c.Op3(r.Mul, c0, c1, c.View(s, 0, 1, 0, len(limbs)))
	c.Op3(r.Sub, c0, m, c0)
	v, _ := c.Keep(out)
	if err := c.Close(); err != nil {
		return nil, err
	}
	return &henc.Ciphertext{Value: v, Level: level, Scale: scale, Seed: (*[32]byte)(public)}, nil
}

// splitSeed derives the public seed of c1 and the secret seed of the noise.
func splitSeed(seed *henc.Seed) (public, noise *henc.Seed, err error) {
	if seed == nil {
		fresh, err := henc.NewSeed()
		if err != nil {
			return nil, nil, err
		}
		defer fresh.Wipe()
		seed = fresh
	}
	if public, err = seed.Derive("hencedge seeded c1"); err != nil {
		return nil, nil, err
	}
	if noise, err = seed.Derive("hencedge seeded noise"); err != nil {
		return nil, nil, err
	}
	return public, noise, nil
}
