package program

import (
	"math"
	"testing"
)

// TestLimitCovers compares the promise with the exact tails of the two laws that
// errors lie between.
func TestLimitCovers(t *testing.T) {
	// Laplace with deviation 1: P(|x| > k) = exp(-k*sqrt 2).
	l := laplace(1).limit()
	if p := math.Exp(-l * math.Sqrt2); p > failure {
		t.Errorf("Laplace: exceeded with probability %g, want at most %g", p, failure)
	}
	if exact := math.Log(1/failure) / math.Sqrt2; l > 1.35*exact {
		t.Errorf("Laplace: limit %.1f deviations, exact is %.1f", l, exact)
	}
	n := spread{sd: 1}.limit()
	if p := math.Erfc(n / math.Sqrt2); p > failure {
		t.Errorf("normal: exceeded with probability %g, want at most %g", p, failure)
	}
	if n > 9 {
		t.Errorf("normal: limit %.1f deviations", n)
	}
	// Averages of many slots tend to the normal law.
	if m := laplace(1).sum(4096).times(1.0 / 64).limit(); m > 9.2 || m < n {
		t.Errorf("average of 4096 Laplace errors: limit %.2f deviations, normal has %.2f", m, n)
	}
	if (spread{}).limit() != 0 {
		t.Error("no error has a limit other than 0")
	}
}

func TestSpreadSums(t *testing.T) {
	a, b := laplace(3), laplace(4)
	if s := a.plus(b); math.Abs(s.sd-5) > 1e-12 {
		t.Errorf("independent: deviation %g, want 5", s.sd)
	}
	if s := a.with(b); s.sd != 7 || math.Abs(s.tail-7/math.Sqrt2) > 1e-12 {
		t.Errorf("dependent: %+v, want deviation 7 with the same shape", s)
	}
	if s := a.with(a); math.Abs(s.limit()-2*a.limit()) > 1e-6*s.limit() {
		t.Errorf("twice an error: limit %g, want %g", s.limit(), 2*a.limit())
	}
	if s := a.with(spread{}); s != a {
		t.Errorf("nothing added: %+v", s)
	}
	d := deviation{own: laplace(1), common: laplace(1), fixed: 1}
	if s := d.sum(16, 10); s.own.sd != 4 || s.common.sd != 10 || s.fixed != 16 {
		t.Errorf("sum over slots: %+v", s)
	}
	if l := d.limit(); math.Abs(l-(2*laplace(1).limit()+1)) > 1e-6*l {
		t.Errorf("limit %g: the parts of an error are not said to be independent", l)
	}
	if s := d.shared(); s.own.sd != 0 || s.common.sd != 2 {
		t.Errorf("shared: %+v", s)
	}
}

// TestSlotNoiseIsNotNormal measures why promises are not counted in standard
// deviations: fresh noise has heavier tails than the normal law, whose kurtosis
// is 3. A sum of two independent Laplace errors has 4.5.
func TestSlotNoiseIsNotNormal(t *testing.T) {
	b := testBench(t, "edge12-d1")
	scale := b.ctx.Parameters().DefaultScale()
	var m2, m4, n float64
	for range 12 {
		ct, err := b.enc.EncryptReal(nil, 0, scale, nil)
		if err != nil {
			t.Fatal(err)
		}
		slots, err := b.dec.DecryptReal(ct)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range slots {
			m2, m4, n = m2+v*v, m4+v*v*v*v, n+1
		}
	}
	sd := math.Sqrt(m2 / n)
	if want := b.ctx.Parameters().Noise().FreshPK(scale); sd < want/1.2 || sd > want*1.2 {
		t.Errorf("deviation %g, the model says %g", sd, want)
	}
	if k := m4 / n / (sd * sd * sd * sd); k < 3.7 || k > 6 {
		t.Errorf("kurtosis %.2f, want about 4.5", k)
	} else {
		t.Logf("kurtosis %.2f over %.0f slots", k, n)
	}
}

