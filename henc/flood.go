package henc

import (
	"errors"
	"fmt"
	"math"
)

// ErrFlood: noise flooding leaves no room for the message, or not enough
// accuracy, at this scale and level.
var ErrFlood = errors.New("henc: no room for noise flooding")

// MinFloodBits and MaxFloodBits bound the statistical security of flooding. Beyond the
// upper one the noise, which a 256-bit seed gives, would be the weaker part.
const (
	MinFloodBits = 30
	MaxFloodBits = 128
)

// MaxFloodLog bounds the deviation of the noise: 2^MaxFloodLog per coefficient.
const MaxFloodLog = 62

// FloodSpec says what a shared decryption must withstand and what it must keep.
type FloodSpec struct {
	// Queries is how many decryptions under the key will ever be shared.
	Queries uint64
	// Bits is the statistical security, MinFloodBits..MaxFloodBits: all shared
	// decryptions together help any attacker by at most about 2^-Bits.
	Bits int
	// ErrorBound bounds the error |decrypted - exact| of the real part of every slot,
	// and of its imaginary part: what a program's explanation gives as the error of
	// its last step. The security rests on it.
	ErrorBound float64
	// Magnitude bounds the absolute value of every slot, as a complex number.
	Magnitude float64
	// Accuracy is the largest standard deviation, in message units, that the
	// shared values may have in the real part of a slot.
	Accuracy float64
}

// Flood is the noise to add to one decryption.
type Flood struct {
	LogCoeffStdDev int     // of each coefficient of the decrypted polynomial: its deviation is 2^LogCoeffStdDev
	SlotStdDev     float64 // of the real part of each slot, in message units
	RoundTo        float64 // power of two; shared values are multiples of it
}

// Flood sizes the flooding noise for a ciphertext at level and scale, or refuses
// with ErrFlood, giving the numbers.
//
// Let e be the error polynomial of the decryption. Every slot is off by at most
// sqrt(2)*ErrorBound as a complex number, so by Parseval the coefficients have ||e|| <=
// t = scale*sqrt(2)*ErrorBound (Euclidean norm: N*||e||^2 is the sum of |e(zeta)|^2 over
// the N roots). Gaussian
// noise of deviation sigma on each coefficient makes the decryption and the exact
// result differ by a Kullback-Leibler divergence of at most t^2/(2*sigma^2). By Li,
// Micciancio, Schultz and Sorrell (eprint 2022/816) a divergence of 2^(-s-7)/q per
// query keeps q queries at s bits, so
//
//	sigma = 8 * sqrt(q) * 2^(s/2) * t
//
// rounded up to a power of two, with which the noise can be drawn exactly. The real part of a slot then has deviation sigma*sqrt(N/2)/scale, which is
// 8*sqrt(q*N)*2^(s/2)*ErrorBound or up to twice that, whatever the scale. See
// docs/sharing.md.
func (p Parameters) Flood(level int, scale float64, spec FloodSpec) (Flood, error) {
	if err := p.CheckScale(level, scale); err != nil {
		return Flood{}, fmt.Errorf("flood: %w", err)
	}
	if spec.Queries == 0 || spec.Bits < MinFloodBits || spec.Bits > MaxFloodBits {
		return Flood{}, fmt.Errorf("flood: %w: %d queries at %d bits; at least one query at %d..%d bits is needed",
			ErrParams, spec.Queries, spec.Bits, MinFloodBits, MaxFloodBits)
	}
	for _, v := range []struct {
		name  string
		value float64
	}{{"error bound", spec.ErrorBound}, {"magnitude", spec.Magnitude}, {"accuracy", spec.Accuracy}} {
		if !(v.value > 0) || !finite(v.value) {
			return Flood{}, fmt.Errorf("flood: %w: the %s %g is not a positive number", ErrParams, v.name, v.value)
		}
	}
	// No ciphertext is more exact than a fresh one.
	model := p.Noise()
	bound := max(math.Sqrt2*spec.ErrorBound, model.Max(math.Sqrt2*model.FreshSeeded(scale), p.Slots()))
	sigma := 8 * math.Sqrt(float64(spec.Queries)) * math.Exp2(float64(spec.Bits)/2) * scale * bound
	log := math.Ceil(math.Log2(sigma))
	sigma = math.Exp2(log)
	f := Flood{LogCoeffStdDev: int(log), SlotStdDev: model.slot(sigma*sigma, scale)}
	f.RoundTo = math.Exp2(math.Floor(math.Log2(f.SlotStdDev)))
	// A coefficient of the message is at most scale*Magnitude; a Gaussian exceeds
	// 12 deviations with probability 2^-107.
	need := math.Log2(scale*(spec.Magnitude+bound)+12*sigma) + 1
	if !(need <= p.LogQ(level)) {
		return Flood{}, fmt.Errorf("flood: %w: %d queries at %d bits need noise of 2^%.1f per coefficient, with the message 2^%.1f; the modulus at level %d has 2^%.1f",
			ErrFlood, spec.Queries, spec.Bits, math.Log2(sigma), need, level, p.LogQ(level))
	}
	if f.SlotStdDev > spec.Accuracy {
		return Flood{}, fmt.Errorf("flood: %w: %d queries at %d bits over an error bound of 2^%.1f leave a deviation of 2^%.1f in each value, wanted at most 2^%.1f; use parameters with a larger scale, or share less often",
			ErrFlood, spec.Queries, spec.Bits, math.Log2(bound), math.Log2(f.SlotStdDev), math.Log2(spec.Accuracy))
	}
	if f.LogCoeffStdDev < 1 || f.LogCoeffStdDev > MaxFloodLog {
		return Flood{}, fmt.Errorf("flood: %w: noise of 2^%d per coefficient; noise of 2^1 to 2^%d can be drawn", ErrFlood, f.LogCoeffStdDev, MaxFloodLog)
	}
	return f, nil
}
