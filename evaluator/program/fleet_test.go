package program

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// fleetVars are x and y of one stream of a class, and z of another.
func fleetVars(params string, samples int) map[string]Var { return placedVars(params, samples, 0) }

// placedVars are fleetVars whose windows stand at places.
func placedVars(params string, samples, places int) map[string]Var {
	vars := testVars(params, samples)
	for _, name := range []string{"w", "s", "t"} {
		delete(vars, name)
	}
	for name, v := range vars {
		v.Device, v.Stream.Places = "", places
		vars[name] = v
	}
	return vars
}

// across computes a program over windows of the given numbers of samples, as an evaluator
// does: parts window by window, their running sums, the rest.
func (b *bench) across(t *testing.T, c *Circuit, present []int, rng *rand.Rand) (got, want []float64, out Output) {
	t.Helper()
	ev := b.evaluator(t, c)
	all := map[string][]float64{}
	var sums []*henc.Ciphertext
	samples := 0
	for _, n := range present {
		in := c.Inputs()[0]
		one := &Circuit{prog: c.prog}
		one.prog.Present = map[Input]int{in: n}
		cts, plain := b.sampleAt(t, one, c.Inputs(), rng.IntN(max(c.places, 1)), rng)
		for name, v := range plain {
			all[name] = append(all[name], v...)
		}
		samples += n
		parts, err := c.Parts().base().run(Item{Routine: c.Parts(), Evaluator: ev, Inputs: cts})
		if err != nil {
			t.Fatal(err)
		}
		for k, ct := range parts {
			if len(sums) <= k {
				sums = append(sums, ct)
			} else if sums[k], err = ev.Add(sums[k], ct); err != nil {
				t.Fatal(err)
			}
		}
	}
	rest, err := c.Across(len(present), int64(samples))
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[Input]*henc.Ciphertext{}
	for k, ct := range sums {
		inputs[SumInput(k)] = ct
	}
	ct, out, err := rest.Run(ev, inputs)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = c.Reference(all); err != nil {
		t.Fatal(err)
	}
	return b.decrypt(t, ct, out), want, out
}

var fleetPrograms = []string{"fleet.mean(x)", "fleet.sum(y)", "fleet.var(y)", "fleet.mean(x*y)",
	"fleet.mean(2*y - 3) + 1", "sqrt(fleet.var(x))", "fleet.var(x + 0.1*y)", "fleet.mean(y^2) - fleet.mean(y)^2",
	"fleet.mean(x) + fleet.mean(y)"}

// TestAcrossDevices computes with windows of devices that all report, miss samples, or are
// few, and compares with the plain samples.
func TestAcrossDevices(t *testing.T) {
	for _, of := range []struct {
		set    string
		places int
	}{{"edge12-d1", 0}, {"edge13-d3", 0}, {"edge13-d3", 8}} {
		set := of.set
		b := testBench(t, set)
		ran := 0
		for i, expr := range fleetPrograms {
			c, err := Compile(Source{Name: "p", Class: "pump", Expr: expr, Vars: placedVars(set, 20, of.places)},
				b.ctx.Parameters())
			if errors.Is(err, ErrDepth) || errors.Is(err, ErrMagnitude) {
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", set, expr, err)
				continue
			}
			ran++
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for _, present := range [][]int{{20}, {1}, {20, 20, 20, 20, 20, 20, 20}, {20, 3, 17, 1, 20}} {
				got, want, out := b.across(t, c, present, rng)
				if err := math.Abs(got[0] - want[0]); len(got) != 1 || !(err <= out.Bound) {
					t.Errorf("%s: %s over %v: %g, want %g; error %.3g, promised %.3g", set, expr, present, got, want,
						err, out.Bound)
				}
			}
		}
		if ran < 4 {
			t.Errorf("%s: only %d programs fit", set, ran)
		}
	}
}