// TestRotationNoise holds the bound for the noise of a sum over slots against its exact
// law. Rotation i by 2^i adds its noise, which later rotations copy, to the slots that
// are multiples of 2^(i+1); the noise in a slot is normal with the key's value there as
// deviation, and that value, the same for every rotation, is complex normal. So slot m,
// met by k rotations, contributes -log(1 - k*t^2/2) to the logarithm of the generating
// function.
func TestRotationNoise(t *testing.T) {
	for stages := 1; stages <= 12; stages++ {
		n := 1 << stages
		met := make([]int, n)
		for i := range stages {
			for m := 0; m < n; m += 2 << i {
				met[m]++
			}
		}
		s := rotations(1, stages, n-1)
		if total := sumInts(met); math.Abs(s.sd*s.sd-float64(total)) > 1e-9*float64(total) {
			t.Errorf("%d slots: variance %g, want %d", n, s.sd*s.sd, total)
		}
		for part := 0.01; part < 1; part += 0.01 {
			x := part / s.tail
			exact := 0.0
			for _, k := range met {
				exact -= math.Log(1 - float64(k)*x*x/2)
			}
			if bound := s.sd * s.sd * x * x / 2 / (1 - part*part); exact > bound*(1+1e-9) {
				t.Errorf("%d slots at t = %.3f: the exact law has %.4f, the bound is %.4f", n, x, exact, bound)
				break
			}
		}
	}
}

func sumInts(v []int) (sum int) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// TestEveryNoiseIsCounted adds up the variances of a plan's noises, as if all of them were
// independent, and holds each step's error against that: a promise may count more, for
// what may depend on each other, but never less.
func TestEveryNoiseIsCounted(t *testing.T) {
	for _, set := range []string{"edge13-d3", "std14-d5"} {
		noise := mustParams(t, set).Noise()
		kinds := map[stepOp]int{}
		for _, expr := range samplePrograms {
			c := mustCompile(t, set, expr)
			sd := make([]float64, len(c.steps)) // of the value in a slot
			for i := range c.steps {
				s := &c.steps[i]
				kinds[s.op]++
				a, b := &c.steps[s.a], &c.steps[s.b]
				x, y := sd[s.a], sd[s.b]
				product := math.Hypot(x*b.mag, y*a.mag)
				switched := noise.KeySwitch(s.level, s.scale)
				switch s.op {
				case stepInput:
					sd[i] = noise.FreshPK(s.scale)
				case stepMulInt:
					sd[i] = x * math.Abs(s.k) * a.scale / s.scale
				case stepAdd, stepSub:
					sd[i] = math.Hypot(x, y)
				case stepMul:
					sd[i] = math.Hypot(product, switched)
				case stepMulRescale:
					sd[i] = math.Hypot(math.Hypot(product, noise.KeySwitch(a.level, a.scale*b.scale)),
						noise.Rescale(s.scale))
				case stepMulPlain:
					sd[i] = math.Hypot(x, noise.Encode(s.plain.scale)*a.mag)
				case stepRescale:
					sd[i] = math.Hypot(x, noise.Rescale(s.scale))
				case stepRotate:
					sd[i] = math.Hypot(x, switched)
				case stepSum:
					slots := s.k
					if s.mag == a.mag { // only one of them holds a value
						slots = 1
					}
					sd[i] = math.Hypot(x*math.Sqrt(slots), switched*math.Sqrt(s.k-1))
				default:
					sd[i] = x
				}
				if counted := math.Hypot(s.dev.own.sd, s.dev.common.sd); counted < sd[i]*(1-1e-9) {
					t.Errorf("%s: step %d (%s) counts a deviation of %g, its noises have %g", expr, i, s,
						counted, sd[i])
					break
				}
			}
		}
		for op, name := range stepNames {
			if kinds[stepOp(op)] == 0 && stepOp(op) != stepGather && // see TestAcrossDevices
				stepOp(op) != stepBootstrap && stepOp(op) != stepNote { // see TestDeepPrograms; not in plans
				t.Errorf("no program of %s has a %s", set, name)
			}
		}
	}
}

// TestRoundedFactorIsCounted: what a factor lost by rounding stays in the error, also
// where the factor comes out as one.
func TestRoundedFactorIsCounted(t *testing.T) {
	p := &planner{ch: newChain(mustParams(t, "edge13-d3")), src: &source{}, memo: map[stepKey]int{}}
	a := p.add(step{op: stepInput, level: 1, scale: 0x1p29, mag: 1, dev: deviation{own: laplace(1)}})
	for _, r := range []float64{0.9, 1} {
		w := p.scaleBy(a, 1, 0x1p29, r, 1-r)
		if d := p.get(w).dev; d.fixed != 1-r || d.own.sd != 1 {
			t.Errorf("one time for %g times: error %+v", r, d)
		}
	}
}

