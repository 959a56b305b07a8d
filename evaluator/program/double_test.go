package program

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// precise is a number with enough bits to be exact in these tests.
func precise(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }

func multiplied(x ...*big.Float) *big.Float {
	p := precise(1)
	for _, v := range x {
		p.Mul(p, v)
	}
	return p
}

// TestOffsetsCancel: large offsets of channels do not cost the promise, which is about
// the exact value. The circuit runs on plain numbers, so what is left is arithmetic.
func TestOffsetsCancel(t *testing.T) {
	const set = "std14-d5"
	minus := func(a, b *big.Float) *big.Float { return new(big.Float).Sub(a, b) }
	for _, tt := range []struct {
		middle, half float64
		expr         string
		exact        func(x, y, z *big.Float) *big.Float
	}{
		{1e9 + 1.0/3, 1, "x*y - z*x", func(x, y, z *big.Float) *big.Float {
			return minus(multiplied(x, y), multiplied(z, x))
		}},
		{1e9 + 1.0/3, 1, "x^2 - y^2", func(x, y, z *big.Float) *big.Float {
			return minus(multiplied(x, x), multiplied(y, y))
		}},
		{1e9 + 1.0/3, 1, "x^3 - y^3", func(x, y, z *big.Float) *big.Float {
			return minus(multiplied(x, x, x), multiplied(y, y, y))
		}},
		{1e9 + 1.0/3, 1, "(x - y)*(y - z)", func(x, y, z *big.Float) *big.Float {
			return multiplied(minus(x, y), minus(y, z))
		}},
		{30000, 300, "poly(x - 29999.9, [0, 0, 0, 0, 1, 1])", func(x, y, z *big.Float) *big.Float {
			d := minus(x, precise(29999.9))
			return multiplied(d, d, d, d, minus(d, precise(-1)))
		}},
		{30000, 300, "poly(x, [-30000, 1, 0, 0]) * poly(y - 29990, [0, 0, 1, 1e-4])",
			func(x, y, z *big.Float) *big.Float {
				d := minus(y, precise(29990))
				return multiplied(minus(x, precise(30000)), d, d,
					new(big.Float).Add(precise(1), multiplied(precise(1e-4), d)))
			}},
	} {
		m, h := tt.middle, tt.half
		st := testStream("one", set, 4, [2]float64{m - h, m + h}, [2]float64{m - 1.125*h, m + 1.25*h},
			[2]float64{m - 1.5*h, m + 0.75*h})
		vars := map[string]Var{"x": {"a", st, 0}, "y": {"a", st, 1}, "z": {"a", st, 2}}
		c, err := Compile(Source{Name: "p", Expr: tt.expr, Vars: vars}, mustParams(t, set))
		if err != nil {
			t.Error(err)
			continue
		}
		slots, _ := plainInputs(c, rand.New(rand.NewPCG(1, 2)))
		got := readOutput(simulate(t, c, slots), c.out)
		sample := func(channel, i int) *big.Float {
			mid, half := st.Channels[channel].Affine()
			v := multiplied(precise(half), precise(slots[Input{"a", "one", 0}][channel*st.Stride()+i]))
			return v.Add(v, precise(mid))
		}
		for i, v := range got {
			off, _ := minus(tt.exact(sample(0, i), sample(1, i), sample(2, i)), precise(v)).Float64()
			if math.Abs(off) > c.out.Bound/4 {
				t.Errorf("%s around %g: value %d is off by %.3g before any noise, promised is %.3g", tt.expr, m, i, off,
					c.out.Bound)
			}
		}
	}
}

func TestDouble(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		draw := func() (double, *big.Float) {
			x := (rng.Float64() - 0.5) * math.Exp2(float64(rng.IntN(80)-40))
			y := x * 0x1p-54 * (rng.Float64() - 0.5)
			d := exactly(x).plus(exactly(y))
			return d, new(big.Float).Add(precise(x), precise(y))
		}
		a, x := draw()
		b, y := draw()
		near := func(what string, got double, want, of *big.Float) {
			sum := new(big.Float).Add(precise(got.hi), precise(got.lo))
			off, _ := sum.Sub(sum, want).Float64()
			size, _ := of.Float64()
			if math.Abs(off) > 0x1p-100*math.Abs(size) || math.Abs(got.lo) > 0x1p-53*math.Abs(got.hi) {
				t.Fatalf("%s of %v and %v: %v is off by %g", what, a, b, got, off)
			}
		}
		near("sum", a.plus(b), new(big.Float).Add(x, y),
			new(big.Float).Add(new(big.Float).Abs(x), new(big.Float).Abs(y)))
		near("product", a.times(b), multiplied(x, y), multiplied(x, y))
	}
	for _, v := range []float64{math.Inf(1), math.NaN(), 1e308} {
		if s := exactly(v).times(exactly(1e10)); finite(s.value()) || s.lo != 0 {
			t.Errorf("%g * 1e10 = %v", v, s)
		}
	}
	// The part that float64 drops.
	if d := exactly(0x1p60).plus(exactly(1)).plus(exactly(-0x1p60)); d.value() != 1 {
		t.Errorf("2^60 + 1 - 2^60 = %v", d)
	}
}

// TestConstantsThatRound: 1/50 is no float64, so that (x-50)/50 over 0..100 keeps an
// offset of 10^-17. What is left of it in the powers costs no scale, and so no level.
func TestConstantsThatRound(t *testing.T) {
	for _, expr := range []string{
		"mean(((x - 50) / 50)^3)", "((x - 50) / 50)^3", "((x - 50)*0.02)^2", "(x/50 - 1)^3",
		"((x - 50) / 50)^3 + ((x - 50) / 50)^2",
	} {
		st := testStream("one", "edge13-d2p", 16, [2]float64{0, 100})
		c, err := Compile(Source{Name: "p", Expr: expr, Vars: map[string]Var{"x": {"a", st, 0}}},
			mustParams(t, "edge13-d2p"))
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if c.out.Bound > 1e-5 {
			t.Errorf("%s: promises %g", expr, c.out.Bound)
		}
		slots, values := plainInputs(c, rand.New(rand.NewPCG(1, 2)))
		want, err := c.Reference(values)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range readOutput(simulate(t, c, slots), c.out) {
			if math.Abs(v-want[i]) > c.out.Bound {
				t.Errorf("%s: value %d is %g, want %g within %g", expr, i, v, want[i], c.out.Bound)
			}
		}
	}
}
