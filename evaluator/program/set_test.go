package program

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/henc"
)

// fuseFor compiles programs over the test's variables and fuses them.
func fuseFor(t testing.TB, params string, exprs ...string) *Set {
	t.Helper()
	var all []*Circuit
	for _, expr := range exprs {
		c, err := compileFor(t, params, expr)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		all = append(all, c)
	}
	s, err := Fuse(nil, all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMerge: what programs have in common is computed once, and their results are
// those of the programs alone, bit for bit.
func TestMerge(t *testing.T) {
	b := testBench(t, "edge13-d3")
	fused := fuseFor(t, "edge13-d3", "mean(x)", "var(x)", "cov(x, y)", "mean(x)", "x", "x", "x - y",
		"dot(s, [1, 2, 3, 4, 5])", "dot(s, [1, 2, 3, 4, 5])/2")
	s := &Set{circuits: fused.circuits}
	s.params = fused.params
	s.merge()
	alone, _ := s.alone()
	if together, _ := s.switches(); together >= alone {
		t.Errorf("%d key switches together, %d alone", together, alone)
	}
	cts, _ := b.sampleSet(t, s, rand.New(rand.NewPCG(7, 7)))
	ev := b.evaluator(t, s)
	results, err := s.Run(ev, cts)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range s.Circuits() {
		want, _, err := c.Run(ev, cts)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.marshal(t, results[i]), b.marshal(t, want)) {
			t.Errorf("%s: the set gives another ciphertext", c.prog.Expr)
		}
		for j := range i {
			if results[i].Value == results[j].Value {
				t.Errorf("results %d and %d share memory", i, j)
			}
		}
	}
	for _, ct := range results {
		b.ctx.Ring().Free(ct.Value)
	}
}

// TestSetFreesAfterErrors: a run that lacks a key or a window returns its error, and
// leaves the inputs as they are.
func TestSetFreesAfterErrors(t *testing.T) {
	b := testBench(t, "edge13-d3")
	s := fuseFor(t, "edge13-d3", "x", "mean(x)", "cov(x, y)")
	cts, _ := b.sampleSet(t, s, rand.New(rand.NewPCG(8, 8)))
	in := s.Inputs()[0]
	before := b.marshal(t, cts[in])
	if _, err := s.Run(henc.NewEvaluator(b.ctx, &henc.EvaluationKeys{}), cts); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("without keys: %v", err)
	}
	if _, err := s.Run(b.evaluator(t, s), nil); !errors.Is(err, ErrInput) {
		t.Errorf("without windows: %v", err)
	}
	if !bytes.Equal(before, b.marshal(t, cts[in])) {
		t.Error("the input changed")
	}
}

func TestFuseRefuses(t *testing.T) {
	if _, err := Fuse(nil); !errors.Is(err, ErrParams) {
		t.Errorf("no programs: %v", err)
	}
	_, err := Fuse(nil, mustCompile(t, "edge13-d3", "x"), mustCompile(t, "edge12-d1", "x"))
	if !errors.Is(err, ErrParams) {
		t.Errorf("two parameter sets: %v", err)
	}
}

// TestSetKeepsPromises runs sets on random windows.
func TestSetKeepsPromises(t *testing.T) {
	for _, exprs := range fusedPrograms {
		for i := range 3 {
			rng := rand.New(rand.NewPCG(11, uint64(i)))
			testBench(t, "edge13-d3").checkSet(t, fuseFor(t, "edge13-d3", exprs...), rng)
		}
	}
}

var fusedPrograms = [][]string{
	{"mean(x)", "var(x)", "cov(x, y)"},
	{"mean(x)", "mean(y)", "mean(w)", "cov(x, w)", "std(y)", "rms(w)"},
	{"x + y", "x - w", "mean(prev(y)) - mean(y)", "dot(x, y)", "var(z)"},
	{"mean(s)", "dot(s, [1, -0.5, 0.25, 0, 2])", "dot(t, [1, 1, 2, 2, 3])", "var(t)", "s - t"},
}

// checkSet runs a set on random windows and holds every result against its program's
// promise and header.
func (b *bench) checkSet(t testing.TB, s *Set, rng *rand.Rand) {
	t.Helper()
	cts, plain := b.sampleSet(t, s, rng)
	results, err := s.Run(b.evaluator(t, s), cts)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range s.Circuits() {
		ct := results[i]
		if ct.Level != c.Level() || ct.Scale != c.Scale() {
			t.Errorf("%s: level %d and scale %g, alone %d and %g", c.prog.Expr, ct.Level, ct.Scale, c.Level(),
				c.Scale())
		}
		want, err := c.Reference(plain)
		if err != nil {
			t.Fatal(err)
		}
		out := c.Output()
		for j, v := range b.decrypt(t, ct, out) {
			if d := math.Abs(v - want[j]); !(d <= out.BoundAt(want[j])) && !(d <= out.Bound) {
				t.Errorf("%s: value %d is %g, want %g within %g", c.prog.Expr, j, v, want[j], out.Bound)
			}
		}
		b.ctx.Ring().Free(ct.Value)
	}
}

