package program

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/henc"
)

// readOutput applies an Output to decrypted slots.
func readOutput(slots []float64, out Output) []float64 {
	if out.Whole > 0 {
		return out.Values(slots)
	}
	v := make([]float64, out.Count)
	for i := range v {
		v[i] = out.A*slots[(out.Slot+i)%len(slots)] + out.B
		if out.Sqrt {
			v[i] = math.Sqrt(max(v[i], 0))
		}
	}
	return v
}

// worst is the largest error of a result against the plaintext truth.
func (b *bench) worst(t testing.TB, c *Circuit, rng *rand.Rand) float64 {
	t.Helper()
	cts, plain := b.sample(t, c, rng)
	ct, out, err := c.Run(b.evaluator(t, c), cts)
	if err != nil {
		t.Fatalf("%s: %v", c.prog.Expr, err)
	}
	got := b.decrypt(t, ct, out)
	want, err := c.Reference(plain)
	if err != nil {
		t.Fatalf("%s: %v", c.prog.Expr, err)
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", c.prog.Expr, len(got), len(want))
	}
	worst := 0.0
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

// programs that every multiplying parameter set with room can run.
var samplePrograms = []string{
	"x", "-y", "2*x - 3", "x + y", "0.37*x - y/3 + z", "x - w + prev(x)",
	"sum(y)", "mean(x)", "mean(t) + mean(y)", "mean(x + y - z)",
	"var(y)", "std(y)", "rms(y)", "rms(x)", "cov(x, y)", "cov(x, w)", "3*std(z)",
	"x*y", "x*y + 0.5*z", "mean(x)*mean(prev(y))", "mean(x*y) - mean(x)*mean(y)",
	"x^2", "poly(y, [1, -2, 0.5])", "poly(mean(y), [0, 0, 1])",
	"mean((y - mean(y))^2)", "x - mean(x)", "let d = y - prev(y); mean(d*d)",
	"sqrt(mean(x)^2 + mean(z)^2)", "dot(s, [1, -0.5, 0.25, 0, 2]) + mean(t)", "dot(x, y)", "lag(y, 3) - y",
	"mean(s)*mean(x)", "s*mean(x)",
}

func TestRunWithinPromise(t *testing.T) {
	for _, set := range []string{"edge12-d1", "edge13-d3", "edge13-d2p"} {
		b := testBench(t, set)
		vars := testVars(set, 20)
		ran := 0
		for i, expr := range samplePrograms {
			c, err := Compile(Source{Name: "p", Expr: expr, Vars: vars}, b.ctx.Parameters())
			if err != nil {
				if errors.Is(err, ErrDepth) || errors.Is(err, ErrMagnitude) {
					continue
				}
				t.Errorf("%s: %s: %v", set, expr, err)
				continue
			}
			ran++
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			if w := b.worst(t, c, rng); w > c.out.Bound {
				t.Errorf("%s: %s: error %.3g, promised %.3g", set, expr, w, c.out.Bound)
			} else {
				t.Logf("%s: %-40s error %.3g, promised %.3g, ratio %.0f", set, expr, w, c.out.Bound, c.out.Bound/w)
			}
		}
		if set != "edge12-d1" && ran < len(samplePrograms)-4 {
			t.Errorf("%s: only %d of %d programs fit", set, ran, len(samplePrograms))
		}
	}
}

// TestRandomProgramsWithinPromise draws programs with fixed seeds and runs them
// on real ciphertexts.
func TestRandomProgramsWithinPromise(t *testing.T) {
	for _, c := range []struct {
		set   string
		count int
	}{{"edge12-d1", 12}, {"edge13-d3", 10}, {"edge13-d2p", 8}, {"std14-d5", 2}} {
		b := testBench(t, c.set)
		vars := testVars(c.set, testSamples)
		for i, ran := 0, 0; ran < c.count && i < 20*c.count; i++ {
			expr := rapid.Custom(func(rt *rapid.T) string { return genExpr{rt}.program() }).Example(i)
			circuit, err := compile(Source{Name: "p", Expr: expr, Vars: vars}, b.ctx.Parameters())
			if err != nil || len(circuit.steps) < 4 || circuit.Explain().KeySwitch > 40 {
				continue
			}
			ran++
			if w := b.worst(t, circuit, rand.New(rand.NewPCG(2, uint64(i)))); w > circuit.out.Bound {
				t.Errorf("%s: %s: error %.3g, promised %.3g", c.set, expr, w, circuit.out.Bound)
			} else {
				t.Logf("%s: %s: error %.3g, promised %.3g", c.set, expr, w, circuit.out.Bound)
			}
		}
	}
}

// TestLowered: results that leave at a lower level than their scale lets them fit keep their promise. It is at most a
// quarter larger than that of the program as it was planned before, whose results are read as before.
func TestLowered(t *testing.T) {
	for _, c := range []struct {
		set     string
		samples int
		count   int
	}{
		{"edge12-d1", 20, 12}, {"edge12-d1", 128, 6}, {"edge13-d3", 128, 4}, {"edge13-d2p", 20, 10},
		{"std14-d5", 128, 3},
	} {
		b := testBench(t, c.set)
		p, vars := b.ctx.Parameters(), testVars(c.set, c.samples)
		exprs := []string{"mean(x)", "sum(y) - mean(w)", "var(x)", "std(y)"}
		for i := range 30 * c.count {
			exprs = append(exprs, rapid.Custom(func(rt *rapid.T) string { return genExpr{rt}.program() }).Example(i))
		}
		ran, lower := 0, 0
		for i, expr := range exprs {
			src := Source{Name: "p", Expr: expr, Vars: vars}
			now, err := compile(src, p)
			src.Earlier = true
			before, err2 := compile(src, p)
			if (err == nil) != (err2 == nil) {
				t.Errorf("%s: %s: %v, and as it was before %v", c.set, expr, err, err2)
			}
			if err != nil || err2 != nil {
				continue
			}
			if now.Level() > before.Level() || now.Hash() != before.Hash() {
				t.Errorf("%s: %s: level %d, before %d", c.set, expr, now.Level(), before.Level())
			}
			if most := before.out.raw() * resultLoss; now.out.raw() > most {
				t.Errorf("%s: %s: promised %.3g, before %.3g", c.set, expr, now.out.raw(), before.out.raw())
			}
			if now.Level() == before.Level() || ran >= c.count || now.Explain().KeySwitch > 40 {
				continue
			}
			ran++
			lower += before.Level() - now.Level()
			for _, circuit := range []*Circuit{now, before} {
				if w := b.worst(t, circuit, rand.New(rand.NewPCG(4, uint64(i)))); w > circuit.out.Bound {
					t.Errorf("%s: %s at level %d: error %.3g, promised %.3g", c.set, expr, circuit.Level(), w,
						circuit.out.Bound)
				}
			}
		}
		if c.set != "edge13-d3" && lower == 0 { // level 0 of edge13-d3 is large enough for its results
			t.Errorf("%s: of %d programs none has a result at a lower level", c.set, len(exprs))
		}
		t.Logf("%s: %d programs ran, %d levels fewer", c.set, ran, lower)
	}
}

// TestLoweredShare: programs whose results leave at a lower level share as many key switches as they did before.
func TestLoweredShare(t *testing.T) {
	for _, set := range []string{"edge12-d1", "edge13-d2p", "std14-d5"} {
		p, lower := mustParams(t, set), 0
		for _, samples := range []int{64, 256} {
			var now, before []*Circuit
			for _, expr := range []string{"mean(x)", "var(x)", "cov(x, y)", "mean(w)"} {
				src := Source{Name: "p", Expr: expr, Vars: testVars(set, samples)}
				c, err := compile(src, p)
				if err != nil {
					continue // edge12-d1 has no level for products of a window
				}
				src.Earlier = true
				old, err := compile(src, p)
				if err != nil {
					t.Fatal(err)
				}
				now, before = append(now, c), append(before, old)
				lower += old.Level() - c.Level()
			}
			a, err := Fuse(nil, now...)
			b, err2 := Fuse(nil, before...)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			n, limbs := a.switches()
			m, most := b.switches()
			if n > m || limbs > most {
				t.Errorf("%s, %d samples: %d key switches with %d limbs together, before %d with %d", set, samples, n,
					limbs, m, most)
			}
		}
		if lower == 0 {
			t.Errorf("%s: no result leaves at a lower level", set)
		}
	}
}

// TestCoarse: the integers before a rescaling do not depend on the last bits of what they are made of.
func TestCoarse(t *testing.T) {
	for _, c := range [][2]float64{{0.99, 0}, {1, 1}, {31.9, 31}, {33.5, 32}, {63, 62}, {1000, 992},
		{0x1.ffp40, 0x1.fp40}, {math.Inf(1), 0}, {math.NaN(), 0}, {-3, 0}} {
		if got := coarse(c[0]); got != c[1] {
			t.Errorf("coarse(%g) = %g, want %g", c[0], got, c[1])
		}
	}
}

// TestPartialWindows: with fewer samples present the rest of the block is empty
// and does not count.
func TestPartialWindows(t *testing.T) {
	b := testBench(t, "edge13-d3")
	vars := testVars("edge13-d3", 20)
	full := Input{"a", "one", 0}
	for _, expr := range []string{"mean(y)", "std(y)", "y - mean(y)", "mean(y) - mean(w)"} {
		c, err := Compile(Source{Name: "p", Expr: expr, Vars: vars, Present: map[Input]int{full: 7}},
			b.ctx.Parameters())
		if err != nil {
			t.Fatal(err)
		}
		if w := b.worst(t, c, rand.New(rand.NewPCG(3, 3))); w > c.out.Bound {
			t.Errorf("%s: error %.3g, promised %.3g", expr, w, c.out.Bound)
		}
	}
}

// TestInputsStay: an input at a higher level than planned is brought
// down, and inputs stay as they were.
func TestInputsStay(t *testing.T) {
	b := testBench(t, "edge13-d3")
	vars := testVars("edge13-d3", 20)
	level := 1
	v := vars["x"]
	v.Stream.Level = &level
	v.Stream.LogScale = 29
	c, err := Compile(Source{Name: "p", Expr: "x", Vars: map[string]Var{"x": v}}, b.ctx.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	in := c.Inputs()[0]
	values := []float64{0.25, -0.5}
	ct, err := b.enc.EncryptReal(values, 3, math.Ldexp(1, 29), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, out, err := c.Run(b.evaluator(t, c), map[Input]*henc.Ciphertext{in: ct})
		if err != nil {
			t.Fatal(err)
		}
		if v := b.decrypt(t, got, out); math.Abs(v[0]-0.25) > out.Bound || math.Abs(v[1]+0.5) > out.Bound {
			t.Errorf("got %v", v[:2])
		}
		if got.Value == ct.Value {
			t.Error("the result shares the input's memory")
		}
		b.ctx.Ring().Free(got.Value)
	}
	if back, err := b.dec.DecryptReal(ct); err != nil || math.Abs(back[0]-0.25) > 0.01 {
		t.Errorf("the input changed: %v %v", back[:2], err)
	}
}

// TestTrimmedFactors: a window less its mean holds many bits more than it means, which
// left no room for its powers where the window is long.
func TestTrimmedFactors(t *testing.T) {
	const set = "edge13-d3"
	b := testBench(t, set)
	for _, samples := range []int{1024, 4096} {
		vars := map[string]Var{"v": {"a", testStream("one", set, samples, [2]float64{-0.5, 0.5}), 0}}
		for _, expr := range []string{"mean((v - mean(v))^3)", "mean((v - mean(v))^4)"} {
			c, err := Compile(Source{Name: "p", Expr: expr, Vars: vars}, b.ctx.Parameters())
			if err != nil {
				t.Errorf("%d samples: %v", samples, err)
				continue
			}
			if bits := c.Explain().Result.Bits; bits < 9 {
				t.Errorf("%s of %d samples: %.1f bits", expr, samples, bits)
			}
			checkPlain(t, c, rand.New(rand.NewPCG(9, 9)))
			if w := b.worst(t, c, rand.New(rand.NewPCG(9, uint64(samples)))); w > c.out.Bound {
				t.Errorf("%s of %d samples: error %.3g, promised %.3g", expr, samples, w, c.out.Bound)
			}
		}
	}
}

func TestRunRefuses(t *testing.T) {
	b := testBench(t, "edge13-d3")
	c := mustCompile(t, "edge13-d3", "mean(x*y)")
	in := c.Inputs()[0]
	fresh := func(level int, scale float64) *henc.Ciphertext {
		ct, err := b.enc.EncryptReal([]float64{1}, level, scale, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ct
	}
	good := fresh(3, 0)
	other, err := henc.NewContext(mustParams(t, "edge12-d1"))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]struct {
		ev     *henc.Evaluator
		inputs map[Input]*henc.Ciphertext
		want   error
	}{
		"no input":         {b.evaluator(t, c), nil, ErrInput},
		"low level":        {b.evaluator(t, c), map[Input]*henc.Ciphertext{in: fresh(2, 0)}, ErrInput},
		"another scale":    {b.evaluator(t, c), map[Input]*henc.Ciphertext{in: fresh(3, 0x1p28)}, ErrInput},
		"no keys":          {henc.NewEvaluator(b.ctx, nil), map[Input]*henc.Ciphertext{in: good}, henc.ErrNoKey},
		"other parameters": {henc.NewEvaluator(other, nil), map[Input]*henc.Ciphertext{in: good}, ErrParams},
		"no evaluator":     {nil, map[Input]*henc.Ciphertext{in: good}, ErrParams},
	} {
		if _, _, err := c.Run(r.ev, r.inputs); !errors.Is(err, r.want) {
			t.Errorf("%s: error %v, want %v", name, err, r.want)
		}
	}
	if _, err := c.Reference(map[string][]float64{"x": make([]float64, 3)}); !errors.Is(err, ErrInput) {
		t.Errorf("reference with a short window: %v", err)
	}
	if _, err := c.Reference(nil); !errors.Is(err, ErrInput) {
		t.Errorf("reference without windows: %v", err)
	}
	if err := c.CheckInput(Input{"no", "such", 0}, 3, 1); !errors.Is(err, ErrInput) {
		t.Errorf("unknown input: %v", err)
	}
}

// TestConcurrentRuns: one circuit serves several workers.
func TestConcurrentRuns(t *testing.T) {
	b := testBench(t, "edge12-d1")
	c := mustCompile(t, "edge12-d1", "s - mean(s)")
	ev := b.evaluator(t, c)
	cts, plain := b.sample(t, c, rand.New(rand.NewPCG(4, 4)))
	want, err := c.Reference(plain)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			ct, out, err := c.Run(ev, cts)
			if err != nil {
				t.Error(err)
				return
			}
			slots, err := b.dec.DecryptReal(ct)
			if err != nil {
				t.Error(err)
				return
			}
			for i, v := range readOutput(slots, out) {
				if math.Abs(v-want[i]) > out.Bound {
					t.Errorf("value %d is %g, want %g within %g", i, v, want[i], out.Bound)
				}
			}
		})
	}
	wg.Wait()
}

