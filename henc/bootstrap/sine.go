package bootstrap

import (
	"math"
	"slices"

	"github.com/hencedge/hencedge/henc"
)

// The coefficients x of the raised message, in units of the modulus q0 of level 0, lie within
// 16.5 of 0: x = (c0 + c1*s)/q0 with centred c0 and c1 and a secret of weight 32. They are sums
// of 33 nearly uniform numbers in [-1/2, 1/2], so |x| > t has a probability of at most
// 2*(16.5-t)^33/33!: 2^-45 for t = 11.5, 2^-55 for 12.5. With u = (x - 1/4)/K,
//
//	sin(2*pi*x) = cos(2*pi*K*u) = D(D(D(cos(a*u)))), a = 2*pi*K/8, D(c) = 2*c^2 - 1
//
// and cos(a*u) is even, hence a polynomial in y = T_2(u):
//
//	cos(a*u) = J_0(a) + 2 * sum over k >= 1 of (-1)^k * J_2k(a) * T_k(y)
//
// (Han and Ki, CT-RSA 2020, for the double angles; Abramowitz and Stegun 9.1.46 for the
// series). Cut at k = 15 it is off by less than 2^-46 for |u| <= 1. For larger |x| it grows, to 2^-34 at 12,
// 2^-25 at 13, 2^-18 at 14 and 2^-7 at 16.5: nothing overflows. Near an integer x the sine
// is off by 8/|sin(2*pi*(x - 1/4)/8)| times as much, at most 41, and a slot by that over 2*pi times the message over
// the modulus.
//
// K is such that messages keep their promise up to |x| = 12.5, and not larger, because of how y is rounded: what is
// lost there weighs 2*pi*K^2/(4*|x - 1/4|) times as much in the sine, which is most of its random error.

// cosine returns the coefficients of T_k(y), k = 0..chebyshev.
func cosine() []float64 {
	a := 2 * math.Pi * halfWidth / (1 << doublings)
	c := make([]float64, chebyshev+1)
	for k := range c {
		c[k] = 2 * math.Jn(2*k, a)
		if k%2 == 1 {
			c[k] = -c[k]
		}
	}
	c[0] /= 2
	return c
}

// Products of two numbers that are each twice a value are twice the double of the values' product, so that everything
// here is kept twice as large and nothing is doubled: for D_k = 2*T_k
//
//	D_2k = D_k^2 - 2, D_(m+k) = D_m*D_k - D_(m-k)
//
// and what is rounded counts half as much. sine's operand has twice the scale instead. The series is taken at shrunk
// times the scale, which the squares that follow make 1/2: so the result needs no larger scale than if it were
// sin(2*pi*x) itself.
//
// The scale of y is larger than those of the other powers, because of how much its rounding weighs: the operand's is
// such that D_2(y) has the scale of what is dropped next.

// shrunk to the power of 2^doublings is 1/2.
var shrunk = math.Exp2(-1.0 / (1 << doublings))

// polynomial evaluates Chebyshev series in one variable for a batch.
type polynomial struct {
	be     *henc.BatchEvaluator
	params henc.Parameters
	powers map[int]*henc.Ciphertexts // D_k(y)
	owned  []*henc.Ciphertexts
}

// keep remembers a result, to be freed by close.
func (e *polynomial) keep(a *henc.Ciphertexts, err error) (*henc.Ciphertexts, error) {
	if err == nil {
		e.owned = append(e.owned, a)
	}
	return a, err
}

func (e *polynomial) close() {
	for _, a := range e.owned {
		e.be.Free(a)
	}
}

// double is a^2 - 2, rescaled.
func (e *polynomial) double(a *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	p, err := e.keep(e.be.MulRescale(a, a))
	if err != nil {
		return nil, err
	}
	return p, e.be.AddConstInPlace(p, -2)
}

// at is a at a level that is not above its own.
func (e *polynomial) at(a *henc.Ciphertexts, level int) (*henc.Ciphertexts, error) {
	if a.Level() == level {
		return a, nil
	}
	return e.be.AtLevel(a, level)
}

// prepare makes D_1, D_2, D_3, D_4 and D_8 from y = D_1, of the degrees that a series of degree 15 needs.
func (e *polynomial) prepare(y *henc.Ciphertexts) (err error) {
	e.powers = map[int]*henc.Ciphertexts{1: y}
	for _, k := range []int{2, 4, 8} {
		if e.powers[k], err = e.double(e.powers[k/2]); err != nil {
			return err
		}
	}
	first, err := e.at(y, e.powers[2].Level())
	if err != nil {
		return err
	}
	less := henc.Multiple{Of: first, By: -1, Scale: e.powers[2].Scale()} // D_1
	product := [2]*henc.Ciphertexts{first, e.powers[2]}
	e.powers[3], err = e.keep(e.be.MulSumRescale([][2]*henc.Ciphertexts{product}, []henc.Multiple{less}, 0))
	return err
}

