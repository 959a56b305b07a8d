package henc

import (
	"fmt"
	"math"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/embed"
	"github.com/hencedge/hencedge/internal/taint"
)

// EncodingError bounds the float64 error of one encoding or decoding with N =
// 2^logN, as root mean square over the slots relative to that of the values:
// 8*(logN-1)*2^-53 for the transform and 2^-52 for scaling.
func EncodingError(logN int) float64 { return float64(8*(logN-1)+2) * 0x1p-53 }

// EncodeComplex encodes at most N/2 values, one to a slot; the other slots are 0.
// It fails with ErrMessage for too many values, for NaN or infinities and where a
// coefficient would exceed Q_level/2, and with ErrLevel or ErrScale.
func (e *Encoder) EncodeComplex(values []complex128, level int, scale float64) (*Plaintext, error) {
	return e.encode(level, scale, nil, func() ([]float64, error) { return e.EncodeCoeffs(values, scale) })
}

// EncodeReal is EncodeComplex with imaginary parts 0.
func (e *Encoder) EncodeReal(values []float64, level int, scale float64) (*Plaintext, error) {
	return e.encode(level, scale, nil, func() ([]float64, error) { return e.EncodeCoeffsReal(values, scale) })
}

// EncodePacked encodes at most N values, two to a slot: value 2j is the real part
// of slot j and value 2j+1 its imaginary part. Sums and plaintext multiples act on
// both parts; products of packed slots mix them.
func (e *Encoder) EncodePacked(values []float64, level int, scale float64) (*Plaintext, error) {
	return e.encode(level, scale, nil, func() ([]float64, error) { return e.EncodeCoeffsPacked(values, scale) })
}

// encode makes a plaintext over limbs, nil for those of the level.
func (e *Encoder) encode(
	level int, scale float64, limbs []int, coeffs func() ([]float64, error),
) (*Plaintext, error) {
	if err := e.ready(); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if err := e.ctx.params.CheckScale(level, scale); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	c, err := coeffs()
	if err != nil {
		return nil, err
	}
	defer embed.PutCoeffs(c)
	return e.fromCoeffs(c, level, scale, limbs)
}

// EncodeCoeffs returns the N integral coefficients, in natural order, of the
// polynomial that holds values at the given scale (encryption adds its noise to
// them before the transform). It fails with ErrMessage like EncodeComplex, except
// that no level limits the size, and with ErrScale unless scale is finite and at
// least 1.
func (e *Encoder) EncodeCoeffs(values []complex128, scale float64) ([]float64, error) {
	return e.coeffs(len(values), 1, "complex", scale, func(z *slots) {
		for i, v := range values {
			z.re[i], z.im[i] = real(v), imag(v)
		}
	})
}

// EncodeCoeffsReal is EncodeCoeffs for real slots.
func (e *Encoder) EncodeCoeffsReal(values []float64, scale float64) ([]float64, error) {
	return e.coeffs(len(values), 1, "real", scale, func(z *slots) { copy(z.re, values) })
}

// EncodeCoeffsPacked is EncodeCoeffs for two reals per slot.
func (e *Encoder) EncodeCoeffsPacked(values []float64, scale float64) ([]float64, error) {
	return e.coeffs(len(values), 2, "packed", scale, func(z *slots) {
		for i, v := range values {
			if i%2 == 0 {
				z.re[i/2] = v
			} else {
				z.im[i/2] = v
			}
		}
	})
}

// Embedding returns what EncodeCoeffsReal (each = 1) and EncodeCoeffsPacked (each = 2) do to
// values, for rings that do it themselves (cutrantt.Encoding). It is nil for an encoder that no
// context made.
func (e *Encoder) Embedding(each int, scale float64) *cutrantt.Embedding {
	if e.ready() != nil {
		return nil
	}
	return &cutrantt.Embedding{Roots: e.fft.Roots(), Scale: scale, Each: each}
}

// release wipes z and gives it back.
func (e *Encoder) release(z *slots) {
	clear(z.re)
	clear(z.im)
	e.free.Put(z)
}

