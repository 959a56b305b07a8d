package bfv

import (
	"fmt"
	"math"
)

// Noise describes the noise v of a ciphertext: c0 + c1*s = (Q/t)*m + v modulo Q.
type Noise struct {
	// Deviation bounds the standard deviation of the coefficients of v, with powers of s taken for independent.
	Deviation float64
	// Degree bounds the power of s in v. Powers make large values more likely; see NoiseModel.Largest.
	Degree int
}

// NoiseModel predicts noise. A ciphertext decrypts if all coefficients of v are below Q/(2t).
//
// Write (Q/t)*m + v + Q*k for c0 + c1*s as integers, with the residues of c0 and c1 centred. The coefficients of k
// have the variance K = (1 + 2N/3)/12, since the c are uniform and s is ternary. The product of two ciphertexts,
// times t/Q, then has the noise
//
//	v*(m' + t*k') + v'*(m + t*k) + (t/Q)*v*v'
//
// and products with an independent polynomial of variance W have the variance N*V*W. Deviations of sums are added,
// not variances, so that operands need not be independent. What is known of a message is only that its coefficients
// are at most t/2. Since every k contains s, the noise after d products contains s^(d+1), whose values at the roots
// of unity vary much more than those of independent factors: that is the degree.
//
// The model takes the k of the products that a result consists of for independent. They are, except that of a factor
// which is multiplied into one product again and again: compute powers by squaring.
type NoiseModel struct{ p Parameters }

// Noise is the noise model of the parameters.
func (p Parameters) Noise() NoiseModel { return NoiseModel{p} }

const varTernary, varRound = 2.0 / 3, 1.0 / 12

// tail is -log of the probability with which noise exceeds NoiseModel.Largest.
const tail = 40 * math.Ln2

func (m NoiseModel) n() float64 { return float64(m.p.N()) }

// coefficients turns the deviation of a slot at scale 1, as henc.NoiseModel has it, into that of the coefficients.
func (m NoiseModel) coefficients(slot float64) float64 { return slot / math.Sqrt(m.n()/2) }

// FreshPK is the noise of an encryption under a public key.
func (m NoiseModel) FreshPK() Noise { return Noise{m.coefficients(m.p.base.Noise().FreshPK(1)), 1} }

// FreshSeeded is the noise of an encryption under the secret key.
func (m NoiseModel) FreshSeeded() Noise {
	return Noise{m.coefficients(m.p.base.Noise().FreshSeeded(1)), 0}
}

// Add is the noise of a sum or a difference of ciphertexts with noise a and b.
func (m NoiseModel) Add(a, b Noise) Noise {
	return Noise{a.Deviation + b.Deviation, max(a.Degree, b.Degree)}
}

// AddPlain is the noise of a sum with a plaintext, whose scaling is rounded.
func (m NoiseModel) AddPlain(a Noise) Noise { return m.Add(a, Noise{math.Sqrt(varRound), 0}) }

// MulConst is the noise of a product with an integer.
func (m NoiseModel) MulConst(a Noise, k int64) Noise {
	return Noise{a.Deviation * math.Abs(float64(k)), a.Degree}
}

// MulPlain is the noise of a product with a plaintext whose centred coefficients have the Euclidean norm norm. That of
// slots is at most MaxNorm.
func (m NoiseModel) MulPlain(a Noise, norm float64) Noise { return Noise{a.Deviation * norm, a.Degree} }

// MaxNorm is the largest Euclidean norm of a plaintext.
func (m NoiseModel) MaxNorm() float64 { return float64(m.p.T()) / 2 * math.Sqrt(m.n()) }

// Switch is the noise after a rotation, or another automorphism, of a ciphertext with noise a. It is +Inf for
// parameters without special primes.
func (m NoiseModel) Switch(a Noise) Noise {
	return m.Add(a, Noise{m.coefficients(m.p.base.Noise().KeySwitch(m.p.level(), 1)), 1})
}

