package main

import (
	"fmt"
	"math"
	"math/big"
	"slices"
)

// The odd polynomial of degree 2n-1 nearest to 1 on [low, 1] (so to the sign on both sides) equioscillates n+1
// times there (Remez). Odd Chebyshev polynomials T_1, T_3, ... are the basis. A first pass in float64 finds the
// reference points; polish repeats the exchange with precision bits, which gives every digit of the result.

// precision of polish, in bits.
const precision = 192

// points is the number of places at which the first pass looks for extrema, on each of two grids.
const points = 1500

// remez64 returns the n+1 points of [low, 1] where the error of the best polynomial with n coefficients is
// extreme, about, and that error.
func remez64(n int, low float64) (ref []float64, worst float64, err error) {
	grid := make([]float64, 0, 2*points+2)
	for i := range points + 1 { // one grid is dense near low, the other near 1
		s := float64(i) / points
		grid = append(grid, math.Pow(low, 1-s), math.Cos(s*math.Acos(low)))
	}
	slices.Sort(grid)
	grid[0], grid[len(grid)-1] = low, 1
	grid = slices.Compact(grid)
	for j := range n + 1 { // extrema lie between those of both grids
		s := float64(j) / float64(n)
		ref = append(ref, math.Pow(low, 1-s)*(1-s)+math.Cos((1-s)*math.Acos(low))*s)
	}
	for range 60 {
		coef, e := solve64(ref, n)
		found := extrema64(coef, grid, n+1)
		if len(found) != n+1 {
			return nil, 0, fmt.Errorf("%d extrema of %d for %d coefficients on [%g, 1]", len(found), n+1, n, low)
		}
		worst = 0
		for _, x := range found {
			worst = max(worst, math.Abs(odd64(coef, x)-1))
		}
		ref = found
		if worst <= math.Abs(e)*(1+1e-7)+1e-13 {
			return ref, worst, nil
		}
	}
	return ref, worst, nil
}

// extrema64 returns count points of a grid where the error is extreme with alternating signs: the largest of
// each run of one sign. Where there are more runs, the smallest extrema at either end are left out.
func extrema64(coef, grid []float64, count int) []float64 {
	var at, size []float64
	last := 0.0
	for _, x := range grid {
		e := odd64(coef, x) - 1
		switch {
		case len(at) == 0 || e*last < 0:
			at, size, last = append(at, x), append(size, math.Abs(e)), e
		case math.Abs(e) > size[len(size)-1]:
			at[len(at)-1], size[len(size)-1], last = x, math.Abs(e), e
		}
	}
	for len(at) > count {
		if size[0] < size[len(size)-1] {
			at, size = at[1:], size[1:]
		} else {
			at, size = at[:len(at)-1], size[:len(size)-1]
		}
	}
	return at
}

// odd64 returns the sum of coef[k]*T_(2k+1)(x).
func odd64(coef []float64, x float64) float64 {
	twice := 2 * (2*x*x - 1) // T_(k+2) = 2*T_2*T_k - T_(k-2)
	before, now, sum := x, x, 0.0
	for _, c := range coef {
		sum += c * now
		before, now = now, twice*now-before
	}
	return sum
}

// solve64 returns the coefficients whose error at the points of ref is e with alternating signs.
func solve64(ref []float64, n int) (coef []float64, e float64) {
	m := make([][]float64, n+1)
	for j, x := range ref {
		row := make([]float64, n+2)
		twice, before, now := 2*(2*x*x-1), x, x
		for k := range n {
			row[k] = now
			before, now = now, twice*now-before
		}
		row[n], row[n+1] = float64(1-2*(j%2)), 1
		m[j] = row
	}
	for c := range m {
		p := c
		for r := c; r < len(m); r++ {
			if math.Abs(m[r][c]) > math.Abs(m[p][c]) {
				p = r
			}
		}
		m[c], m[p] = m[p], m[c]
		for r := range m {
			if f := m[r][c] / m[c][c]; r != c && f != 0 {
				for k := c; k < n+2; k++ {
					m[r][k] -= f * m[c][k]
				}
			}
		}
	}
	for c := range n {
		coef = append(coef, m[c][n+1]/m[c][c])
	}
	return coef, m[n][n+1] / m[n][n]
}

