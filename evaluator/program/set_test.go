package program

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

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
	s, err := Fuse(all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSetMerges: what programs have in common is computed once, and their results are
// those of the programs alone, bit for bit.
func TestSetMerges(t *testing.T) {
	b := testBench(t, "edge13-d3")
	s := fuseFor(t, "edge13-d3", "mean(x)", "var(x)", "cov(x, y)", "mean(x)", "x", "x", "x - y",
		"dot(s, [1, 2, 3, 4, 5])", "dot(s, [1, 2, 3, 4, 5])/2")
	alone := 0
	for _, c := range s.Circuits() {
		n, _ := c.switches()
		alone += n
	}
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
	if _, err := Fuse(); !errors.Is(err, ErrParams) {
		t.Errorf("no programs: %v", err)
	}
	if _, err := Fuse(mustCompile(t, "edge13-d3", "x"), mustCompile(t, "edge12-d1", "x")); !errors.Is(err, ErrParams) {
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