// TestAcrossIsUseful bounds what is promised: the mean of many windows is known better than
// that of one, and the parts do not depend on how many come.
func TestAcrossIsUseful(t *testing.T) {
	params := mustParams(t, "edge13-d3")
	for _, expr := range fleetPrograms {
		c, err := Compile(Source{Name: "p", Class: "pump", Expr: expr, Vars: fleetVars(params.Name(), 256)}, params)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if c.Capacity() < 4096 || !c.Useful() {
			t.Errorf("%s takes %d windows, promising %g of %g to %g", expr, c.Capacity(), c.out.Bound, c.lo, c.hi)
		}
		relin, rotations := c.NeedsRelin(), c.Rotations()
		for _, n := range []int{1, 2, 100, 4096} {
			a, err := c.Across(n, int64(n)*256)
			if err != nil {
				t.Fatalf("%s: %d windows: %v", expr, n, err)
			}
			if a.Hash() != c.Hash() || a.NeedsRelin() && !relin {
				t.Errorf("%s over %d windows is another program", expr, n)
			}
			for _, k := range a.Rotations() {
				if !slices.Contains(rotations, k) {
					t.Errorf("%s over %d windows rotates by %d, the program by %v", expr, n, k, rotations)
				}
			}
			if again, err := c.Across(n, int64(n)*256); err != nil || again != a {
				t.Errorf("%s over %d windows is planned again: %v", expr, n, err)
			}
		}
	}
	one, many := 0.0, 0.0
	c, err := Compile(Source{Name: "p", Class: "pump", Expr: "fleet.mean(x)", Vars: fleetVars("edge13-d3", 256)},
		params)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Explain().Fleet.Promises {
		if one == 0 {
			one = p.Bound
		}
		many = p.Bound
	}
	if many > one/20 {
		t.Errorf("a mean of many windows is promised to %g, of one to %g", many, one)
	}
	for _, counts := range [][2]int64{{0, 0}, {1, 0}, {1, 257}, {2, 1}, {1 << 17, 1 << 20}} {
		if _, err := c.Across(int(counts[0]), counts[1]); !errors.Is(err, ErrInput) {
			t.Errorf("%d windows with %d samples: %v", counts[0], counts[1], err)
		}
	}
	if text := c.Explain().Text(); !strings.Contains(text, "of these 0 key switches") ||
		!strings.Contains(text, "all devices of the class pump together") {
		t.Error(text)
	}
}

func TestAcrossRefuses(t *testing.T) {
	params := mustParams(t, "edge13-d3")
	for expr, says := range map[string]string{
		"fleet.mean(mean(x))":           "not computed sample by sample",
		"fleet.mean(fleet.mean(x))":     "not computed sample by sample",
		"fleet.mean(x - mean(x))":       "not computed sample by sample",
		"fleet.mean(prev(x))":           "not computed sample by sample",
		"prev(fleet.mean(x))":           "not computed sample by sample",
		"fleet.mean(x) - mean(x)":       "a value of one device",
		"x - fleet.mean(x)":             "a value of one device",
		"fleet.mean(x) + fleet.mean(z)": "reads the streams one, two",
		"fleet.mode(x)":                 "unknown function",
		"fleet.mean(x, y)":              "2 arguments",
		"fleet.mean(3)":                 "needs a window",
		"fleet.mean":                    "selects part of a value",
		"other.mean(x)":                 "not a call of a function",
	} {
		_, err := Compile(Source{Name: "p", Class: "pump", Expr: expr, Vars: fleetVars("edge13-d3", 20)}, params)
		wantHint(t, err)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", expr, err)
		}
	}
	_, err := Compile(Source{Name: "p", Expr: "fleet.mean(x)", Vars: testVars("edge13-d3", 20)}, params)
	if err == nil || !strings.Contains(err.Error(), "the program is for none") {
		t.Errorf("without a class: %v", err)
	}
	c, err := Compile(Source{Name: "p", Class: "pump", Expr: "mean(x)", Vars: fleetVars("edge13-d3", 20)}, params)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Across(1, 20); !errors.Is(err, ErrInput) || c.Parts() != nil || c.Capacity() != 0 {
		t.Errorf("a program for single devices across several: %v", err)
	}
}
