package program

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// simulate runs a circuit on plain slot vectors; see simulateAll.
func simulate(t fataler, c *Circuit, inputs map[Input][]float64) []float64 {
	t.Helper()
	return simulateAll(t, &c.routine, inputs)[0]
}

// simulateAll runs steps on plain slot vectors, without noise and without
// modulus, and checks that every slot stays within the planned magnitude. It
// shares only the list of steps with Run.
func simulateAll(t fataler, c *routine, inputs map[Input][]float64) [][]float64 {
	t.Helper()
	values := make([][]float64, len(c.steps))
	for i := range c.steps {
		checkScales(t, c, i)
		values[i] = simulateStep(c, &c.steps[i], values, inputs)
		checkRange(t, c, i, values[i])
	}
	var out [][]float64
	for _, i := range c.results {
		out = append(out, values[i])
	}
	return out
}

// checkScales checks that the operands of step i fit together, and give its scale.
func checkScales(t fataler, c *routine, i int) {
	t.Helper()
	s := &c.steps[i]
	if s.op == stepInput {
		return
	}
	a, b := &c.steps[s.a], &c.steps[s.b]
	switch s.op {
	case stepAdd, stepSub:
		if !near(a.scale, b.scale) || a.level != b.level {
			t.Fatalf("%s: step %d adds scales %g and %g at levels %d and %d", c.name, i, a.scale, b.scale, a.level,
				b.level)
		}
	case stepMul, stepMulRescale:
		if f := c.params.RescaleFactor(a.level); s.op == stepMulRescale && !near(s.scale*f, a.scale*b.scale) {
			t.Fatalf("%s: step %d rescales to another scale", c.name, i)
		}
		if a.level != b.level {
			t.Fatalf("%s: step %d multiplies across levels", c.name, i)
		}
	case stepRescale:
		if !near(s.scale*c.params.RescaleFactor(a.level), a.scale) {
			t.Fatalf("%s: step %d rescales to another scale", c.name, i)
		}
	}
}

// simulateStep returns the slots of a step, given those of the steps before it.
func simulateStep(c *routine, s *step, values [][]float64, inputs map[Input][]float64) []float64 {
	n := c.params.Slots()
	out := make([]float64, n)
	if s.op == stepInput {
		copy(out, inputs[s.in])
		return out
	}
	a, b := values[s.a], values[s.b]
	switch s.op {
	case stepMulInt:
		f := s.k * c.steps[s.a].scale / s.scale
		for j := range out {
			out[j] = a[j] * f
		}
	case stepAdd:
		for j := range out {
			out[j] = a[j] + b[j]
		}
	case stepSub:
		for j := range out {
			out[j] = a[j] - b[j]
		}
	case stepMul, stepMulRescale:
		for j := range out {
			out[j] = a[j] * b[j]
		}
	case stepMulPlain:
		for j, v := range s.plain.values {
			k := (s.plain.first + j) % n
			out[k] = a[k] * v
		}
	case stepRescale, stepDrop:
		copy(out, a)
	case stepRotate:
		for j := range out {
			out[j] = a[(j+int(s.k))%n]
		}
	case stepSum:
		for j := range out {
			for k := range int(s.k) {
				out[j] += a[(j+k)%n]
			}
		}
	}
	return out
}

// checkRange checks that the slots of step i stay within the planned magnitude, and this
// within the modulus.
func checkRange(t fataler, c *routine, i int, slots []float64) {
	t.Helper()
	s := &c.steps[i]
	largest := 0.0
	for _, v := range slots {
		largest = max(largest, math.Abs(v))
	}
	if largest > s.mag*(1+1e-9)+s.dev.fixed {
		t.Fatalf("%s: step %d (%s) reaches %g, planned at most %g", c.name, i, s, largest, s.mag)
	}
	if room := c.params.LogQ(s.level) - 1 - math.Log2(s.scale) - math.Log2(s.mag+s.dev.limit()); room < 0 {
		t.Fatalf("%s: step %d (%s) exceeds its modulus by %.2f bits", c.name, i, s, -room)
	}
	if err := c.params.CheckScale(s.level, s.scale); err != nil {
		t.Fatalf("%s: step %d: %v", c.name, i, err)
	}
}