// TestSetPlain draws sets of random programs and runs their plans on plain numbers:
// magnitudes, alignment of scales and every result must hold.
func TestSetPlain(t *testing.T) {
	for _, params := range []string{"edge12-d1", "edge13-d3", "edge13-d2p", "std14-d5"} {
		p := mustParams(t, params)
		vars := testVars(params, testSamples)
		shared, all := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			var circuits []*Circuit
			for range rapid.IntRange(2, 5).Draw(rt, "programs") {
				g := genExpr{rt}
				expr := g.statistic()
				if g.pick("any", 4) == 0 {
					expr = g.program()
				}
				if c, err := compile(Source{Name: "p", Expr: expr, Vars: vars}, p); err == nil {
					circuits = append(circuits, c)
				}
			}
			seed := rapid.Uint64().Draw(rt, "seed")
			if len(circuits) == 0 {
				return
			}
			s, err := Fuse(nil, circuits...)
			if err != nil {
				rt.Fatal(err)
			}
			all++
			if s.shared() {
				shared++
			}
			checkPlainSet(rt, s, rand.New(rand.NewPCG(seed, 1)))
		})
		if t.Logf("%s: %d of %d sets share sums", params, shared, all); params == "edge13-d3" && shared < all/20 {
			t.Errorf("%s: only %d of %d sets share sums", params, shared, all)
		}
	}
}

// shared reports whether the set has another plan than its programs' own steps.
func (s *Set) shared() bool {
	merged := &Set{circuits: s.circuits}
	merged.merge()
	return !slices.EqualFunc(s.steps, merged.steps, func(a, b step) bool { return a.key() == b.key() })
}

// statistic draws what people compute of windows.
func (g genExpr) statistic() string {
	window := func() string { return []string{"x", "y", "x", "y", "x", "y", "z", "w", "prev(y)"}[g.pick("of", 9)] }
	form := []string{"mean(%s)", "var(%s)", "3*std(%s)", "cov(%s, %s)", "cov(%s, %s)", "mean(%s*%s) - 2", "rms(%s)",
		"dot(s, " + g.list(testSamples/4) + ")", "var(t)", "cov(s, t)"}[g.pick("statistic", 10)]
	var of []any
	for range strings.Count(form, "%s") {
		of = append(of, window())
	}
	return fmt.Sprintf(form, of...)
}

// TestSetCounts: mean, variance and covariance of two channels of one window, as a fleet
// computes them. One by one they were 53 key switches.
func TestSetCounts(t *testing.T) {
	const params = "edge13-d3"
	one := testStream("one", params, 256, [2]float64{0, 20}, [2]float64{210, 250})
	vars := map[string]Var{"x": {"a", one, 0}, "y": {"a", one, 1}}
	var circuits []*Circuit
	for _, expr := range []string{"mean(x)", "var(x)", "cov(x, y)"} {
		c, err := Compile(Source{Name: expr, Expr: expr, Vars: vars}, mustParams(t, params))
		if err != nil {
			t.Fatal(err)
		}
		circuits = append(circuits, c)
	}
	s, err := Fuse(nil, circuits...)
	if err != nil {
		t.Fatal(err)
	}
	alone, aloneLimbs := s.alone()
	count, limbs := s.switches()
	if alone != 46 || aloneLimbs != 304 || count != 24 || limbs != 168 {
		t.Errorf("%d key switches of %d limbs alone, %d of %d together", alone, aloneLimbs, count, limbs)
	}
	for i := range 2 {
		testBench(t, params).checkSet(t, s, rand.New(rand.NewPCG(12, uint64(i))))
	}
	// Without keys to move a quantity into free slots, its sum stays its own.
	some := circuits[2].Rotations()
	if s, err = Fuse(some, circuits...); err != nil {
		t.Fatal(err)
	}
	if limited, _ := s.switches(); limited <= count || limited >= alone ||
		slices.ContainsFunc(s.Rotations(), lacks(some)) {
		t.Errorf("%d key switches by %v, there are keys for %v", limited, s.Rotations(), some)
	}
}

// TestSetKeepsInputsApart: no result depends on windows that its program does not read,
// even if another device fills slots that it leaves empty otherwise.
func TestSetKeepsInputsApart(t *testing.T) {
	s := fuseFor(t, "edge13-d3", "var(x)", "cov(x, y)", "var(w)", "cov(x, w)", "var(z)", "cov(y, x)")
	for i, c := range s.circuits {
		reads := map[int]bool{s.results[i]: true}
		var ins []Input
		for j := s.results[i]; j >= 0; j-- {
			if !reads[j] {
				continue
			}
			for _, a := range s.steps[j].operands() {
				reads[a] = true
			}
			if s.steps[j].op == stepInput {
				ins = append(ins, s.steps[j].in)
			}
		}
		slices.SortFunc(ins, compareInputs)
		if !slices.Equal(ins, c.Inputs()) {
			t.Errorf("%s reads %v, alone %v", c.prog.Expr, ins, c.Inputs())
		}
	}
	if !s.shared() {
		t.Error("nothing is shared")
	}
}
