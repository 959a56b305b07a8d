package henc

import "fmt"

// slotEncryptor gives the slot-wise methods to an encryptor of coefficients. The
// zero value refuses everything.
type slotEncryptor struct {
	ctx     *Context
	encrypt func(coeffs []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)
}

// NewSlotEncryptor adds the slot-wise methods to encrypt, which takes the N
// integral coefficients of an encoded message. It is for package henc/secret.
func NewSlotEncryptor(ctx *Context, encrypt func(coeffs []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)) SlotEncryptor {
	return slotEncryptor{ctx: ctx, encrypt: encrypt}
}

// EncryptReal encrypts one real value per slot; see SlotEncryptor.
func (s slotEncryptor) EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return s.encoded(level, scale, seed, func(scale float64) ([]float64, error) {
		return s.ctx.Encoder().EncodeCoeffsReal(values, scale)
	})
}

// EncryptComplex encrypts one complex value per slot; see SlotEncryptor.
func (s slotEncryptor) EncryptComplex(values []complex128, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return s.encoded(level, scale, seed, func(scale float64) ([]float64, error) {
		return s.ctx.Encoder().EncodeCoeffs(values, scale)
	})
}

// EncryptPacked encrypts two real values per slot; see SlotEncryptor.
func (s slotEncryptor) EncryptPacked(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return s.encoded(level, scale, seed, func(scale float64) ([]float64, error) {
		return s.ctx.Encoder().EncodeCoeffsPacked(values, scale)
	})
}

func (s slotEncryptor) encoded(level int, scale float64, seed *Seed, encode func(scale float64) ([]float64, error)) (*Ciphertext, error) {
	if s.ctx == nil || s.encrypt == nil {
		return nil, fmt.Errorf("encrypt: %w: encryptor not made by its constructor", ErrParams)
	}
	p := s.ctx.Parameters()
	if scale == 0 {
		scale = p.ScaleAt(level)
	}
	if err := p.CheckScale(level, scale); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	coeffs, err := encode(scale)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	defer clear(coeffs)
	return s.encrypt(coeffs, level, scale, seed)
}
