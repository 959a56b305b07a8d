package main

import (
	"fmt"
	"math"
	"math/big"

	"github.com/hencedge/hencedge/evaluator/program/minimax"
)

// composition computes the stages of some degrees.
func composition(alpha, beta int, degrees []int) (minimax.Composition, error) {
	c := minimax.Composition{Alpha: alpha, Beta: beta}
	low := firstLow(alpha)
	off := math.Ldexp(0.125, -alpha)
	for i, degree := range degrees {
		s, err := stage(degree, low, i == len(degrees)-1)
		if err != nil {
			return c, fmt.Errorf("alpha %d, beta %d, degrees %v: %w", alpha, beta, degrees, err)
		}
		s.Margin = off
		c.Stages = append(c.Stages, s)
		off = math.Min(1-s.Most, s.Least/8)
		low = down(s.Least - off)
	}
	if e := c.Error(); !(e <= math.Ldexp(1, -beta)) {
		return c, fmt.Errorf("alpha %d, degrees %v: error 2^%.2f, wanted 2^-%d", alpha, degrees, math.Log2(e), beta)
	}
	return c, nil
}

// up and down round outward, by far more than what computing a bound in float64 loses.
func up(x float64) float64   { return x + math.Abs(x)*0x1p-44 }
func down(x float64) float64 { return x - math.Abs(x)*0x1p-44 }

// stage computes one polynomial. Unless it is the last one, it is scaled to leave a margin below 1.
func stage(degree int, low float64, last bool) (minimax.Stage, error) {
	n := (degree + 1) / 2
	ref, _, err := remez64(n, low)
	if err != nil {
		return minimax.Stage{}, err
	}
	coef, worst := polish(n, low, ref)
	s := minimax.Stage{Low: low}
	factor := number(1)
	if !last {
		e, _ := worst.Float64()
		_, off := next(e)
		factor = quo(number(1-off), add(number(1), worst))
	}
	rounded := make([]*big.Float, n)
	for k := range coef {
		v, _ := mul(coef[k], factor).Float64()
		s.Coef, rounded[k] = append(s.Coef, v), number(v)
	}
	return s, values(&s, rounded, ref)
}

// values sets Least and Most. p' has at most n-1 zeros above 0, since it is even and of degree 2n-2. All of them are
// found in (Low, 1), each between two sign changes, so that there is no other extremum: p grows from 0 to Low.
func values(s *minimax.Stage, coef []*big.Float, ref []float64) error {
	least, most := math.Inf(1), math.Inf(-1)
	look := func(x *big.Float) {
		p, _, _ := derivatives(coef, x)
		v, _ := p.Float64()
		least, most = min(least, v), max(most, v)
	}
	look(number(s.Low))
	look(number(1))
	before := s.Low
	_, d, _ := derivatives(coef, number(s.Low))
	sign := d.Sign()
	for j := 1; j < len(coef); j++ {
		x := extremum(coef, number(ref[j]))
		look(x)
		at, _ := x.Float64()
		_, d, _ := derivatives(coef, number(math.Min(1, at+0x1p-40)))
		if at <= before || at >= 1 || d.Sign() != -sign {
			return fmt.Errorf("extremum %d of degree %d on [%g, 1] is not where it should be: %g", j, s.Degree(), s.Low,
				at)
		}
		before, sign = at, -sign
	}
	s.Least, s.Most = down(least), up(most)
	return nil
}