// plainInputs draws windows: slots for the simulation and samples for
// Reference, also for variables that folding took out of the circuit.
func plainInputs(c *Circuit, rng *rand.Rand) (map[Input][]float64, map[string][]float64) {
	slots, samples := map[Input][]float64{}, map[string][]float64{}
	windows := 16
	for _, in := range c.Inputs() {
		windows = max(windows, in.Lag+1)
	}
	for _, name := range sortedKeys(c.prog.Vars) {
		v := c.prog.Vars[name]
		for lag := range windows {
			in := Input{v.Device, v.Stream.Name, lag}
			st, n := v.Stream, c.prog.present(in, v.Stream)
			if slots[in] == nil {
				slots[in] = make([]float64, st.Slots())
				extreme := rng.IntN(3) == 0
				for ch := range st.Channels {
					for i := range n {
						u := 2*rng.Float64() - 1
						if extreme {
							u = math.Copysign(1, u)
						}
						if !st.Histogram() {
							slots[in][ch*st.Stride()+i] = u
						}
					}
				}
			}
			mid, half := st.Channels[v.Channel].Affine()
			key := VarKey(name, in.Lag)
			samples[key] = make([]float64, n)
			if st.Histogram() {
				for i := range n {
					samples[key][i] = mid + half*(2*rng.Float64()-1)
				}
				countSlots(nil, slots[in][v.Channel*st.Stride():][:st.Stride()], st, v.Channel, samples[key], rng)
				continue
			}
			for i := range n {
				samples[key][i] = mid + half*slots[in][v.Channel*st.Stride()+i]
			}
		}
	}
	return slots, samples
}

// checkPlain holds a circuit, run without noise, against Reference.
func checkPlain(t fataler, c *Circuit, rng *rand.Rand) {
	t.Helper()
	slots, samples := plainInputs(c, rng)
	checkValues(t, c, readOutput(simulate(t, c, slots), c.out), samples)
}

// checkPlainSet is checkPlain for every program of a set. They have the same variables.
func checkPlainSet(t fataler, s *Set, rng *rand.Rand) {
	t.Helper()
	slots, samples := plainInputs(s.circuits[0], rng)
	for i, got := range simulateAll(t, &s.routine, slots) {
		checkValues(t, s.circuits[i], readOutput(got, s.circuits[i].out), samples)
	}
}

// checkValues holds what a circuit gives against Reference.
func checkValues(t fataler, c *Circuit, got []float64, samples map[string][]float64) {
	t.Helper()
	want, err := c.Reference(samples)
	if err != nil {
		t.Fatalf("%s: reference: %v", c.prog.Expr, err)
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", c.prog.Expr, len(got), len(want))
	}
	root := func(v float64) float64 {
		if c.out.Sqrt {
			return math.Sqrt(max(v, 0))
		}
		return v
	}
	lo, hi := c.lo, c.hi
	if c.out.Sqrt {
		lo, hi = root(lo), root(hi)
	}
	slack := 1e-9 * (math.Abs(lo) + math.Abs(hi) + 1e-30)
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= c.out.Bound) {
			t.Fatalf("%s on %s: value %d is %g, want %g within %g", c.prog.Expr, c.params.Name(), i, got[i], want[i],
				c.out.Bound)
		}
		if want[i] < lo-slack || want[i] > hi+slack {
			t.Fatalf("%s: value %g lies outside the stated range %g to %g", c.prog.Expr, want[i], lo, hi)
		}
	}
}

// genExpr draws expressions of the language; most are meaningful.
type genExpr struct{ t *rapid.T }

func (g genExpr) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(g.t, label) }

func (g genExpr) number() string {
	return fmt.Sprintf("%.2f", rapid.Float64Range(-3, 3).Draw(g.t, "c"))
}

