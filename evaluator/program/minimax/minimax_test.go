package minimax

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const precision = 192

func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// exactly returns the value of a stage with 192 bits, from cosines of multiple angles written as products: it
// shares nothing with At but the definition T_(k+1) = 2*x*T_k - T_(k-1).
func exactly(s *Stage, x *big.Float) *big.Float {
	before, now, sum := number(1), x, number(0)
	for k := 1; k <= s.Degree(); k++ {
		if k%2 == 1 {
			sum.Add(sum, new(big.Float).Mul(number(s.Coef[k/2]), now))
		}
		next := new(big.Float).Mul(x, now)
		next.Mul(next, number(2)).Sub(next, before)
		before, now = now, next
	}
	return sum
}

func each(t *testing.T, do func(t *testing.T, c *Composition)) {
	t.Helper()
	if len(table) != (MaxAlpha-MinAlpha+1)*((MaxBeta-MinBeta)/stepBeta+1) {
		t.Fatalf("%d compositions", len(table))
	}
	for i := range table {
		do(t, &table[i])
	}
}

// TestSign: on decided numbers, each stage off by as much as its margin in the worst direction, every composition
// gives the sign within 2^-beta, and no number of [-1, 1] leaves [-1, 1].
func TestSign(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	each(t, func(t *testing.T, c *Composition) {
		goal := math.Ldexp(1, -c.Beta)
		if c.Error() > goal {
			t.Errorf("alpha %d, beta %d: error %g is promised", c.Alpha, c.Beta, c.Error())
		}
		eps := math.Ldexp(1, -c.Alpha)
		for i := range 60 {
			x := eps * math.Pow(1/eps, rng.Float64()) // dense near the threshold
			if i == 0 {
				x = eps
			}
			y := number(x)
			for k := range c.Stages {
				s := &c.Stages[k]
				off := []float64{0, s.Margin, -s.Margin, s.Margin * (2*rng.Float64() - 1)}[rng.IntN(4)]
				if k > 0 || x+off <= 1 {
					y.Add(y, number(off))
				}
				if v, _ := y.Float64(); v < s.Low*(1-1e-12) || v > 1+1e-12 {
					t.Fatalf("alpha %d, beta %d: %g enters stage %d, which decides from %g", c.Alpha, c.Beta, v, k,
						s.Low)
				}
				y = exactly(s, y)
				if v, _ := y.Float64(); v < s.Least || v > s.Most {
					t.Fatalf("alpha %d, beta %d: stage %d gives %g, outside of %g to %g", c.Alpha, c.Beta, k, v,
						s.Least, s.Most)
				}
			}
			y.Sub(y, number(1))
			if e, _ := y.Float64(); math.Abs(e) > goal {
				t.Fatalf("alpha %d, beta %d: %g is off by %g", c.Alpha, c.Beta, x, e)
			}
		}
	})
}

// TestStages: everywhere on a fine grid a stage keeps what it states, and At agrees with 192 bits.
func TestStages(t *testing.T) {
	each(t, func(t *testing.T, c *Composition) {
		for k := range c.Stages {
			s := &c.Stages[k]
			const steps = 3000
			for i := range steps + 1 {
				x := float64(i) / steps
				v := s.At(x)
				switch {
				case math.Abs(v) > s.Most*(1+1e-12):
					t.Fatalf("alpha %d, stage %d: %g at %g", c.Alpha, k, v, x)
				case x >= s.Low && v < s.Least*(1-1e-12):
					t.Fatalf("alpha %d, stage %d: %g at %g", c.Alpha, k, v, x)
				}
				if i%100 == 0 {
					exact, _ := exactly(s, number(x)).Float64()
					if math.Abs(exact-v) > 1e-13 {
						t.Fatalf("alpha %d, stage %d: %g at %g, exactly %g", c.Alpha, k, v, x, exact)
					}
				}
			}
		}
	})
}

// TestDepths: the depths that were found before for 2^-8 of error (without margins for noise), and what splitting a
// polynomial takes.
func TestDepths(t *testing.T) {
	for alpha, depth := range map[int]int{8: 12, 10: 14, 12: 16} {
		c, ok := Find(alpha, 8)
		if !ok || c.Depth() != depth {
			t.Errorf("alpha %d: depth %d, want %d", alpha, c.Depth(), depth)
		}
	}
	if c, ok := Find(0, 0); !ok || c.Alpha != MinAlpha || c.Beta != MinBeta {
		t.Error("the smallest composition is not found")
	}
	if c, ok := Find(5, 13); !ok || c.Alpha != 5 || c.Beta != 16 {
		t.Error("beta is not rounded up")
	}
	if _, ok := Find(MaxAlpha+1, 8); ok {
		t.Error("a composition beyond the table")
	}
	if _, ok := Find(4, MaxBeta+1); ok {
		t.Error("a composition beyond the table")
	}
	for degree, want := range map[int][2]int{3: {2, 2}, 7: {4, 3}, 15: {7, 4}, 31: {10, 5}} {
		if n := Products(degree, Baby(degree)); n != want[0] || Depth(degree) != want[1] {
			t.Errorf("degree %d takes %d products and depth %d, want %v", degree, n, Depth(degree), want)
		}
	}
}

// TestSplit: high*T_g + low is the polynomial.
func TestSplit(t *testing.T) {
	each(t, func(t *testing.T, c *Composition) {
		for k := range c.Stages {
			s := &c.Stages[k]
			g, high, low := Split(s.Coef)
			for _, x := range []float64{-1, -0.3, 0, 0.01, 0.77, 1} {
				h, l := Stage{Coef: high}, Stage{Coef: low}
				got := h.At(x)*math.Cos(float64(g)*math.Acos(x)) + l.At(x)
				if math.Abs(got-s.At(x)) > 1e-12 {
					t.Fatalf("degree %d at %g: %g, want %g", s.Degree(), x, got, s.At(x))
				}
			}
		}
	})
}