// coeffs encodes the slots, each of at most so many values, that fill writes into
// zeros.
func (e *Encoder) coeffs(have, each int, what string, scale float64, fill func(z *slots)) ([]float64, error) {
	if err := e.ready(); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if most := each * e.fft.Slots(); have > most {
		return nil, fmt.Errorf("%w: %d %s values, %q holds %d", ErrMessage, have, what, e.ctx.params.Name(), most)
	}
	if !(scale >= 1) || math.IsInf(scale, 0) {
		return nil, fmt.Errorf("encode: %w: %g is not a finite number of at least 1", ErrScale, scale)
	}
	z := e.free.Get().(*slots)
	defer e.release(z)
	fill(z)
	if i := z.notFinite(); i >= 0 {
		return nil, fmt.Errorf("%w: the value of slot %d is not finite", ErrMessage, i)
	}
	n := len(z.re)
	c := embed.GetCoeffs(2 * n)
	e.fft.FromSlots(c[:n], c[n:], z.re, z.im)
	embed.ScaleRound(c, scale)
	if _, ok := embed.Magnitude(c); !ok {
		for i, v := range c {
			if !finite(v) {
				embed.PutCoeffs(c)
				return nil, fmt.Errorf(
					"%w: coefficient %d overflows float64 at scale %g; use smaller values or a smaller scale",
					ErrMessage, i, scale,
				)
			}
		}
	}
	return c, nil
}

// CheckCoeffs returns the largest magnitude of coeffs. It fails with ErrMessage unless
// there are at most N of them, all integral and at most Q_level/2 in magnitude.
func (e *Encoder) CheckCoeffs(coeffs []float64, level int) (largest float64, err error) {
	if err := e.ready(); err != nil {
		return 0, err
	}
	if err := e.ctx.params.CheckLevel(level); err != nil {
		return 0, err
	}
	if n := e.ctx.params.N(); len(coeffs) > n {
		return 0, fmt.Errorf("%w: %d coefficients, %q holds %d", ErrMessage, len(coeffs), e.ctx.params.Name(), n)
	}
	limit := e.ctx.params.d.maxCoeff[level]
	largest, ok := embed.Magnitude(coeffs)
	if ok && taint.Outcome(largest <= limit) {
		return largest, nil
	}
	for i, c := range coeffs {
		if !finite(c) || c != math.Trunc(c) {
			return 0, fmt.Errorf("%w: coefficient %d is not an integer", ErrMessage, i)
		}
		if math.Abs(c) > limit {
			return 0, fmt.Errorf("%w: coefficient %d has magnitude 2^%.1f, the modulus of level %d holds 2^%.1f; use "+
				"smaller values, a smaller scale or a higher level",
				ErrMessage, i, math.Log2(math.Abs(c)), level, e.ctx.params.LogQ(level)-1)
		}
	}
	return largest, nil
}

// FromCoeffs makes a plaintext from at most N integral coefficients in natural
// order; missing ones are 0. It fails as CheckCoeffs, or with ErrLevel or ErrScale.
func (e *Encoder) FromCoeffs(coeffs []float64, level int, scale float64) (*Plaintext, error) {
	return e.fromCoeffs(coeffs, level, scale, nil)
}

// fromCoeffs is FromCoeffs over limbs, nil for those of the level.
func (e *Encoder) fromCoeffs(coeffs []float64, level int, scale float64, limbs []int) (*Plaintext, error) {
	if _, err := e.CheckCoeffs(coeffs, level); err != nil {
		return nil, err
	}
	if n := e.ctx.params.N(); len(coeffs) < n {
		coeffs = append(make([]float64, 0, n), coeffs...)[:n]
	}
	if err := e.ctx.params.CheckScale(level, scale); err != nil {
		return nil, err
	}
	if limbs == nil {
		limbs = e.ctx.params.QLimbs(level)
	}
	value, err := cutrantt.NewResult(e.ctx.ring, 1, limbs, cutrantt.Coeffs(e.ctx.n2))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	pt := &Plaintext{Value: value, Level: level, Scale: scale}
	if err := e.ctx.ring.SetFloats(pt.Value, coeffs); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if err := e.ctx.ring.Forward(pt.Value, pt.Value); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return pt, nil
}