func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

func zero() *big.Float { return new(big.Float).SetPrec(precision) }

func mul(a, b *big.Float) *big.Float { return zero().Mul(a, b) }
func sub(a, b *big.Float) *big.Float { return zero().Sub(a, b) }
func add(a, b *big.Float) *big.Float { return zero().Add(a, b) }
func quo(a, b *big.Float) *big.Float { return zero().Quo(a, b) }

// polish returns the coefficients of the best polynomial on [low, 1] and its error, from points near its extrema.
func polish(n int, low float64, ref64 []float64) (coef []*big.Float, worst *big.Float) {
	ref := make([]*big.Float, len(ref64))
	for i, x := range ref64 {
		ref[i] = number(x)
	}
	ref[0], ref[n] = number(low), number(1)
	for range 4 {
		coef, worst = solve(ref, n)
		for j := 1; j < n; j++ {
			ref[j] = extremum(coef, ref[j])
		}
	}
	return coef, worst.Abs(worst)
}

// solve is solve64 with more digits.
func solve(ref []*big.Float, n int) (coef []*big.Float, e *big.Float) {
	m := make([][]*big.Float, n+1)
	for j, x := range ref {
		row := basis(x, n)
		m[j] = append(row, number(float64(1-2*(j%2))), number(1))
	}
	for c := range m {
		p := c
		for r := c; r < len(m); r++ {
			if zero().Abs(m[r][c]).Cmp(zero().Abs(m[p][c])) > 0 {
				p = r
			}
		}
		m[c], m[p] = m[p], m[c]
		for r := range m {
			if r == c {
				continue
			}
			f := quo(m[r][c], m[c][c])
			for k := c; k < n+2; k++ {
				m[r][k] = sub(m[r][k], mul(f, m[c][k]))
			}
		}
	}
	for c := range n {
		coef = append(coef, quo(m[c][n+1], m[c][c]))
	}
	return coef, quo(m[n][n+1], m[n][n])
}

// basis returns T_1, T_3, ..., T_(2n-1) at x.
func basis(x *big.Float, n int) []*big.Float {
	twice := mul(number(2), sub(mul(number(2), mul(x, x)), number(1)))
	before, now := x, x
	out := make([]*big.Float, n, n+2)
	for k := range out {
		out[k] = now
		before, now = now, sub(mul(twice, now), before)
	}
	return out
}

// derivatives returns p, p' and p” at x for p = sum of coef[k]*T_(2k+1), by differentiating the recurrence.
func derivatives(coef []*big.Float, x *big.Float) (p, d, dd *big.Float) {
	two, one := number(2), number(1)
	a, a1, a2 := number(1), zero(), zero() // T_0
	b, b1, b2 := x, one, zero()            // T_1
	p, d, dd = zero(), zero(), zero()
	for k := 1; ; k++ {
		if k%2 == 1 {
			c := coef[k/2]
			p, d, dd = add(p, mul(c, b)), add(d, mul(c, b1)), add(dd, mul(c, b2))
			if k/2 == len(coef)-1 {
				return p, d, dd
			}
		}
		n := sub(mul(two, mul(x, b)), a)
		n1 := sub(add(mul(two, b), mul(two, mul(x, b1))), a1)
		n2 := sub(add(mul(number(4), b1), mul(two, mul(x, b2))), a2)
		a, a1, a2, b, b1, b2 = b, b1, b2, n, n1, n2
	}
}

// extremum returns the zero of p' near x (Newton).
func extremum(coef []*big.Float, x *big.Float) *big.Float {
	for range 6 {
		_, d, dd := derivatives(coef, x)
		if dd.Sign() == 0 {
			break
		}
		x = sub(x, quo(d, dd))
	}
	return x
}
