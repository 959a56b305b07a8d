package bootstrap

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/hencedge/hencedge/henc"
)

// The sine s of 2*pi*x, for x = v/2^r, is taken back to v by a cubic. With y = |s| at most Y = sin(2*pi/2^r),
//
//	arcsin(y) = y + y^3/6 + 3*y^5/40 + ...
//
// and the term of degree 5 loses its largest part to the others through the Chebyshev polynomial
// T_5(t) = 16*t^5 - 20*t^3 + 5*t: with c1 = 1 - 3*Y^4/128 and c3 = 1/6 + 3*Y^2/32, c1*y + c3*y^3 is within
// 3*Y^5/640 + Y^7/20 of arcsin(y). Over v that is 2^-20.9 for r = 6.

// cubicLevels is what the correction takes.
const cubicLevels = 3

// mostRatio is log2 of the largest ratio of the modulus to the scale of such messages.
const mostRatio = 9

// cubic returns the coefficients of s and of s^3 for readings over ratio = 2^r.
func cubic(ratio float64) (c1, c3 float64) {
	y := math.Sin(2 * math.Pi / ratio)
	unit := ratio / (2 * math.Pi)
	return unit * (1 - 3*y*y*y*y/128), unit * (1.0/6 + 3*y*y/32)
}

// CoefficientSlot says where Coefficients puts coefficient i of a message: in which of the
// two ciphertexts, and in which slot.
func (pl *Plan) CoefficientSlot(i int) (half, slot int) {
	n := pl.Slots()
	if i < 0 || i >= 2*n {
		return 0, 0
	}
	return i / n, int(bits.Reverse64(uint64(i%n)) >> (64 - pl.lit.LogSlots))
}

// CoefficientLevel is the level of what Coefficients returns.
func (pl *Plan) CoefficientLevel() int { return max(pl.Level()-cubicLevels, 0) }

// Coefficients is bootstrapping without SlotsToCoeffs: the N coefficients of the message
// of ct, in units of its scale, come to the slots of two ciphertexts at CoefficientLevel, where CoefficientSlot
// says. Compact windows are such messages (henc/compact). ct is at level 0; its scale is the modulus over a
// ratio of 2^4 to 2^9. Slots of coefficients that used does not name are 0: these coefficients may
// be anything, and used has N entries. A used coefficient of magnitude 1 at most is exact up to
// (2*pi/ratio)^4/200 and the noise of the slots (docs/cryptography.md); one that is larger gives at most
// 1.2*ratio/(2*pi).
//
// It fails with henc.ErrParams for a plan whose slots repeat, or one that leaves fewer than three levels; with
// henc.ErrScale for another scale, henc.ErrLevel, henc.ErrMessage where used has another length, and henc.ErrNoKey.
func (b *Bootstrapper) Coefficients(ct *henc.Ciphertext, used []bool) ([2]*henc.Ciphertext, error) {
	out, err := b.CoefficientsOf(ct, used)
	if err != nil {
		return [2]*henc.Ciphertext{}, err
	}
	return out[0], nil
}

