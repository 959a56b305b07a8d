package main

import (
	"math"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/evaluator/program/minimax"
)

// TestTable makes the committed table again, from its degrees.
func TestTable(t *testing.T) {
	for alpha := minimax.MinAlpha; alpha <= minimax.MaxAlpha; alpha++ {
		for beta := minimax.MinBeta; beta <= minimax.MaxBeta; beta += 4 {
			want, ok := minimax.Find(alpha, beta)
			if !ok {
				t.Fatalf("alpha %d, beta %d is not in the table", alpha, beta)
			}
			got, err := composition(alpha, beta, degrees(want))
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range got.Stages {
				w := want.Stages[i]
				if !slices.EqualFunc(g.Coef, w.Coef, near) || !near(g.Low, w.Low) || !near(g.Margin, w.Margin) ||
					!near(g.Least, w.Least) || !near(g.Most, w.Most) {
					t.Errorf("alpha %d, beta %d, stage %d: made %+v, committed %+v", alpha, beta, i, g, w)
				}
			}
		}
	}
}

// near allows what float64 arithmetic of another processor may round in another way.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-13+1e-9*math.Abs(b) }

// TestDegrees searches some degrees again.
func TestDegrees(t *testing.T) {
	for _, alpha := range []int{2, 7, 10} {
		s := &search{alpha: alpha, known: map[string]float64{}}
		for _, beta := range []int{8, 16} {
			want, _ := minimax.Find(alpha, beta)
			got, err := s.shortest(beta)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, degrees(want)) {
				t.Errorf("alpha %d, beta %d: degrees %v, committed %v", alpha, beta, got, degrees(want))
			}
		}
	}
}

func degrees(c *minimax.Composition) (all []int) {
	for i := range c.Stages {
		all = append(all, c.Stages[i].Degree())
	}
	return all
}

// TestKnown: the best approximation of degree 1 on [a, 1] is 2x/(1+a), with the error (1-a)/(1+a); for degree 3 the
// error equioscillates at a, 1 and one extremum between.
func TestKnown(t *testing.T) {
	ref, e, err := remez64(1, 0.25)
	if err != nil || math.Abs(e-0.6) > 1e-9 {
		t.Errorf("error %g at %v: %v, want 0.6", e, ref, err)
	}
	ref, _, err = remez64(2, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	coef, worst := polish(2, 0.25, ref)
	e, _ = worst.Float64()
	c := []float64{0, 0}
	for k := range coef {
		c[k], _ = coef[k].Float64()
	}
	a, b := c[0]-3*c[1], 4*c[1] // a*x + b*x^3
	at := math.Sqrt(-a / (3 * b))
	for x, sign := range map[float64]float64{0.25: -1, at: 1, 1: -1} {
		if got := a*x + b*x*x*x - 1; math.Abs(got-sign*e) > 1e-12 {
			t.Errorf("error %g at %g, want %g", got, x, sign*e)
		}
	}
}
