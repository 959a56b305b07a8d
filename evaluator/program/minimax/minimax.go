// Package minimax has compositions of polynomials that approximate the sign of a number:
// f = p_k(...p_2(p_1(x))...) is within 2^-Beta of the sign of x for 2^-Alpha <= |x| <= 1.
//
// Every p_i is odd, and the nearest to 1 on an interval [Low, 1] among the polynomials of its degree (Remez's
// exchange; E. Lee, J.-W. Lee, J.-S. No and Y.-S. Kim, "Minimax approximation of sign function by composite
// polynomial for homomorphic comparison", IEEE TDSC 2022). It is scaled so that [-1, 1] never leaves [-1, 1], with a
// margin: noise added between two polynomials moves values, and as long as it stays within the Margin of the next one,
// values that are decided stay decided and none leaves [-1, 1]. So a value nearer than 2^-Alpha to 0 is harmless: what
// comes out for it is anything from -1 to 1.
//
// Package gen chooses the degrees (least depth, then fewest products) and makes the table with 192 bits; a
// test makes it again and compares.
package minimax

import "math/bits"

//go:generate go run ./gen -o ztable.go

// Stage is one polynomial: the sum of Coef[k]*T_(2k+1) with Chebyshev's polynomials T.
type Stage struct {
	Coef []float64
	// Low: inputs from Low to 1 are decided. Those that the stage before gives, and for the first stage those of
	// 2^-Alpha and more, may be off by Margin and still are.
	Low, Margin float64
	// Least and Most bound what it gives for decided inputs, and Most its magnitude on [-1, 1].
	Least, Most float64
}

// Degree returns the degree of the polynomial.
func (s *Stage) Degree() int { return 2*len(s.Coef) - 1 }

// Composition is a list of stages.
type Composition struct {
	Alpha, Beta int
	Stages      []Stage
}

// Error bounds the distance of the result from the sign for decided inputs, noise aside: at most 2^-Beta.
func (c *Composition) Error() float64 {
	last := &c.Stages[len(c.Stages)-1]
	return max(1-last.Least, last.Most-1)
}

// Depth returns the multiplications one after another.
func (c *Composition) Depth() (depth int) {
	for i := range c.Stages {
		depth += Depth(c.Stages[i].Degree())
	}
	return depth
}

// Products returns the multiplications of all stages.
func (c *Composition) Products() (n int) {
	for i := range c.Stages {
		n += Products(c.Stages[i].Degree(), Baby(c.Stages[i].Degree()))
	}
	return n
}

// At returns f(x) in float64.
func (c *Composition) At(x float64) float64 {
	for i := range c.Stages {
		x = c.Stages[i].At(x)
	}
	return x
}

// At returns the value of the polynomial in float64.
func (s *Stage) At(x float64) float64 {
	twice := 2 * (2*x*x - 1) // T_(k+2) = 2*T_2*T_k - T_(k-2)
	before, now, sum := x, x, 0.0
	for _, c := range s.Coef {
		sum += c * now
		before, now = now, twice*now-before
	}
	return sum
}

// Limits of the table.
const (
	MinAlpha, MaxAlpha = 2, 16
	MinBeta, MaxBeta   = 8, 20
	stepBeta           = 4
)

// Find returns the composition of least depth for at least alpha and beta; ok is false where the table ends.
func Find(alpha, beta int) (c *Composition, ok bool) {
	alpha, beta = max(alpha, MinAlpha), max(beta, MinBeta)
	beta = (beta + stepBeta - 1) / stepBeta * stepBeta
	for i := range table {
		if table[i].Alpha == alpha && table[i].Beta == beta {
			return &table[i], true
		}
	}
	return nil, false
}

// Depth returns the multiplications one after another that a polynomial of a degree takes.
func Depth(degree int) int { return bits.Len(uint(degree)) }

// Split writes an odd polynomial of a degree of at least 2 as high*T_g + low, where g is the largest power of two
// below the degree: T_(g+j) = 2*T_g*T_j - T_(g-j). Both are odd and of degree below g.
func Split(coef []float64) (g int, high, low []float64) {
	g = 1 << (bits.Len(uint(2*len(coef)-1)) - 1)
	low = append(low, coef[:g/2]...)
	for k := g / 2; k < len(coef); k++ {
		j := 2*k + 1 - g
		high = append(high, 2*coef[k])
		low[(g-j)/2] -= coef[k]
	}
	return g, high, low
}

// Products returns the products that a polynomial takes where it is split down to degrees below baby, a power of
// two: for T_2, T_4, ..., for the odd T_3, ... below baby, and one for each split.
func Products(degree, baby int) int {
	return bits.Len(uint(degree)) - 1 + max(baby/2-1, 0) + splits(degree, baby)
}

func splits(degree, baby int) int {
	if degree < baby {
		return 0
	}
	g := 1 << (bits.Len(uint(degree)) - 1)
	return 1 + splits(degree-g, baby) + splits(g-1, baby)
}

// Baby returns the power of two down to which splitting takes the fewest products.
func Baby(degree int) (baby int) {
	baby = 2
	for b := 4; b <= degree+1 && b <= 16; b *= 2 {
		if Products(degree, b) < Products(degree, baby) {
			baby = b
		}
	}
	return baby
}
