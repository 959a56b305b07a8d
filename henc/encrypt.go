package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/keymat"
)

// SlotEncryptor encrypts slot values; the public-key Encryptor and the seeded
// encryptor of henc/secret are the two kinds. scale 0 means the parameters'
// ScaleAt(level). seed is used up by the call (see Seed); nil draws a fresh one
// from the operating system.
type SlotEncryptor interface {
	// EncryptReal encrypts at most N/2 real values, one per slot; the rest are 0.
	EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)
	// EncryptComplex encrypts at most N/2 complex values, one per slot.
	EncryptComplex(values []complex128, level int, scale float64, seed *Seed) (*Ciphertext, error)
	// EncryptPacked encrypts at most N real values, two per slot: value 2j is the
	// real and 2j+1 the imaginary part of slot j.
	EncryptPacked(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)
}

// RealEncryptor is the part of SlotEncryptor that an agent with one real value
// per slot needs.
type RealEncryptor interface {
	EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)
}

// Encryptor encrypts under a public key with three forward transforms per limb
// (HENC). It is immutable and safe for concurrent use.
type Encryptor struct {
	ctx *Context
	op  cutrantt.Operand // (b, a) over the Q limbs
}

var _ SlotEncryptor = (*Encryptor)(nil)

// NewEncryptor prepares pk. It fails with ErrParams if pk is nil or of the wrong
// shape for ctx, and with cutrantt.ErrForeign if it was made in another context.
func NewEncryptor(ctx *Context, pk *PublicKey) (*Encryptor, error) {
	if ctx == nil || pk == nil {
		return nil, fmt.Errorf("new encryptor: %w: nil context or public key", ErrParams)
	}
	if err := checkKeyShape(ctx, pk.Value, 2); err != nil {
		return nil, fmt.Errorf("new encryptor: %w", err)
	}
	p := ctx.Parameters()
	v, err := pk.Value.Slice(0, 2, 0, p.LimbsAt(p.MaxLevel()))
	if err != nil {
		return nil, fmt.Errorf("new encryptor: %w", err)
	}
	op, err := ctx.Ring().Precompute(v)
	if err != nil {
		return nil, fmt.Errorf("new encryptor: %w", err)
	}
	return &Encryptor{ctx: ctx, op: op}, nil
}

// EncryptReal encrypts one real value per slot; see SlotEncryptor.
func (e *Encryptor) EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return e.slots().EncryptReal(values, level, scale, seed)
}

// EncryptComplex encrypts one complex value per slot; see SlotEncryptor.
func (e *Encryptor) EncryptComplex(values []complex128, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return e.slots().EncryptComplex(values, level, scale, seed)
}

// EncryptPacked encrypts two real values per slot; see SlotEncryptor.
func (e *Encryptor) EncryptPacked(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return e.slots().EncryptPacked(values, level, scale, seed)
}

func (e *Encryptor) slots() slotEncryptor {
	if e == nil {
		return slotEncryptor{}
	}
	return slotEncryptor{ctx: e.ctx, encrypt: e.Encrypt}
}

// Encrypt encrypts the polynomial with the N integral coefficients coeffs, each
// of magnitude below Q_level/2:
//
//	c0 = NTT(v)*b + NTT(m + e0),   c1 = NTT(v)*a + NTT(e1)
//
// with v uniform ternary and e0, e1 centred binomial (streams LabelV, LabelE0,
// LabelE1 of seed, see internal/keymat). Each small polynomial is drawn once and
// expanded over the limbs; adding e0 to m before the transform leaves three
// forward transforms per limb, and both products share v. Everything secret is
// wiped before the call returns, also when it fails.
func (e *Encryptor) Encrypt(coeffs []float64, level int, scale float64, seed *Seed) (ct *Ciphertext, err error) {
	if e == nil || e.ctx == nil {
		return nil, fmt.Errorf("encrypt: %w: encryptor not made by NewEncryptor", ErrParams)
	}
	scale, err = CheckMessage(e.ctx, coeffs, level, scale)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	secret, err := takeSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	defer secret.Wipe()

	r, p := e.ctx.Ring(), e.ctx.Parameters()
	limbs, n2 := p.QLimbs(level), e.ctx.N2()
	c := chain.Secret(r)
	defer func() {
		if cerr := c.Close(); cerr != nil {
			ct, err = nil, fmt.Errorf("encrypt: %w", cerr)
		}
	}()
	small := c.Batch(3, limbs, cutrantt.Coeffs(n2)) // v, m + e0, e1
	out := c.Batch(2, limbs, cutrantt.NTT(n2))
	m := c.Poly(small, 1)
	e0 := c.Poly(out, 0) // lent as scratch: the product overwrites it
	c.Sample(r.SampleTernary, c.Poly(small, 0), (*[32]byte)(secret), keymat.LabelV)
	c.Do(func() error { e0.SetDomain(cutrantt.Coeffs(n2)); return r.SetFloats(m, coeffs) })
	c.Sample(r.SampleCBD, e0, (*[32]byte)(secret), keymat.LabelE0)
	c.Op3(r.Add, m, m, e0)
	c.Sample(r.SampleCBD, c.Poly(small, 2), (*[32]byte)(secret), keymat.LabelE1)
	c.Op2(r.Forward, small, small)
	c.Do(func() error { return r.MulOperand(out, c.Poly(small, 0), e.op) })
	c.Op3(r.Add, out, out, c.View(small, 1, 3, 0, len(limbs)))
	v, err := c.Keep(out)
	if err != nil {
		return nil, err // wrapped by the deferred Close
	}
	return &Ciphertext{Value: v, Level: level, Scale: scale}, nil
}

// CheckMessage refuses what cannot be encrypted: an unknown level (ErrLevel), a
// scale outside [1, Q_level/2] (ErrScale), other than N coefficients, or one that
// is not integral or exceeds Q_level/2 in magnitude (ErrMessage). It returns the
// scale to use: scale itself, or ScaleAt(level) for 0.
func CheckMessage(ctx *Context, coeffs []float64, level int, scale float64) (float64, error) {
	if ctx == nil {
		return 0, fmt.Errorf("%w: nil context", ErrParams)
	}
	p := ctx.Parameters()
	if scale == 0 {
		scale = p.ScaleAt(level)
	}
	if err := p.CheckScale(level, scale); err != nil {
		return 0, err
	}
	if len(coeffs) != p.N() {
		return 0, fmt.Errorf("%w: %d coefficients, the ring degree is %d", ErrMessage, len(coeffs), p.N())
	}
	return scale, ctx.Encoder().CheckCoeffs(coeffs, level)
}

// takeSeed copies seed, or draws a fresh one for nil. The caller wipes the copy.
func takeSeed(seed *Seed) (*Seed, error) {
	if seed == nil {
		return NewSeed()
	}
	s := *seed
	return &s, nil
}