func (g genExpr) list(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = g.number()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (g genExpr) window(depth int) string {
	k := g.pick("window", 16)
	if depth <= 0 {
		k %= 5
	}
	switch k {
	case 0, 1, 2, 3:
		return []string{"x", "y", "z", "w"}[k]
	case 4:
		return "prev(y)"
	case 5, 6:
		return "(" + g.window(depth-1) + " + " + g.window(depth-1) + ")"
	case 7:
		return "(" + g.window(depth-1) + " - " + g.window(depth-1) + ")"
	case 8, 9:
		return g.window(depth-1) + " * " + g.window(depth-1)
	case 10:
		return "(" + g.number() + ") * " + g.window(depth-1) + " + (" + g.number() + ")"
	case 11:
		return "(" + g.window(depth-1) + ")^" + fmt.Sprint(2+g.pick("power", 3))
	case 12:
		return "poly(" + g.window(depth-1) + ", " + g.list(2+g.pick("degree", 7)) + ")"
	case 13:
		return "(" + g.window(depth-1) + " - " + g.value(depth-1) + ")"
	case 14:
		return "(" + g.value(depth-1) + ") * " + g.window(depth-1)
	}
	return "lag(" + g.window(depth-1) + ", 2) / 4"
}

func (g genExpr) value(depth int) string {
	k := g.pick("value", 11)
	if depth <= 0 {
		k %= 4
	}
	switch k {
	case 0, 1:
		return "mean(" + g.window(depth-1) + ")"
	case 2:
		return "sum(" + g.window(depth-1) + ")"
	case 3:
		return "dot(s, " + g.list(testSamples/4) + ")"
	case 4:
		return "var(" + g.window(depth-1) + ")"
	case 5:
		return "cov(" + g.window(depth-1) + ", " + g.window(depth-1) + ")"
	case 6:
		return "dot(" + g.window(depth-1) + ", " + g.window(depth-1) + ")"
	case 7:
		return "(" + g.value(depth-1) + " + " + g.value(depth-1) + ")"
	case 8:
		return g.value(depth-1) + " * (" + g.number() + ")"
	case 9:
		return g.value(depth-1) + " * " + g.value(depth-1)
	}
	return "(let m = " + g.value(depth-1) + "; m - 0.5*m*m)"
}

func (g genExpr) program() string {
	switch g.pick("program", 8) {
	case 0, 1, 2:
		return g.window(3)
	case 3:
		return "std(" + g.window(2) + ")"
	case 4:
		return "2*rms(" + g.window(2) + ")"
	}
	return g.value(3)
}

const testSamples = 20

// TestPropertyPlain compiles random programs for every parameter set and runs
// the plan on plain numbers: magnitudes, ranges, alignment of scales and the
// result must hold. Refusals must be about size alone.
func TestPropertyPlain(t *testing.T) {
	for _, set := range []string{"edge12-d1", "edge13-d3", "edge13-d2p", "std14-d5"} {
		p := mustParams(t, set)
		vars := testVars(set, testSamples)
		fit, all := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			expr := genExpr{rt}.program()
			seed := rapid.Uint64().Draw(rt, "seed")
			c, err := compile(Source{Name: "p", Expr: expr, Vars: vars}, p)
			all++
			if err != nil {
				if e, ok := err.(*Error); !ok || e.Kind != ErrDepth && e.Kind != ErrMagnitude &&
					e.Kind != ErrConstant &&
					e.Kind != ErrSize {
					rt.Fatalf("%s: %v", expr, err)
				}
				return
			}
			fit++
			checkPlain(rt, c, rand.New(rand.NewPCG(seed, 1)))
		})
		if set == "std14-d5" && fit*2 < all {
			t.Errorf("%s: only %d of %d programs compile", set, fit, all)
		}
		t.Logf("%s: %d of %d programs compile", set, fit, all)
	}
}

// fataler is what *testing.T and *rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// TestLastSlots: values from the last block of a full ciphertext become windows
// that do not reach over its end.
func TestLastSlots(t *testing.T) {
	p := mustParams(t, "edge12-d1")
	ranges := make([][2]float64, p.Slots()/4)
	for i := range ranges {
		ranges[i] = [2]float64{-1, 1}
	}
	full := testStream("full", "edge12-d1", 4, ranges...)
	wide := testStream("wide", "edge12-d1", 20, [2]float64{-1, 1}, [2]float64{0, 5})
	vars := map[string]Var{"a": {"d", full, len(ranges) - 1}, "b": {"d", full, len(ranges) / 2}, "x": {"d", wide, 1}}
	ran := 0
	for _, expr := range []string{"mean(a) + 0*x", "mean(a) + x", "mean(b) - mean(a) + x", "mean(a)*x",
		"a - b", "a*b"} {
		c, err := Compile(Source{Name: "p", Expr: expr, Vars: vars}, p)
		if err != nil {
			if errors.Is(err, ErrDepth) || errors.Is(err, ErrMagnitude) {
				continue
			}
			t.Fatal(err)
		}
		ran++
		if c.out.Slot+c.out.Count > p.Slots() {
			t.Errorf("%s: %d values from slot %d of %d", expr, c.out.Count, c.out.Slot, p.Slots())
		}
		checkPlain(t, c, rand.New(rand.NewPCG(6, 6)))
	}
	if ran < 5 {
		t.Errorf("only %d programs fit", ran)
	}
}

// TestPlainTable runs what random programs seldom draw.
func TestPlainTable(t *testing.T) {
	for _, expr := range []string{
		"mean((x - mean(x))*(y - mean(w)))", "mean((x - mean(x) + 2)*(y - mean(y) - 3))", "sum((x - 2*mean(x))^2)",
		"mean((x*y - mean(x*y))*(z - mean(z)))",
		"poly(x + z, [1, 2, 3])", "poly(2*x, [1, 2, 3])", "poly(2*x + 3*y, [0, 1, 0, 0.5])", "poly(x + 1, [0, 0, 1])",
		"poly(x - mean(x), [1, 0, 1])",
		"mean(x*mean(y)*z)", "mean(x^2*mean(y)^2)", "(x*mean(z))^2", "dot(x*mean(z), y)",
		"dot(s*mean(z) + mean(x), [1, 2, 3, 4, 5])", "cov(x*z + mean(y), 2*w)",
		"dot(s, [2, 2, 2, 2, 2]) - 10*mean(s) + mean(x)", "(2*x)^3*(3*z)", "-(x - 1)*(2 - z)",
		"cov(3*x - 1, z) + cov(z, x)",
		"sum(x - mean(x)*z)",
	} {
		checkPlain(t, mustCompile(t, "std14-d5", expr), rand.New(rand.NewPCG(8, 8)))
	}
}
