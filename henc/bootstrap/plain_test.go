package bootstrap

import (
	"maps"
	"math"
	"math/bits"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// apply is the product of the factors and a vector, by the definition of diagonals.
func apply(factors []matrix, z []complex128) []complex128 {
	for _, m := range factors {
		next := make([]complex128, len(z))
		for k, d := range m.diagonals {
			for j := range next {
				next[j] += d[j] * z[(j+k)%len(z)]
			}
		}
		z = next
	}
	return z
}

func reversed(a []complex128, slots int) []complex128 {
	out := make([]complex128, len(a))
	for i := range a {
		j := int(bits.Reverse64(uint64(i%slots)) >> (64 - bits.Len(uint(slots-1))))
		out[i] = a[i-i%slots+j]
	}
	return out
}

// TestFactors: the factors are the sum f(zeta^(5^j)) term by term and its inverse, for all slots
// and for repeated ones.
func TestFactors(t *testing.T) {
	const n = 64
	for _, c := range []struct {
		slots  int
		groups []int
	}{{64, []int{6}}, {64, []int{2, 2, 2}}, {64, []int{3, 2, 1}}, {16, []int{2, 2}}, {2, []int{1}}} {
		a, want := make([]complex128, n), make([]complex128, n)
		for k := range c.slots { // the coefficients repeat as the slots do
			v := complex(rand.Float64()-0.5, rand.Float64()-0.5)
			for i := k; i < n; i += c.slots {
				a[i] = v
			}
		}
		power := 1
		for j := range c.slots {
			for k := range c.slots {
				want[j] += a[k] * cmplx.Rect(1, math.Pi*float64(power*k%(4*c.slots))/float64(2*c.slots))
			}
			power = power * 5 % (4 * c.slots)
		}
		for i := range want {
			want[i] = want[i%c.slots]
		}
		got := apply(matrices(evaluation(n, c.groups)), reversed(a, c.slots))
		back := apply(matrices(interpolation(n, c.groups)), want)
		for i := range got {
			if cmplx.Abs(got[i]-want[i]) > 1e-12 {
				t.Fatalf("%v: slot %d is %v, want %v", c.groups, i, got[i], want[i])
			}
			if e := cmplx.Abs(back[i]/complex(float64(c.slots), 0) - reversed(a, c.slots)[i]); e > 1e-12 {
				t.Fatalf("%v: coefficient %d is off by %g", c.groups, i, e)
			}
		}
	}
}

// clenshaw is the value of a Chebyshev series.
func clenshaw(c []float64, y float64) float64 {
	b1, b2 := 0.0, 0.0
	for k := len(c) - 1; k > 0; k-- {
		b1, b2 = 2*y*b1-b2+c[k], b1
	}
	return y*b1 - b2 + c[0]
}

// TestSineSeries: the series and the double angles are the sine to the error that sine.go states, and
// bounded as far as a coefficient can lie.
func TestSineSeries(t *testing.T) {
	c := cosine()
	if len(c) != chebyshev+1 {
		t.Fatalf("%d coefficients", len(c))
	}
	worst := map[float64]float64{} // largest error up to |x|
	limits := map[float64]float64{11.5: 0x1p-46, 12: 0x1p-34, 13: 0x1.1p-25, 14: 0x1p-18, 16.5: 0x1.1p-7}
	for i := -33000; i <= 33000; i++ {
		x := float64(i) / 2000
		u := (x - 0.25) / halfWidth
		v := clenshaw(c, 2*u*u-1)
		e := math.Abs(v - math.Cos(2*math.Pi*halfWidth/8*u))
		for t := range limits {
			if math.Abs(x) <= t {
				worst[t] = max(worst[t], e)
			}
		}
		for range doublings {
			v = 2*v*v - 1
		}
		if d := math.Abs(v - math.Sin(2*math.Pi*x)); math.Abs(u) <= 1 && d > 0x1p-40 {
			t.Fatalf("sine of 2*pi*%g is off by 2^%.1f", x, math.Log2(d))
		}
	}
	for x, limit := range limits {
		if worst[x] > limit {
			t.Errorf("up to %g the error is 2^%.1f, stated is 2^%.0f", x, math.Log2(worst[x]), math.Log2(limit))
		}
	}
}

// TestDivide: q*D_m + r is the series again, D_k = 2*T_k.
func TestDivide(t *testing.T) {
	for _, m := range []int{2, 4, 8} {
		for n := m + 1; n <= 2*m; n++ {
			c := make([]float64, n)
			for i := range c {
				c[i] = rand.Float64() - 0.5
			}
			q, r := divide(c, m)
			unit := make([]float64, m+1)
			unit[m] = 1
			for y := -1.0; y <= 1; y += 0.125 {
				value := func(c []float64) float64 { return 2*clenshaw(c, y) - c[0] }
				if d := value(q)*value(unit) + value(r) - value(c); math.Abs(d) > 1e-12 {
					t.Errorf("%d coefficients by D_%d at %g: off by %g", n, m, y, d)
				}
			}
		}
	}
}

// matrices are factors with their values. Their diagonals are those that are stated.
func matrices(fs []factor) (ms []matrix) {
	for _, f := range fs {
		ms = append(ms, f.matrix())
	}
	return ms
}

// TestDiagonals: the indices without the values are those of the matrices.
func TestDiagonals(t *testing.T) {
	for _, groups := range [][]int{{1, 1}, {3, 3, 3}, {2, 3}, {4}} {
		for _, f := range append(evaluation(512, groups), interpolation(512, groups)...) {
			got, want := f.diagonals(), slices.Collect(maps.Keys(f.matrix().diagonals))
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%+v: diagonals %v, the matrix has %v", f, got, want)
			}
		}
	}
}

// TestTimes: messages come near the largest scale at any scale, and the promise is about that of the largest.
func TestTimes(t *testing.T) {
	for _, set := range henc.BootstrapNames() {
		p, err := henc.NamedBootstrap(set)
		if err != nil {
			t.Fatal(err)
		}
		lit, err := LiteralOf(p)
		if err != nil {
			t.Fatal(err)
		}
		pl, err := NewPlan(p, lit)
		if err != nil {
			t.Fatal(err)
		}
		for b := 0.0; b < math.Log2(pl.MaxScale()); b += 0.01 {
			off := math.Log2(pl.multiplied(math.Exp2(b)) / pl.largest)
			if off > 1./128 || off < -1 {
				t.Fatalf("%s at 2^%.2f: 2^%.2f times the largest scale", set, b, off)
			}
			if sd, fixed := pl.Error(math.Exp2(b)); sd < math.Exp2(lit.LogError) || sd > 2*math.Exp2(lit.LogError) ||
				!(fixed > 0) {
				t.Fatalf("%s at 2^%.2f: errors of 2^%.2f and 2^%.2f", set, b, math.Log2(sd), math.Log2(fixed))
			}
		}
		ratio := math.Log2(pl.modulus() / pl.message)
		t.Logf("%s: ratio 2^%.2f, sine at 2^%.2f, operand 2^%.2f", set, ratio,
			math.Log2(sineScale(p, p.MaxLevel()-lit.ToSlots)), math.Log2(pl.working/2))
		x := 2 * math.Pi / math.Exp2(ratio)
		if _, fixed := pl.Error(pl.MaxScale()); math.Abs(fixed/(x*x/6)-1) > 1e-9 {
			t.Errorf("%s: the sine is off by at most 2^%.2f", set, math.Log2(fixed))
		}
	}
}
