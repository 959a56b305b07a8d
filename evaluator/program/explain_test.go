package program

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

func TestExplainAgreesWithRun(t *testing.T) {
	b := testBench(t, "edge13-d3")
	c := mustCompile(t, "edge13-d3", "cov(x, y)")
	e := c.Explain()
	cts, _ := b.sample(t, c, rand.New(rand.NewPCG(5, 5)))
	ct, out, err := c.Run(b.evaluator(t, c), cts)
	if err != nil {
		t.Fatal(err)
	}
	if e.Result.Level != ct.Level || math.Abs(e.Result.LogScale-math.Log2(ct.Scale)) > 1e-9 || e.Result.A != out.A ||
		e.Result.Bound != out.Bound {
		t.Errorf("result %+v, ran to level %d, scale 2^%.3f, %+v", e.Result, ct.Level, math.Log2(ct.Scale), out)
	}
	same := func(what string, stated, counted int) {
		if d := math.Abs(float64(stated-counted)) / float64(counted); d > 0.01 {
			t.Errorf("%s: %d bytes stated, %d are there", what, stated, counted)
		}
	}
	body, err := b.ctx.MarshalCiphertext(ct)
	if err != nil {
		t.Fatal(err)
	}
	same("result", e.Result.Bytes, len(body))
	if body, err = b.ctx.MarshalCiphertext(cts[c.Inputs()[0]]); err != nil {
		t.Fatal(err)
	}
	same("input", e.Inputs[0].Bytes, len(body))
	keys, err := b.key.EvaluationKeys(e.Keys.Rotations, false)
	if err != nil {
		t.Fatal(err)
	}
	if body, err = b.ctx.MarshalEvaluationKeys(keys); err != nil {
		t.Fatal(err)
	}
	same("keys", e.Keys.Bytes, len(body))
	if !e.Keys.Relinearise || e.Keys.Count != len(e.Keys.Rotations)+1 || e.KeySwitch < 10 || e.Depth != 1 {
		t.Errorf("needs %+v, %d key switches, depth %d", e.Keys, e.KeySwitch, e.Depth)
	}
	for _, s := range e.Steps {
		if s.Room < 0 || s.Limbs != b.ctx.Parameters().LimbsAt(s.Level) || s.Text == "" || s.Expr == "" {
			t.Errorf("step %+v", s)
		}
	}
}

func TestExplainForms(t *testing.T) {
	for _, expr := range samplePrograms {
		c, err := compileFor(t, "std14-d5", expr)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		e := c.Explain()
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		var back Explanation
		if err := json.Unmarshal(b, &back); err != nil || back.Result != e.Result || len(back.Steps) != len(e.Steps) {
			t.Errorf("%s: does not survive JSON: %v", expr, err)
		}
		cost := float64(e.LimbSwitches)
		for _, s := range e.Steps {
			cost += float64(s.Limbs) / 8
		}
		if planned := newChain(c.params).cost(c.steps); math.Abs(planned-cost) > 1e-9*cost {
			t.Errorf("%s: planned for a cost of %g, explained are %g", expr, planned, cost)
		}
		text := e.Text()
		for _, s := range []string{"p = ", "std14-d5", "promise", "keys", "read as", "#0"} {
			if !strings.Contains(text, s) {
				t.Errorf("%s: the text does not say %q:\n%s", expr, s, text)
			}
		}
	}
}

// TestLevels: rescalings count alone and together with a product.
func TestLevels(t *testing.T) {
	for expr, want := range map[string]int{"x": 0, "x*y": 1, "x^4": 1, "(x - mean(x))^3": 2} {
		c := mustCompile(t, "edge13-d3", expr)
		if e := c.Explain(); e.Levels != want {
			t.Errorf("%s: %d rescalings one after another, want %d:\n%s", expr, e.Levels, want, e.Text())
		}
	}
}

// TestHighestLevel: what was bootstrapped under boot16 is one level above fresh ciphertexts, and so counted.
func TestHighestLevel(t *testing.T) {
	for _, c := range []struct {
		set, expr  string
		boots, top int
	}{
		{"boot16", "x", 0, 14}, {"boot16", "count(x > 0.5)", 1, 15},
		{"boot15", "x^64", 0, 6}, {"boot15", "var(x^9)^6", 2, 6},
	} {
		prog := Source{Name: "p", Expr: c.expr, Vars: testVars(c.set, 20)}
		if c.expr == "count(x > 0.5)" {
			prog.Resolution = 1. / 256
		}
		compiled, err := Compile(prog, mustParams(t, c.set))
		if err != nil {
			t.Fatal(err)
		}
		e := compiled.Explain()
		boots := 0
		for _, s := range e.Steps {
			if s.Op == "bootstrap" {
				boots++
			}
			if s.Level > c.top {
				t.Errorf("%s: %s at level %d", c.expr, s.Op, s.Level)
			}
		}
		if boots != c.boots || e.MaxLevel != c.top {
			t.Errorf("%s under %s: %d bootstrappings, levels to %d, want %d, %d", c.expr, c.set, boots, e.MaxLevel,
				c.boots, c.top)
		}
	}
}

// TestLeastLevel: the level that Explain proposes compiles and keeps its word.
func TestLeastLevel(t *testing.T) {
	p := mustParams(t, "edge13-d3")
	for expr, level := range map[string]int{"x": 0, "mean(x)": 0, "var(y)": 1, "x^2": 0, "x^3": 1} {
		c := mustCompile(t, "edge13-d3", expr)
		l := c.Explain().Least
		if l == nil || l.Level != level {
			t.Errorf("%s: proposes %+v, want level %d", expr, l, level)
			continue
		}
		low, err := compileChanged(c.prog, p, func(st *config.Stream) { st.LogScale, st.Level = 29, &level })
		if err != nil || low.out.Bound != l.Bound {
			t.Errorf("%s: promises %g at that level, %v", expr, l.Bound, err)
		}
	}
	if l := mustCompile(t, "edge12-d1", "x*y").Explain().Least; l != nil {
		t.Errorf("x*y needs its level, but %+v is proposed", l)
	}
}

func TestHash(t *testing.T) {
	base := mustCompile(t, "edge13-d3", "mean(x)").Hash()
	if mustCompile(t, "edge13-d3", "mean(x)").Hash() != base {
		t.Error("the hash differs between two compilations")
	}
	for name, change := range map[string]func(*Source){
		"expression": func(s *Source) { s.Expr = "mean(y)" },
		"channel":    func(s *Source) { v := s.Vars["x"]; v.Channel = 1; s.Vars["x"] = v },
		"device":     func(s *Source) { v := s.Vars["x"]; v.Device = "c"; s.Vars["x"] = v },
		"parameters": func(s *Source) { s.Vars = testVars("std14-d5", 20) },
	} {
		src := Source{Name: "p", Expr: "mean(x)", Vars: testVars("edge13-d3", 20)}
		change(&src)
		p, err := henc.Named(src.Vars["x"].Stream.Params)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compile(src, p)
		if err != nil {
			t.Fatal(err)
		}
		if c.Hash() == base {
			t.Errorf("the hash does not depend on the %s", name)
		}
	}
	partial, err := Compile(Source{Name: "q", Expr: "mean(x)", Vars: testVars("edge13-d3", 20),
		Present: map[Input]int{{"a", "one", 0}: 3}}, mustParams(t, "edge13-d3"))
	if err != nil || partial.Hash() != base {
		t.Errorf("the hash depends on the name or on how full a window is: %v", err)
	}
}