// Mul is the noise of a product of ciphertexts with noise a and b, relinearised. b takes part as b' = B/Q*b, rounded,
// modulo the auxiliary modulus B; the rounding is a noise of variance K on b, at the size of B.
func (m NoiseModel) Mul(a, b Noise) Noise {
	n, t := m.n(), float64(m.p.T())
	k := varRound * (1 + varTernary*n) // the variance of k, and that of rounding both halves of a ciphertext
	size := math.Sqrt(n * (t*t*k + t*t/4))
	logQ := m.p.base.LogQ(m.p.level())
	rounded := math.Sqrt(k) * math.Exp2(logQ-logProduct(m.p.aux))
	degree := max(a.Degree, b.Degree, 1) + 1
	cross := math.Exp2(math.Log2(t)-logQ) * a.Deviation * m.spread(a.Degree) * b.Deviation * m.spread(b.Degree) *
		math.Sqrt(n) / m.spread(degree)
	// Three polynomials are rounded; the second is multiplied by s, the third by s^2 of variance 4N/9.
	rounding := math.Sqrt(varRound * (1 + varTernary*n + n*n*4/9))
	return m.Switch(Noise{(a.Deviation+b.Deviation+rounded)*size + cross + rounding, degree})
}

// spread bounds the square root of the mean of |s|^(2d) over the roots of unity, for s of variance 1 there. The N
// values |s|^2 follow the exponential law, so that the mean is d! to be expected, and the j-th largest value is below
// log(N) + tail/j, each except with the probability that tail stands for.
func (m NoiseModel) spread(degree int) float64 {
	d := float64(max(degree, 1))
	mean, _ := math.Lgamma(d + 1)
	sum, largest := math.Exp(mean), math.Log(m.n())
	for j := 1; j <= 8; j++ {
		sum += math.Pow(largest+tail/float64(j), d) / m.n()
	}
	return math.Sqrt(sum)
}

// ModSwitch is the noise of a ciphertext with noise a that was switched down by so many levels: v is divided with the
// ciphertext, whose two polynomials are rounded, the second one times s. What Largest says of the result is what it
// says of both parts together: little is left of v, so that its powers of s do not count for the rounding. Levels that
// do not exist give +Inf.
func (m NoiseModel) ModSwitch(a Noise, down int) Noise {
	top := m.p.level()
	if down < 0 || down > top || m.p.N() == 0 {
		return Noise{math.Inf(1), a.Degree}
	}
	if down == 0 {
		return a
	}
	by := math.Exp2(m.p.base.LogQ(top-down) - m.p.base.LogQ(top))
	rounding := math.Sqrt(varRound * (1 + varTernary*m.n()))
	return Noise{a.Deviation*by*m.spread(a.Degree)/m.spread(1) + rounding, 1}
}

// Largest is what the largest coefficient of noise a stays below, except with a probability of about 2^-40: the
// deviation, for powers of s times what their values vary, and the tail of henc.NoiseModel.Max.
func (m NoiseModel) Largest(a Noise) float64 {
	return m.p.base.Noise().Max(a.Deviation*m.spread(a.Degree), m.p.N())
}

// Budget is how many bits noise a may still grow before decryption might fail; negative if it might now. It is -Inf
// for the zero Parameters.
func (m NoiseModel) Budget(a Noise) float64 { return m.BudgetAt(a, 0) }

// BudgetAt is Budget of a ciphertext so many levels below the top, -Inf where there is no such level.
func (m NoiseModel) BudgetAt(a Noise, down int) float64 {
	if m.p.N() == 0 || down < 0 || down > m.p.level() {
		return math.Inf(-1)
	}
	// Decryption rounds with an error of less than 1/8 of the distance between messages.
	most := m.p.base.LogQ(m.p.level()-down) - math.Log2(float64(m.p.T())) - 1 - math.Log2(8.0/7)
	return most - math.Log2(m.Largest(a))
}

// maxDegree is far above the degree of any noise that fits.
const maxDegree = 1000

// Fits reports whether a ciphertext with noise a decrypts.
func (m NoiseModel) Fits(a Noise) bool { return m.fitsAt(a, 0) }

func (m NoiseModel) fitsAt(a Noise, down int) bool {
	return a.Deviation >= 0 && a.Degree >= 0 && a.Degree <= maxDegree && m.BudgetAt(a, down) >= 0
}

// check refuses noise that does not fit.
func (m NoiseModel) check(a Noise) error { return m.checkAt(a, 0) }

// checkAt is check of a ciphertext so many levels below the top.
func (m NoiseModel) checkAt(a Noise, down int) error {
	if m.fitsAt(a, down) {
		return nil
	}
	return fmt.Errorf("%w: it may be %.1f bits above what %s with t = %d decrypts; use a larger set or fewer products",
		ErrNoise, -m.BudgetAt(a, down), m.p.base.Name(), m.p.T())
}
