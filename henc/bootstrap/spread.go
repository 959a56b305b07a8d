package bootstrap

import (
	"math"
	"math/cmplx"

	"github.com/hencedge/hencedge/henc"
)

// Where all slots are alike, the message is one large coefficient, and what the sine is off by grows with the cube of
// a coefficient. So the message is multiplied by a public polynomial p before the modulus is raised, and the last
// factor of SlotsToCoeffs divides slot j by p(zeta_j). Neither takes a level or a key.
//
// p is in Y = X^(N/32) and has 18 coefficients of 1 or -1 and 14 that are 0. A constant becomes 18 coefficients of its
// own size, where a factor of sqrt(18), which keeps noise as small, would give one that is 4.2 times as large. The
// messages that p gathers in few coefficients are others: for the worst one the promise (sineError) is within a
// twentieth of what it is for the factor 4. A random search found p: nearly the least promise, |p| near sqrt(18) at
// all roots of unity, since noise in slot j is divided by |p(zeta_j)|, and few pairs of coefficients 16 apart, which
// meet where both parts of the slots are alike.
//
// An integral factor stays the way for messages at so large a scale that p is too much for the message ratio.

// spreadSigns are the coefficients of p.
var spreadSigns = [spreadDegree]int8{
	0, 0, -1, 0, 0, 0, 1, 1, -1, 0, 1, -1, 1, 1, -1, 0, -1, 1, 0, 0, -1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, -1,
}

const (
	spreadDegree = 32
	spreadWeight = 18
	// spreadLeast is less than |p| at any root.
	spreadLeast = 3.608
	// spreadPeak is more than any coefficient of p*m, for a message m with real slots in [-1, 1]: coefficient j is
	// the mean of z_i*Re(p(zeta_i)*zeta_i^-j), hence at most that of |Re(p(zeta_i)*zeta_i^-j)|.
	spreadPeak = 3.32
)

// spreadNorm is the root mean square of |p| over the roots.
var spreadNorm = math.Sqrt(spreadWeight)

// spreadAt is p in slot j.
func spreadAt(j int) complex128 {
	power := 1 // 5^j modulo 2*spreadDegree, where 5 has the order spreadDegree/2
	for range j % (spreadDegree / 2) {
		power = power * 5 % (2 * spreadDegree)
	}
	sum := complex128(0)
	for i, s := range spreadSigns {
		sum += complex(float64(s), 0) * cmplx.Rect(1, math.Pi*float64(power*i%(2*spreadDegree))/spreadDegree)
	}
	return sum
}

// unspread divides row j of m by p in slot j, over the norm of p.
func (m matrix) unspread() {
	var rows [spreadDegree / 2]complex128
	for j := range rows {
		rows[j] = complex(spreadNorm, 0) / spreadAt(j)
	}
	for _, d := range m.diagonals {
		for j := range d {
			d[j] *= rows[j%len(rows)]
		}
	}
}

// spreads reports whether messages of the plan can be multiplied by p: their repeating slots must.
func (pl *Plan) spreads() bool { return 2<<pl.lit.LogSlots >= spreadDegree }

// raiseBy is what a message of the scale is multiplied by: an integer, which brings it near the message ratio, and p.
// The ratio stays above 2^(LogRatio-1/4).
func (pl *Plan) raiseBy(scale float64) (times int64, spread bool) {
	room := pl.modulus() / math.Exp2(float64(pl.lit.LogRatio)) / scale
	if pl.spreads() && math.Exp2(1./4)*room >= spreadNorm {
		return max(int64(math.Exp2(1./16)*room/spreadNorm), 1), true
	}
	return max(int64(math.Exp2(1./16)*room), 1), false
}

// raised is the scale of a message of the scale, times the norm of what raiseBy says.
func (pl *Plan) raised(scale float64) float64 {
	times, spread := pl.raiseBy(scale)
	if spread {
		scale *= spreadNorm
	}
	return float64(times) * scale
}

// sineError is what the sine is off by at most in a slot, for real values in [-1, 1]. With f_j the coefficients of
// what is raised over the modulus q0, it is off by (2*pi*f_j)^3/6 in each. Let f_j = c_j*r, r the scale times the
// integer over q0: the sum of the c_j^2 is the mean of the squared slots, at most 1, as is every |c_j|, so that no slot
// collects more than (2*pi*r)^2/6. With p the sum is at most the weight of p, every |c_j| at most spreadPeak,
// and a slot is divided by at least spreadLeast.
func (pl *Plan) sineError(scale float64) float64 {
	times, spread := pl.raiseBy(scale)
	x := 2 * math.Pi * float64(times) * scale / pl.modulus()
	if spread {
		return x * x / 6 * spreadPeak * spreadWeight / spreadLeast
	}
	return x * x / 6
}

// spreadPolynomial is p at level 0.
func (pl *Plan) spreadPolynomial(ctx *henc.Context) (*henc.Plaintext, error) {
	gap := pl.params.N() / spreadDegree
	c := make([]float64, pl.params.N())
	for i, s := range spreadSigns {
		c[i*gap] = float64(s)
	}
	return ctx.Encoder().FromCoeffs(c, 0, 1)
}