// TestCoarseMask: the mask that picks a value does not round to zeros where a program
// is so inexact that a coarse mask would seem good enough.
func TestCoarseMask(t *testing.T) {
	b := testBench(t, "edge12-d1")
	for logScale := 15; logScale <= 20; logScale++ {
		st := testStream("one", "edge12-d1", 4, [2]float64{-1, 1})
		st.LogScale = logScale
		c, err := Compile(Source{Name: "p", Expr: "mean(x) + 0*x", Vars: map[string]Var{"x": {"a", st, 0}}},
			b.ctx.Parameters())
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for i := range 5 {
			worst = max(worst, b.worst(t, c, rand.New(rand.NewPCG(1, uint64(i)))))
		}
		if worst > c.out.Bound {
			t.Errorf("scale 2^%d: error %.3g, promised %.3g", logScale, worst, c.out.Bound)
		}
		slots := make([]float64, b.ctx.Parameters().Slots())
		slots[0] = 1
		for i := range c.steps {
			if p := c.steps[i].plain; p != nil {
				coeffs, err := b.ctx.Encoder().EncodeCoeffsReal(slots, p.scale)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(coeffs, func(v float64) bool { return v != 0 }) {
					t.Errorf("scale 2^%d: the mask at scale %g is zero", logScale, p.scale)
				}
			}
		}
	}
}

