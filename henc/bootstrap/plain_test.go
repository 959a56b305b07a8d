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
		got := apply(matrices(toSlots(n, c.groups)), reversed(a, c.slots))
		back := apply(matrices(toCoefficients(n, c.groups)), want)
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
	limits := map[float64]float64{8.5: 0x1p-47, 10: 0x1p-34, 11: 0x1p-26, 13: 0x1p-15, 16.5: 0x1p-2}
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
		for _, f := range append(toSlots(512, groups), toCoefficients(512, groups)...) {
			got, want := f.diagonals(), slices.Collect(maps.Keys(f.matrix().diagonals))
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%+v: diagonals %v, the matrix has %v", f, got, want)
			}
		}
	}
}

// TestSpread: the polynomial p has the weight, the least magnitude in a slot and the largest coefficients of its
// products with messages that spread.go states, and the last factor of SlotsToCoeffs divides by it.
func TestSpread(t *testing.T) {
	weight := 0
	for _, s := range spreadSigns {
		weight += int(s * s)
	}
	if weight != spreadWeight {
		t.Errorf("weight %d", weight)
	}
	least, sum := math.Inf(1), 0.0
	for j := range spreadDegree / 2 {
		v := cmplx.Abs(spreadAt(j))
		least, sum = min(least, v), sum+v*v
	}
	if least < spreadLeast || math.Abs(sum-spreadWeight*spreadDegree/2) > 1e-9 {
		t.Errorf("the least magnitude is %g, the mean square %g", least, sum*2/spreadDegree)
	}
	for _, slots := range []int{16, 32, 512} {
		peak := 0.0
		for k := range 2 * slots {
			mean, power := 0.0, 1
			for j := range slots {
				w := cmplx.Rect(1, -math.Pi*float64(power*k%(4*slots))/float64(2*slots))
				mean += math.Abs(real(spreadAt(j)*w)) / float64(slots)
				power = power * 5 % (4 * slots)
			}
			peak = max(peak, mean)
		}
		t.Logf("%d slots: coefficients of at most %.3f", slots, peak)
		if peak > spreadPeak {
			t.Errorf("%d slots: a coefficient of %g", slots, peak)
		}
	}
}

// TestUnspread: the factors give the slots of a polynomial, and with p divided out those over p.
func TestUnspread(t *testing.T) {
	const n = 32
	a := make([]complex128, n)
	for i := range a {
		a[i] = complex(rand.Float64()-0.5, rand.Float64()-0.5)
	}
	plain, divided := matrices(toSlots(n, []int{2, 3})), matrices(toSlots(n, []int{2, 3}))
	divided[1].unspread()
	got := apply(divided, a)
	for j, v := range apply(plain, a) {
		if d := cmplx.Abs(got[j]*spreadAt(j)/complex(spreadNorm, 0) - v); d > 1e-12 {
			t.Errorf("slot %d is off by %g", j, d)
		}
	}
}

// TestRaiseBy: messages come near the message ratio at any scale, and p is a factor where it fits.
func TestRaiseBy(t *testing.T) {
	for _, set := range []string{"boot15", "boot16"} {
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
		if _, spread := pl.raiseBy(1.05 * p.ScaleAt(0)); !spread {
			t.Errorf("%s: messages of the scale of level 0 are not spread", set)
		}
		if _, spread := pl.raiseBy(pl.MaxScale()); spread {
			t.Errorf("%s: messages of the largest scale are spread", set)
		}
		for b := 0.0; b < math.Log2(pl.MaxScale()); b += 0.01 {
			scale := math.Exp2(b)
			ratio := math.Log2(pl.modulus() / pl.raised(scale))
			if ratio < float64(lit.LogRatio)-0.2501 || ratio > float64(lit.LogRatio)+1 {
				t.Fatalf("%s at 2^%.2f: the ratio is 2^%.2f", set, b, ratio)
			}
		}
		// The promise at the scale of level 0 is hardly above that of an integral factor alone.
		room := pl.MaxScale() / p.ScaleAt(0)
		x := 2 * math.Pi * math.Floor(math.Exp2(1./16)*room) / room * math.Exp2(-float64(lit.LogRatio))
		if _, fixed := pl.Error(p.ScaleAt(0)); fixed > 1.05*x*x/6 || fixed < x*x/12 {
			t.Errorf("%s: the sine is off by at most 2^%.2f", set, math.Log2(fixed))
		}
	}
}