// evaluate is the series c, c_0 and the sum of c_k*D_k, at the level and exactly the scale. Paterson and Stockmeyer's
// method in the Chebyshev basis (Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, EUROCRYPT 2021, section 3):
// with m the largest power of two below len(c), c = q*D_m + r, because
// D_(m+k) = D_m*D_k - D_(m-k), and the same for r until its terms are there. The products and the terms have one
// scale and are summed up one level above, so that they share a key switch and a rescaling.
func (e *polynomial) evaluate(c []float64, level int, scale float64) (*henc.Ciphertexts, error) {
	above := scale * e.params.RescaleFactor(level+1)
	var products [][2]*henc.Ciphertexts
	for !e.direct(c, level) {
		m := 1
		for 2*m < len(c) {
			m *= 2
		}
		q, r := divide(c, m)
		power, err := e.at(e.powers[m], level+1)
		if err != nil {
			return nil, err
		}
		high, err := e.evaluate(q, level+1, above/power.Scale())
		if err != nil {
			return nil, err
		}
		products, c = append(products, [2]*henc.Ciphertexts{high, power}), r
	}
	terms, err := e.terms(c, level+1, above)
	if err != nil {
		return nil, err
	}
	return e.keep(e.be.MulSumRescale(products, terms, c[0]))
}

// direct reports whether the terms of c are all there, one level above or more.
func (e *polynomial) direct(c []float64, level int) bool {
	for k := 1; k < len(c); k++ {
		if p := e.powers[k]; p == nil || p.Level() <= level {
			return false
		}
	}
	return true
}

// terms are the multiples c_k*D_k, k >= 1, at the level and the scale.
func (e *polynomial) terms(c []float64, level int, scale float64) (terms []henc.Multiple, err error) {
	for k := 1; k < len(c); k++ {
		a, err := e.at(e.powers[k], level)
		if err != nil {
			return nil, err
		}
		terms = append(terms, henc.Multiple{Of: a, By: c[k], Scale: scale / a.Scale()})
	}
	return terms, nil
}

// divide returns q and r with c = q*D_m + r, series as evaluate takes them, m < len(c) <= 2m.
func divide(c []float64, m int) (q, r []float64) {
	q, r = make([]float64, len(c)-m), append([]float64(nil), c[:m]...)
	q[0] = c[m]
	for k := 1; k < len(q); k++ {
		q[k] = c[m+k]
		r[m-k] -= c[m+k]
	}
	return q, r
}

// operandScale is half the scale of sine's operand at the level: that of x where the square of the square has, two
// levels below, the scale that the next rescaling takes.
func operandScale(p henc.Parameters, level int) float64 {
	first := p.RescaleFactor(level)
	return math.Sqrt(first * math.Sqrt(p.RescaleFactor(level-1)*p.RescaleFactor(level-2)))
}

// seriesScale is the scale of the series, half the last one's that its level drops but for the doublings.
func seriesScale(p henc.Parameters, level int) float64 {
	return shrunk * p.RescaleFactor(level-sineLevels+doublings)
}

// sineScale is the scale of sine's result for an operand at the level.
func sineScale(p henc.Parameters, level int) float64 {
	s := seriesScale(p, level)
	for l := level - sineLevels + doublings; l > level-sineLevels; l-- {
		s = s * s / p.RescaleFactor(l)
	}
	return 2 * s
}

// sine is sin(2*pi*x) of every slot x/K, sineLevels levels below. It overwrites x.
func sine(be *henc.BatchEvaluator, x *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	e := &polynomial{be: be, params: be.Context().Parameters()}
	defer e.close()
	x = x.WithScale(x.Scale() / 2)
	if err := be.AddConstInPlace(x, -0.5/halfWidth); err != nil { // x - 1/4, over K
		return nil, err
	}
	y, err := e.double(x)
	if err != nil {
		return nil, err
	}
	if err := e.prepare(y); err != nil {
		return nil, err
	}
	series := cosine() // twice the cosine has these coefficients of D_k
	series[0] *= 2
	c, err := e.evaluate(series, x.Level()-sineLevels+doublings, seriesScale(e.params, x.Level()))
	if err != nil {
		return nil, err
	}
	for range doublings {
		if c, err = e.double(c); err != nil {
			return nil, err
		}
	}
	e.owned = slices.DeleteFunc(e.owned, func(a *henc.Ciphertexts) bool { return a == c })
	return c.WithScale(2 * c.Scale()), nil
}
