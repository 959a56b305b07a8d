package henc

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/embed"
)

// releaseDecoding wipes d and gives it back.
func (e *Encoder) releaseDecoding(d *decoding) {
	clear(d.coeffs)
	clear(d.residues)
	e.decoding.Put(d)
}

// DecodeComplex returns the N/2 slots of pt. It fails with ErrDegree, ErrDomain,
// ErrLevel or ErrScale when pt is not a plaintext of the context, and with
// ErrMessage when a coefficient is beyond float64, as after decryption under a
// wrong key.
func (e *Encoder) DecodeComplex(pt *Plaintext) ([]complex128, error) {
	var values []complex128
	err := e.decode(pt, func(z *slots) {
		values = make([]complex128, len(z.re))
		for i, re := range z.re {
			values[i] = complex(re, z.im[i])
		}
	})
	return values, err
}

// DecodeReal returns the real parts of the N/2 slots.
func (e *Encoder) DecodeReal(pt *Plaintext) ([]float64, error) {
	var values []float64
	err := e.decode(pt, func(z *slots) { values = slices.Clone(z.re) })
	return values, err
}

// DecodePacked returns N values: value 2j is the real part of slot j and value
// 2j+1 its imaginary part.
func (e *Encoder) DecodePacked(pt *Plaintext) ([]float64, error) {
	var values []float64
	err := e.decode(pt, func(z *slots) {
		values = make([]float64, 2*len(z.re))
		for i, re := range z.re {
			values[2*i], values[2*i+1] = re, z.im[i]
		}
	})
	return values, err
}

// decode gives the slots of pt to take. It wipes all else.
func (e *Encoder) decode(pt *Plaintext, take func(z *slots)) error {
	if err := e.ready(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	d := e.decoding.Get().(*decoding)
	defer e.releaseDecoding(d)
	if err := e.coeffsOf(d, d.coeffs, pt); err != nil {
		return err
	}
	embed.Divide(d.coeffs, pt.Scale)
	z := e.free.Get().(*slots)
	defer e.release(z)
	n := e.fft.Slots()
	e.fft.ToSlots(z.re, z.im, d.coeffs[:n], d.coeffs[n:])
	if i := z.notFinite(); i >= 0 {
		return fmt.Errorf("%w: the value of slot %d is beyond float64; wrong key or overflow", ErrMessage, i)
	}
	take(z)
	return nil
}

// Coeffs returns the N coefficients of pt in natural order, centred in
// (-Q_level/2, Q_level/2): each is the exact integer, rounded once to float64. It
// fails like DecodeComplex. Its own working memory is wiped; the result is the
// caller's to wipe.
func (e *Encoder) Coeffs(pt *Plaintext) ([]float64, error) {
	if err := e.ready(); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	d := e.decoding.Get().(*decoding)
	defer e.releaseDecoding(d)
	out := make([]float64, len(d.coeffs))
	if err := e.coeffsOf(d, out, pt); err != nil {
		clear(out)
		return nil, err
	}
	return out, nil
}

// coeffsOf is Coeffs into out.
func (e *Encoder) coeffsOf(d *decoding, out []float64, pt *Plaintext) (err error) {
	if err := e.ctx.CheckPlaintext(pt); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	ring, limbs := e.ctx.ring, e.ctx.params.LimbsAt(pt.Level)
	tmp, err := ring.NewBatch(1, pt.Value.Limbs(), cutrantt.Coeffs(1))
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	defer func() {
		// The exact message is as secret as the key: with the ciphertext it
		// gives the key away (docs/sharing.md).
		if werr := ring.Wipe(tmp); werr != nil && err == nil {
			err = fmt.Errorf("decode: %w", werr)
		}
		ring.Free(tmp)
	}()
	if err := ring.Convert(tmp, pt.Value); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if len(d.residues) < tmp.Len() {
		d.residues = make([]uint32, tmp.Len())
	}
	residues := d.residues[:tmp.Len()]
	if err := ring.Download(residues, tmp); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	e.crt[limbs-1].Centred(out, residues)
	if !embed.Finite(out) {
		i := slices.IndexFunc(out, func(v float64) bool { return !finite(v) })
		return fmt.Errorf("%w: coefficient %d is beyond float64; wrong key or overflow", ErrMessage, i)
	}
	return nil
}
