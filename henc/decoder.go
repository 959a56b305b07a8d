package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
)

// DecodeComplex returns the N/2 slots of pt. It fails with ErrDegree, ErrDomain,
// ErrLevel or ErrScale when pt is not a plaintext of the context, and with
// ErrMessage when a coefficient is beyond float64, as after decryption under a
// wrong key.
func (e *Encoder) DecodeComplex(pt *Plaintext) ([]complex128, error) {
	c, err := e.Coeffs(pt)
	if err != nil {
		return nil, err
	}
	defer clear(c)
	n := e.fft.Slots()
	for i := range c {
		c[i] /= pt.Scale
	}
	z := e.free.Get().(*slots)
	defer e.release(z)
	e.fft.ToSlots(z.re, z.im, c[:n], c[n:])
	values := make([]complex128, n)
	for i := range values {
		if !finite(z.re[i]) || !finite(z.im[i]) {
			clear(values)
			return nil, fmt.Errorf("%w: the value of slot %d is beyond float64; wrong key or overflow", ErrMessage, i)
		}
		values[i] = complex(z.re[i], z.im[i])
	}
	return values, nil
}

// DecodeReal returns the real parts of the N/2 slots.
func (e *Encoder) DecodeReal(pt *Plaintext) ([]float64, error) {
	slots, err := e.DecodeComplex(pt)
	if err != nil {
		return nil, err
	}
	defer clear(slots)
	r := make([]float64, len(slots))
	for i, v := range slots {
		r[i] = real(v)
	}
	return r, nil
}

// DecodePacked returns N values: value 2j is the real part of slot j and value
// 2j+1 its imaginary part.
func (e *Encoder) DecodePacked(pt *Plaintext) ([]float64, error) {
	slots, err := e.DecodeComplex(pt)
	if err != nil {
		return nil, err
	}
	defer clear(slots)
	r := make([]float64, 0, 2*len(slots))
	for _, v := range slots {
		r = append(r, real(v), imag(v))
	}
	return r, nil
}

// Coeffs returns the N coefficients of pt in natural order, centred in
// (-Q_level/2, Q_level/2): each is the exact integer, rounded once to float64. It
// fails like DecodeComplex. Its own working memory is wiped; the result is the
// caller's to wipe.
func (e *Encoder) Coeffs(pt *Plaintext) (coeffs []float64, err error) {
	if err := e.ctx.CheckPlaintext(pt); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	ring, limbs := e.ctx.ring, e.ctx.params.LimbsAt(pt.Level)
	tmp, err := ring.NewBatch(1, pt.Value.Limbs(), cutrantt.Coeffs(1))
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	defer func() {
		// The exact message is as secret as the key: with the ciphertext it
		// gives the key away (docs/sharing.md).
		if werr := ring.Wipe(tmp); werr != nil && err == nil {
			coeffs, err = nil, fmt.Errorf("decode: %w", werr)
		}
		ring.Free(tmp)
	}()
	if err := ring.Convert(tmp, pt.Value); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	residues := make([]uint32, tmp.Len())
	defer clear(residues)
	if err := ring.Download(residues, tmp); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	out := make([]float64, e.ctx.params.N())
	e.crt[limbs-1].Centred(out, residues)
	for i, v := range out {
		if !finite(v) {
			return nil, fmt.Errorf("%w: coefficient %d is beyond float64; wrong key or overflow", ErrMessage, i)
		}
	}
	return out, nil
}