// TestPlaintextsOfEveryContext: with several devices a circuit encodes its plain
// values once for each, not anew whenever another one had its turn.
func TestPlaintextsOfEveryContext(t *testing.T) {
	c := mustCompile(t, "edge13-d3", "x - mean(x)")
	at := slices.IndexFunc(c.steps, func(s step) bool { return s.plain != nil })
	if at < 0 {
		t.Fatal("the program has no plain values")
	}
	first := map[*henc.Context]*henc.Plaintext{}
	var contexts []*henc.Context
	for range maxContexts + 1 {
		ctx, err := henc.NewContext(c.params)
		if err != nil {
			t.Fatal(err)
		}
		contexts = append(contexts, ctx)
	}
	for range 2 {
		for _, ctx := range contexts[:maxContexts] {
			pt, err := c.plaintext(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			if err := ctx.CheckPlaintext(pt); err != nil {
				t.Error(err)
			}
			if first[ctx] == nil {
				first[ctx] = pt
			} else if first[ctx] != pt {
				t.Error("encoded again")
			}
		}
	}
	if _, err := c.plaintext(contexts[maxContexts], at); err != nil || len(c.encoded) != maxContexts {
		t.Errorf("%d contexts are kept, want %d: %v", len(c.encoded), maxContexts, err)
	}
}
