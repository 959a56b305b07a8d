package henc

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// slotEncryptor gives the slot-wise methods to an encryptor of coefficients. The
// zero value refuses everything.
type slotEncryptor struct {
	ctx     *Context
	encrypt func(coeffs [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)
}

// NewSlotEncryptor adds the slot-wise methods to encrypt, which takes the N
// integral coefficients of each encoded message. It is for package henc/secret.
func NewSlotEncryptor(ctx *Context, encrypt func(coeffs [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)) BatchEncryptor {
	return slotEncryptor{ctx: ctx, encrypt: encrypt}
}

// EncryptReal encrypts one real value per slot; see SlotEncryptor.
func (s slotEncryptor) EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return one(s.EncryptRealBatch([][]float64{values}, level, scale, []*Seed{seed}))
}

// EncryptComplex encrypts one complex value per slot; see SlotEncryptor.
func (s slotEncryptor) EncryptComplex(values []complex128, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return one(s.EncryptComplexBatch([][]complex128{values}, level, scale, []*Seed{seed}))
}

// EncryptPacked encrypts two real values per slot; see SlotEncryptor.
func (s slotEncryptor) EncryptPacked(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return one(s.EncryptPackedBatch([][]float64{values}, level, scale, []*Seed{seed}))
}

// EncryptRealBatch encrypts several vectors; see BatchEncryptor.
func (s slotEncryptor) EncryptRealBatch(values [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error) {
	return s.encoded(len(values), level, scale, seeds, func(i int, scale float64) ([]float64, error) {
		return s.ctx.Encoder().EncodeCoeffsReal(values[i], scale)
	})
}

// EncryptComplexBatch encrypts several vectors; see BatchEncryptor.
func (s slotEncryptor) EncryptComplexBatch(values [][]complex128, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error) {
	return s.encoded(len(values), level, scale, seeds, func(i int, scale float64) ([]float64, error) {
		return s.ctx.Encoder().EncodeCoeffs(values[i], scale)
	})
}

// EncryptPackedBatch encrypts several vectors; see BatchEncryptor.
func (s slotEncryptor) EncryptPackedBatch(values [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error) {
	return s.encoded(len(values), level, scale, seeds, func(i int, scale float64) ([]float64, error) {
		return s.ctx.Encoder().EncodeCoeffsPacked(values[i], scale)
	})
}

// encoded encodes count messages, on several cores, and encrypts them.
func (s slotEncryptor) encoded(count, level int, scale float64, seeds []*Seed, encode func(i int, scale float64) ([]float64, error)) ([]*Ciphertext, error) {
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
	coeffs, errs := make([][]float64, count), make([]error, count)
	defer func() {
		for _, c := range coeffs {
			s.ctx.Encoder().recycle(c)
		}
	}()
	spread(count, func(i int) { coeffs[i], errs[i] = encode(i, scale) })
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("encrypt: %w", inBatch(err, i, count))
		}
	}
	return s.encrypt(coeffs, level, scale, seeds)
}

// spread calls f for 0, 1, ..., count-1 on as many cores as there are.
func spread(count int, f func(i int)) {
	if count == 1 {
		f(0)
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(count, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	all.Wait()
}
