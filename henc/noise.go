package henc

import (
	"math"

	"github.com/hencedge/hencedge/cutrantt/prng"
)

// NoiseModel predicts the error that each step adds. Every value is the standard
// deviation of the error of the real part of one slot (the imaginary part has the
// same), in message units at the scale given.
//
// All formulas come from one observation. An error polynomial with independent
// coefficients of variance V has, in the real part of each slot, the error
// sum e_k*cos(...), of variance V*N/2. So a standard deviation sqrt(V) of the
// coefficients at scale S is
//
//	sqrt(V*N/2)/S
//
// in the real part of a slot. Variances of independent errors add; a product of an
// error polynomial of variance V with an independent one of variance W (centred)
// has N terms per coefficient and variance N*V*W. The secret s and the randomness
// v are uniform ternary, variance 2/3; the noise is centred binomial, variance
// 21/2; rounding to integers has variance 1/12.
//
// A slot's error is dominated by noise times key: at one root of unity a product of
// two independent complex normal numbers, whose real part follows Laplace's law.
// Its tail is much heavier than a normal one; Max turns a standard deviation into a
// bound for many slots at once.
type NoiseModel struct{ p Parameters }

// Noise is the noise model of the parameters.
func (p Parameters) Noise() NoiseModel { return NoiseModel{p} }

const (
	varTernary = 2.0 / 3
	varNoise   = prng.Sigma * prng.Sigma
	varRound   = 1.0 / 12
)

// slot turns the variance of the coefficients into the deviation of a slot.
func (m NoiseModel) slot(variance, scale float64) float64 {
	return math.Sqrt(variance*float64(m.p.N())/2) / scale
}

// Encode is the rounding of the coefficients of an encoded message, V = 1/12.
func (m NoiseModel) Encode(scale float64) float64 { return m.slot(varRound, scale) }

// FreshPK is a fresh public-key encryption, encoding included. Decryption leaves
// v*e + e0 + e1*s with e the public key's noise: V = 21/2*(2/3*N + 1 + 2/3*N).
func (m NoiseModel) FreshPK(scale float64) float64 {
	n := float64(m.p.N())
	return m.slot(varNoise*(2*varTernary*n+1)+varRound, scale)
}

// FreshSeeded is a fresh seeded encryption, encoding included: V = 21/2 + 1/12.
func (m NoiseModel) FreshSeeded(scale float64) float64 { return m.slot(varNoise+varRound, scale) }

// ScaleTolerance is the relative difference up to which Evaluator adds operands at
// level and this scale as if their scales were equal: the deviation of the least
// noise that a ciphertext has there or, if that is more, what float64's rounding of
// scales comes to on the way from the top level; at most 2^-20. The sum is off by the
// difference times the second message.
func (p Parameters) ScaleTolerance(level int, scale float64) float64 {
	rounding := math.Exp2(float64(p.MaxLevel()-level) - 50) // squaring doubles it
	return min(max(p.Noise().FreshSeeded(scale), rounding), 0x1p-20)
}

// Rescale is what rounding after a division adds, at the scale after it: both
// polynomials are rounded, and c1's rounding is multiplied by s:
// V = 1/12*(1 + 2/3*N). Noise from before is divided along with the message and so
// keeps its size in message units.
func (m NoiseModel) Rescale(scale float64) float64 { return m.slot(m.rounding(), scale) }

func (m NoiseModel) rounding() float64 { return varRound * (1 + varTernary*float64(m.p.N())) }

// KeySwitch is what one key switching at level (of a product, rotation or
// conjugation) adds at scale, the scale before any rescaling. Digit d is centred
// modulo D_d, the product of its primes, so uniform with variance D_d^2/12; times
// e_d and divided by P it leaves N*21/2*D_d^2/(12*P^2), and dividing by P rounds
// as in Rescale:
//
//	V = N*21/2/12 * sum_d (D_d/P)^2 + 1/12*(1 + 2/3*N)
//
// It is +Inf for parameters without special primes.
func (m NoiseModel) KeySwitch(level int, scale float64) float64 {
	digits := m.digits(level)
	if math.IsInf(digits, 1) {
		return digits
	}
	return m.slot(digits+m.rounding(), scale)
}

// digits is the part of KeySwitch's variance that the key's noise causes.
func (m NoiseModel) digits(level int) float64 {
	p := m.p
	if p.Alpha() == 0 {
		return math.Inf(1)
	}
	q, limbs, sum := p.data().lit.Q, p.LimbsAt(level), 0.0
	for lo := 0; lo < limbs; lo += p.Alpha() {
		logD := 0.0
		for _, v := range q[lo:min(lo+p.Alpha(), limbs)] {
			logD += math.Log2(float64(v))
		}
		sum += math.Exp2(2 * (logD - p.LogP()))
	}
	return float64(p.N()) * varNoise * varRound * sum
}

// MulRescale is what relinearisation and rescaling in one division add, at the
// scale after it: the key's noise shrinks by the primes dropped, and rounding
// happens once.
func (m NoiseModel) MulRescale(level int, scale float64) float64 {
	f := m.p.RescaleFactor(level)
	return m.slot(m.digits(level)/(f*f)+m.rounding(), scale)
}

// Product is the deviation of a product of two independent slots with root mean
// square magnitudes a and b and deviations da and db: a*db, b*da and da*db add. For a square use Square.
func (m NoiseModel) Product(a, da, b, db float64) float64 {
	return math.Sqrt(a*a*db*db + b*b*da*da + da*da*db*db)
}

// Square is the deviation of the square of a slot with root mean square a and
// deviation da: the two cross terms are the same error, 2*a*da.
func (m NoiseModel) Square(a, da float64) float64 {
	return math.Sqrt(4*a*a*da*da + 2*da*da*da*da)
}

// Max turns the deviation of one slot into a bound on the largest of count
// (absolute) errors that fails with probability below 2^-40, by the tail of
// Laplace's law, P(|x| > t*deviation) = exp(-sqrt(2)*t), and a union over the
// slots. One real slot gives a factor of 19.6, 2^15 give 27.
func (m NoiseModel) Max(deviation float64, count int) float64 {
	return deviation * (math.Ln2*40 + math.Log(float64(max(count, 1)))) / math.Sqrt2
}