// TestPromisesStayTight holds promises against those of their parts: what the planner
// adds to them (masks, common scales, other levels) must not be felt.
func TestPromisesStayTight(t *testing.T) {
	const set = "edge13-d3"
	vars := testVars(set, 20)
	one := 1
	low := testStream("low", set, 20, [2]float64{-40, 125})
	low.Level = &one
	low.LogScale = 27
	vars["l"] = Var{"b", low, 0}
	bound := func(expr string) float64 {
		c, err := Compile(Source{Name: "p", Expr: expr, Vars: vars}, mustParams(t, set))
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		return c.out.Bound
	}
	// What depends on each other adds up: (x+e)^2 is off by up to 2e.
	for expr, times := range map[string]float64{"x^2": 2, "x + x^2": 3, "x*y": 25, "x^4": 4} {
		if b := bound(expr); b < 0.99*times*bound("x") {
			t.Errorf("%s: promises %g, less than %g times %g", expr, b, times, bound("x"))
		}
	}
	for _, c := range []struct {
		expr  string
		parts float64
	}{
		{"y - mean(y)", 1.35 * bound("y")},
		{"l - 0.7*w", bound("l") + 0.7*bound("w")},
		{"x + l/1000", bound("x") + bound("l")/1000},
		{"0.37*x - y/3 + z", 0.37*bound("x") + bound("y")/3 + bound("z")},
		{"y + w", math.Hypot(bound("y"), bound("w"))},
		{"mean(y)", bound("y") / math.Sqrt(20)},
		{"mean(x)*mean(l)", 125*bound("mean(x)") + bound("mean(l)")},
	} {
		if b := bound(c.expr); b > 1.1*c.parts {
			t.Errorf("%s: promises %g, its parts %g", c.expr, b, c.parts)
		}
	}
}

func TestSet(t *testing.T) {
	for _, i := range []int{0, 1, 63, 64, 100, 500} {
		a := set{}.with(i)
		for _, k := range []int{0, 1, 63, 64, 100, 500} {
			if b := (set{}).with(2).or(set{}.with(k)); a.meets(b) != (i == k) || b.meets(a) != (i == k) {
				t.Errorf("{%d} meets {2, %d}: %v", i, k, a.meets(b))
			}
		}
	}
}

// TestOperationsAddNoise: what each operation adds, to ciphertexts that have no error.
func TestOperationsAddNoise(t *testing.T) {
	params := mustParams(t, "edge13-d3")
	noise := params.Noise()
	for name, op := range map[string]func(p *planner, a int) int{
		"product":  func(p *planner, a int) int { return p.mul(a, a) },
		"rotation": func(p *planner, a int) int { return p.rotate(a, 5) },
		"sum":      func(p *planner, a int) int { return p.sum(a, 8, 8) },
		"mask":     func(p *planner, a int) int { return p.mulPlain(a, []float64{1}, 0, "mask") },
		"rescaled": func(p *planner, a int) int { return p.rescale(a) },
	} {
		p := &planner{ch: newChain(params), src: &source{}, memo: map[stepKey]int{}, pol: policy{keep: math.Inf(1)}}
		w := op(p, p.add(step{op: stepInput, level: 3, scale: 0x1p40, mag: 1}))
		if p.err != nil {
			t.Errorf("%s: %v", name, p.err)
			continue
		}
		s := p.get(w)
		switched := noise.KeySwitch(s.level, s.scale)
		want := map[string]float64{"product": switched, "rotation": switched * math.Sqrt2,
			"sum":      switched * math.Sqrt(7),
			"rescaled": noise.Rescale(s.scale)}[name]
		if name == "mask" {
			want = noise.Encode(s.plain.scale)
		}
		if got := s.dev.own.sd; math.Abs(got-want) > 1e-9*want || want == 0 {
			t.Errorf("%s: deviation %g, want %g", name, got, want)
		}
	}
}