// CoefficientsOf is Coefficients for one or more sets of used coefficients, each with two ciphertexts of its own. A
// further set takes two products and two rescalings for each of them, but no bootstrapping.
func (b *Bootstrapper) CoefficientsOf(ct *henc.Ciphertext, used ...[]bool) ([][2]*henc.Ciphertext, error) {
	const op = "coefficients to slots"
	if b == nil || b.toDense == nil {
		return nil, fmt.Errorf("%s: %w: no bootstrapper", op, henc.ErrParams)
	}
	if n := b.plan.params.Slots(); b.plan.Slots() != n || b.plan.Level() < cubicLevels {
		return nil, fmt.Errorf("%s: %w: the plan has %d slots of %d, and level %d", op, henc.ErrParams, b.plan.Slots(),
			n, b.plan.Level())
	}
	if err := b.ctx.CheckCiphertext(ct); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if ct.Level != 0 {
		return nil, fmt.Errorf("%s: %w: the ciphertext is at level %d, not 0", op, henc.ErrLevel, ct.Level)
	}
	ratio := b.plan.modulus() / ct.Scale
	if !(ratio >= 1<<4 && ratio <= 1<<mostRatio) {
		return nil, fmt.Errorf("%s: %w: the modulus is 2^%.2f times the scale, it must be 2^4 to 2^%d", op,
			henc.ErrScale, math.Log2(ratio), mostRatio)
	}
	if len(used) == 0 {
		return nil, fmt.Errorf("%s: %w: no marks", op, henc.ErrMessage)
	}
	for _, set := range used {
		if len(set) != b.plan.params.N() {
			return nil, fmt.Errorf("%s: %w: %d marks for %d coefficients", op, henc.ErrMessage, len(set),
				b.plan.params.N())
		}
	}
	out, err := b.coefficients(ct, ratio, used)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

func (b *Bootstrapper) coefficients(
	ct *henc.Ciphertext, ratio float64, used [][]bool,
) ([][2]*henc.Ciphertext, error) {
	one, err := b.batch(1)
	if err != nil {
		return nil, err
	}
	low, err := one.Of([]*henc.Ciphertext{ct}, 0)
	if err != nil {
		return nil, err
	}
	sines, err := b.reduced(low)
	if err != nil {
		return nil, err
	}
	defer b.pair.Free(sines)
	out := make([][2]*henc.Ciphertext, len(used))
	for half := range 2 {
		corrected, err := b.correct(sines.At(half), ratio, b.masks(used, half))
		if err != nil {
			for _, o := range out {
				b.free(o[0])
			}
			return nil, fmt.Errorf("correction: %w", err)
		}
		for k, ct := range corrected {
			out[k][half] = ct
		}
	}
	return out, nil
}

// masks are 1 in the slots of one half that sets of used coefficients come to.
func (b *Bootstrapper) masks(used [][]bool, half int) [][]float64 {
	masks := make([][]float64, len(used))
	for k, set := range used {
		masks[k] = make([]float64, b.plan.params.Slots())
		for i, u := range set {
			if h, slot := b.plan.CoefficientSlot(i); u && h == half {
				masks[k][slot] = 1
			}
		}
	}
	return masks
}

// correct is mask*(c1*y + c3*y^3) for each mask, three levels below y, by the sum of c1*mask*y and (c3*mask*y)*y^2. The
// mask takes no level of its own.
//
// The scales: f at the end, f*R for the sum before the last rescaling by R. The factors y^2 and c3*mask*y have half
// and twice its root: what is rounded in the second is multiplied by y^2, which is near 1 where a coefficient may be
// anything, and in the first by less than 1/4.
func (b *Bootstrapper) correct(y *henc.Ciphertext, ratio float64, masks [][]float64) ([]*henc.Ciphertext, error) {
	p, level := b.plan.params, y.Level-2
	end := p.ScaleAt(level - 1)
	sum := end * p.RescaleFactor(level)
	small, square, err := b.square(y, math.Sqrt(sum)/2)
	if err != nil {
		return nil, err
	}
	defer b.free(small)
	defer b.free(square)
	low, err := b.ev.DropLevel(y, 1)
	if err != nil {
		return nil, err
	}
	defer b.free(low)
	var out []*henc.Ciphertext
	for _, mask := range masks {
		ct, err := b.correctOne(low, small, square, ratio, mask, sum)
		if err != nil {
			for _, o := range out {
				b.free(o)
			}
			return nil, err
		}
		out = append(out, ct.WithScale(end))
	}
	return out, nil
}

// correctOne is correct for a mask. y is one level above its square, and small is y at a smaller scale, for which masks
// are finer. sum is the scale before the last rescaling.
func (b *Bootstrapper) correctOne(
	y, small, square *henc.Ciphertext, ratio float64, mask []float64, sum float64,
) (*henc.Ciphertext, error) {
	c1, c3 := cubic(ratio)
	cube, err := b.masked(small, c3, mask, sum/square.Scale)
	if err != nil {
		return nil, err
	}
	defer b.free(cube)
	if cube, err = b.ev.Mul(cube, square); err != nil {
		return nil, err
	}
	defer b.free(cube)
	linear, err := b.masked(y, c1, mask, sum)
	if err != nil {
		return nil, err
	}
	defer b.free(linear)
	all, err := b.ev.Add(linear, cube.WithScale(sum))
	if err != nil {
		return nil, err
	}
	defer b.free(all)
	return b.ev.Rescale(all)
}

// square is y one level below, and of that the square one level further down, near the scale.
func (b *Bootstrapper) square(y *henc.Ciphertext, scale float64) (small, square *henc.Ciphertext, err error) {
	p := b.plan.params
	root := math.Sqrt(scale * p.RescaleFactor(y.Level-1))
	factor := math.Exp2(math.Round(math.Log2(root * p.RescaleFactor(y.Level) / y.Scale)))
	large, err := b.ev.MulConst(y, 1, factor)
	if err != nil {
		return nil, nil, err
	}
	defer b.free(large)
	if small, err = b.ev.Rescale(large); err != nil {
		return nil, nil, err
	}
	if square, err = b.ev.MulRescale(small, small); err != nil {
		b.free(small)
		return nil, nil, err
	}
	return small, square, nil
}

// masked is v*mask*y, rescaled, at the scale.
func (b *Bootstrapper) masked(y *henc.Ciphertext, v float64, mask []float64, scale float64) (*henc.Ciphertext, error) {
	values := make([]float64, len(mask))
	for i, m := range mask {
		values[i] = v * m
	}
	pt, err := b.ctx.Encoder().EncodeReal(values, y.Level, scale*b.plan.params.RescaleFactor(y.Level)/y.Scale)
	if err != nil {
		return nil, err
	}
	defer b.ctx.Ring().Free(pt.Value)
	product, err := b.ev.MulPlain(y, pt)
	if err != nil {
		return nil, err
	}
	defer b.free(product)
	out, err := b.ev.Rescale(product)
	if err != nil {
		return nil, err
	}
	return out.WithScale(scale), nil
}
