package program

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
)

// bootBench makes a bench with keys for bootstrapping and for rotations by powers of two.
func bootBench(t testing.TB) (*bench, *henc.Evaluator, *bootstrap.Bootstrapper) {
	t.Helper()
	p, err := henc.NamedInsecure("boot10-insecure")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, p)
	plan := bootstrapOf(p)
	rotations := plan.Rotations()
	for k := 1; k < p.Slots(); k <<= 1 {
		rotations = append(rotations, k)
	}
	keys, err := b.key.EvaluationKeys(rotations, true)
	if err != nil {
		t.Fatal(err)
	}
	if keys.Sparse, err = b.key.SparseKeys(); err != nil {
		t.Fatal(err)
	}
	boot, err := bootstrap.New(b.ctx, plan, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(boot.Free)
	return b, henc.NewEvaluator(b.ctx, keys), boot
}

// lowLevel is a level at which windows can just be bootstrapped, so that programs need it soon.
const lowLevel = 3

// lowVars is testVars of streams at that level.
func lowVars(params string, samples int) map[string]Var {
	vars := testVars(params, samples)
	for name, v := range vars {
		v.Stream.Level = new(lowLevel)
		vars[name] = v
	}
	return vars
}

// TestDeepPrograms: programs that are deeper than the parameters bootstrap, and keep their promise.
func TestDeepPrograms(t *testing.T) {
	b, ev, boot := bootBench(t)
	p := b.ctx.Parameters()
	vars := lowVars(p.Name(), 16)
	for i, c := range []struct {
		expr  string
		least int // bootstraps
	}{
		{"x^8", 0},
		{"x^9", 1},
		{"x^64 - x", 1},
		{"mean(x^20)", 1},
		{"var(x^3)^4", 1},
		{"mean(x^5)*s^8 - 2*s", 1},
		{"y^3*x^9", 1},
	} {
		t.Run(c.expr, func(t *testing.T) {
			circuit, err := Compile(Source{Name: "p", Expr: c.expr, Vars: vars}, p)
			if err != nil {
				t.Fatal(err)
			}
			n := circuit.Bootstraps()
			if n < c.least || c.least == 0 && n > 0 || n > 12 {
				t.Errorf("bootstraps %d times, want at least %d", n, c.least)
			}
			if n > 0 && circuit.Depth() <= lowLevel {
				t.Errorf("bootstraps %d times at depth %d of %d", n, circuit.Depth(), lowLevel)
			}
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			worst := 0.0
			for range 2 {
				cts, plain := b.sample(t, circuit, rng)
				want, err := circuit.Reference(plain)
				if err != nil {
					t.Fatal(err)
				}
				results, err := circuit.run(Item{Routine: circuit, Evaluator: ev, Inputs: cts, Bootstrapper: boot})
				if err != nil {
					t.Fatal(err)
				}
				got := b.decrypt(t, results[0], circuit.Output())
				for k := range want {
					worst = max(worst, math.Abs(got[k]-want[k]))
				}
			}
			lo, hi := circuit.Range()
			t.Logf("%d bootstraps, error %.3g, promised %.3g of a range of %.3g", n, worst, circuit.out.Bound, hi-lo)
			if worst > circuit.out.Bound {
				t.Errorf("error %.3g, promised %.3g", worst, circuit.out.Bound)
			}
			if circuit.out.Bound < worst/1000 || circuit.out.Bound > (hi-lo)/2 {
				t.Errorf("the promise %.3g says nothing", circuit.out.Bound)
			}
		})
	}
}

// TestDeepRefusals: what bootstrapping cannot help is refused where it fails, with what to do; what it can help is
// told so.
func TestDeepRefusals(t *testing.T) {
	p, err := henc.NamedInsecure("boot10-insecure")
	if err != nil {
		t.Fatal(err)
	}
	var refused *Error
	_, err = Compile(Source{Name: "p", Expr: "x + sum(x)^60", Vars: testVars(p.Name(), 128)}, p)
	if !errors.As(err, &refused) || refused.Kind != ErrMagnitude || refused.Hint == "" ||
		!strings.Contains(refused.Message, "bootstrap") || !strings.Contains(refused.Message, "sum(x)^60") {
		t.Errorf("large values: %v", err)
	}
	_, err = Compile(Source{Name: "p", Expr: "x^33", Vars: testVars("std14-d5", 16)}, mustParams(t, "std14-d5"))
	if err == nil || !strings.Contains(err.Error(), "use parameters") {
		t.Errorf("a deep program for a set without bootstrapping: %v", err)
	}
	c, err := Compile(Source{Name: "p", Expr: "x^9", Vars: lowVars(p.Name(), 16)}, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Fuse(nil, c); !errors.Is(err, ErrParams) {
		t.Errorf("a set with a program that bootstraps: %v", err)
	}
	e := c.Explain()
	if e.Bootstrap == nil || e.Bootstrap.Count != 2 || !e.Keys.Bootstrap || e.Keys.Count < 14 ||
		e.Bootstrap.Memory < int64(e.Keys.Bytes) || e.Bootstrap.Error <= 0 || e.KeySwitch <= e.Bootstrap.KeySwitch {
		t.Errorf("explanation %+v, keys %+v", e.Bootstrap, e.Keys)
	}
	for _, want := range []string{"bootstrap   2 times, for x^9, x^9", "keys in all"} {
		if text := e.Text(); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	b := newBench(t, p)
	cts, _ := b.sample(t, c, rand.New(rand.NewPCG(6, 6)))
	if _, _, err := c.Run(b.evaluator(t, c), cts); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a run without a bootstrapper: %v", err)
	}
}
