package program

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// decision is a program that compares, with the thresholds of its variables. Samples are drawn to be decided.
type decision struct {
	expr       string
	resolution float64
	x, y       []float64 // thresholds
}

// decided returns v, moved to the resolution from each threshold where it is nearer.
func decided(v, resolution float64, thresholds []float64) float64 {
	for _, t := range thresholds {
		if math.Abs(v-t) < resolution {
			v = t + math.Copysign(resolution*(1+1e-9), v-t)
		}
	}
	return v
}

// draw returns windows of the variables x (-1 to 1) and y (20 to 30), which share a stream: the slots, and the samples
// for Reference. One sample in four lies as near to a threshold as it may.
func (d *decision) draw(c *Circuit, rng *rand.Rand) (slots []float64, samples map[string][]float64) {
	v := c.prog.Vars["x"]
	st, n := v.Stream, c.prog.present(Input{v.Device, v.Stream.Name, 0}, v.Stream)
	slots, samples = make([]float64, st.Slots()), map[string][]float64{}
	skew := rng.Float64() - 0.5
	for ch, name := range []string{"x", "y"} {
		thresholds := [][]float64{d.x, d.y}[ch]
		mid, half := st.Channels[ch].Affine()
		for i := range n {
			v := mid + half*min(max(2*rng.Float64()-1+skew, -1), 1)
			if len(thresholds) > 0 && rng.IntN(4) == 0 {
				v = thresholds[rng.IntN(len(thresholds))] + d.resolution*(rng.Float64()-0.5)
			}
			v = min(max(decided(v, d.resolution, thresholds), mid-half), mid+half)
			samples[name] = append(samples[name], v)
			slots[ch*st.Stride()+i] = (v - mid) / half
		}
	}
	return slots, samples
}

func (d *decision) compile(t testing.TB, p henc.Parameters, samples int) *Circuit {
	t.Helper()
	c, err := Compile(Source{Name: "p", Expr: d.expr, Vars: testVars(p.Name(), samples), Resolution: d.resolution}, p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// within checks values against Reference.
func (d *decision) within(t *testing.T, c *Circuit, got []float64, samples map[string][]float64) {
	t.Helper()
	want, err := c.Reference(samples)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d: %v", d.expr, len(got), len(want), err)
	}
	low, high := c.Range()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= c.out.Bound) {
			t.Fatalf("%s: value %d is %.9g, want %.9g within %.3g", d.expr, i, got[i], want[i], c.out.Bound)
		}
		if slack := 1e-9 * (high - low); want[i] < low-slack || want[i] > high+slack {
			t.Fatalf("%s: value %.9g lies outside of the range %.9g to %.9g", d.expr, want[i], low, high)
		}
	}
}

var decisions = []decision{
	{"step(y - 27)", 0.5, nil, []float64{27}},
	{"y > 27", 0.25, nil, []float64{27}},
	{"y <= 27", 0.25, nil, []float64{27}},
	{"count(y > 27)", 0.25, nil, []float64{27}},
	{"count(27 < y)", 0.05, nil, []float64{27}},
	{"count(x > 0)", 0.0078125, []float64{0}, nil},
	{"fraction(not (x >= 0.5))", 0.1, []float64{0.5}, nil},
	{"count(22 < y < 28)", 0.25, nil, []float64{22, 28}},
	{"count(y > 28 or x < -0.5)", 0.25, []float64{-0.5}, []float64{28}},
	{"let hot = y > 28; count(hot and x > 0)", 0.25, []float64{0}, []float64{28}},
	{"count(y > 28) - count(y < 22)", 0.5, nil, []float64{22, 28}},
	{"any(y > 29)", 0.25, nil, []float64{29}},
	{"all(y > 21)", 0.25, nil, []float64{21}},
	{"abs(x)", 0.0625, nil, nil},
	{"mean(abs(y - mean(y)))", 0.5, nil, nil},
	{"clip(y, 22, 28)", 0.25, nil, nil},
	{"max(y, 25)", 0.25, nil, nil},
	{"min(5*x + 25, y)", 0.5, nil, nil},
	{"where(x > 0.25, y, 20)", 0.125, []float64{0.25}, nil},
	{"sum((y - 27)*(y > 27))", 0.25, nil, []float64{27}},
	{"abs(mean(x))", 0.05, nil, nil},
	{"abs(y)", 1, nil, nil},
}

// TestDecisions runs comparisons on plain numbers, without noise.
func TestDecisions(t *testing.T) {
	p := mustParams(t, "deep16-d23")
	for i, d := range decisions {
		t.Run(d.expr, func(t *testing.T) {
			for _, n := range []int{16, 20} { // a window that fills its block, and one that does not
				c := d.compile(t, p, n)
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				for range 2 {
					slots, samples := d.draw(c, rng)
					got := readOutput(simulate(t, c, map[Input][]float64{c.Inputs()[0]: slots}), c.out)
					d.within(t, c, got, samples)
				}
			}
		})
	}
}

// TestLargest: the largest and the smallest sample of a window, in rounds.
func TestLargest(t *testing.T) {
	for _, expr := range []string{"max(y)", "min(y)", "max(y) - min(y)"} {
		d := decision{expr: expr, resolution: 4}
		c := d.compile(t, mustParams(t, "deep16-d23"), 3)
		rng := rand.New(rand.NewPCG(2, 2))
		for range 3 {
			slots, samples := d.draw(c, rng)
			got := readOutput(simulate(t, c, map[Input][]float64{c.Inputs()[0]: slots}), c.out)
			d.within(t, c, got, samples)
		}
		if c.out.Bound > 2.2*d.resolution {
			t.Errorf("%s: error %g for a resolution of %g", expr, c.out.Bound, d.resolution)
		}
	}
}

// TestUndecided: samples near a threshold leave a count between those for either decision, and it is exact without
// them.
func TestUndecided(t *testing.T) {
	d := decision{"count(y > 27)", 0.25, nil, []float64{27}}
	c := d.compile(t, mustParams(t, "deep16-d23"), 64)
	if text := c.out.Promise(); !strings.Contains(text, "exact if no sample is within 0.25 of a threshold") {
		t.Errorf("promise %q", text)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	v := c.prog.Vars["y"]
	between := false
	for range 8 {
		slots, samples := d.draw(c, rng)
		mid, half := v.Stream.Channels[v.Channel].Affine()
		sure, open := 0.0, 0.0
		for i, y := range samples["y"] {
			if rng.IntN(3) == 0 {
				y = 27 + 0.25*(2*rng.Float64()-1)
				slots[v.Channel*v.Stream.Stride()+i] = (y - mid) / half
			}
			switch {
			case math.Abs(y-27) < 0.25:
				open++
			case y > 27:
				sure++
			}
		}
		raw := c.out
		raw.Whole = 0
		got := readOutput(simulate(t, c, map[Input][]float64{c.Inputs()[0]: slots}), raw)[0]
		if got < sure-0.25 || got > sure+open+0.25 {
			t.Errorf("count %g, %g are above and %g undecided", got, sure, open)
		}
		between = between || got > sure+0.5 && got < sure+open-0.5
	}
	if !between {
		t.Error("no count was between: the samples were not undecided")
	}
}

// TestDecisionRefusals: what cannot be compared is refused where it stands, with what to do.
func TestDecisionRefusals(t *testing.T) {
	for _, c := range []struct {
		expr, set  string
		resolution float64
		kind       error
		says, hint string
	}{
		{"count(y > 27)", "deep16-d23", 0, ErrUnsupported, "the program has no resolution", "resolution: 0.5"},
		{"y > 35", "deep16-d23", 0.5, ErrConstant, "`y > 35` is always the same", "inside of the range"},
		{"count(y)", "deep16-d23", 0.5, ErrType, "`y` is no comparison", "write x > 80"},
		{"count(y == 27)", "deep16-d23", 0.5, ErrUnsupported, "not told apart", "79.5 < x"},
		{"y > 27", "deep16-d23", 1e-5, ErrParams, "20 bits, at most 16", "coarser resolution"},
		{"y > 27", "std14-d5", 0.5, ErrDepth, "`y > 27` needs level 8", "use parameters std15-d11"},
		{"1 + any(y > 27)", "deep16-d23", 0.5, ErrUnsupported, "must be outermost", ""},
		{"quantile(y, 0.5)", "deep16-d23", 0.5, ErrUnsupported, "compares encrypted samples", "mode: histogram"},
		{"clip(y, 5, 5)", "deep16-d23", 0.5, ErrConstant, "5 is not below 5", ""},
		{"clip(y, x, 5)", "deep16-d23", 0.5, ErrType, "`x` is not a constant", ""},
		{"where(y, 1, 2)", "deep16-d23", 0.5, ErrType, "`y` is no comparison", ""},
		{"where(y > 27, 1)", "deep16-d23", 0.5, ErrType, "has 2 arguments", "where(x > t, a, b)"},
		{"abs(std(x))", "deep16-d23", 0.5, ErrUnsupported, "", "outermost"},
		{"max(mean(x))", "deep16-d23", 0.5, ErrType, "needs a window", ""},
		{"count(y > mean(y))", "edge12-add", 0.5, ErrDepth, "", ""},
		{"fleet.count(y > 27)", "deep16-d23", 0.5, ErrUnsupported, "", ""},
	} {
		p := mustParams(t, c.set)
		_, err := Compile(Source{Name: "p", Expr: c.expr, Vars: testVars(c.set, 16), Resolution: c.resolution}, p)
		wantHint(t, err)
		var refused *Error
		if !errors.As(err, &refused) || refused.Kind != c.kind || !strings.Contains(refused.Error(), c.says) ||
			!strings.Contains(refused.Error(), c.hint) || refused.To <= refused.From {
			t.Errorf("%s: %v", c.expr, err)
		}
	}
	_, err := Compile(Source{Name: "p", Expr: "x", Vars: testVars("std14-d5", 16), Resolution: math.Inf(1)},
		mustParams(t, "std14-d5"))
	if !errors.Is(err, ErrParams) {
		t.Errorf("an infinite resolution: %v", err)
	}
}

// TestDecisionsEncrypted runs comparisons on ciphertexts.
func TestDecisionsEncrypted(t *testing.T) {
	b := testBench(t, "std15-d11")
	for i, d := range []decision{
		{"count(y > 27)", 0.25, nil, []float64{27}},
		{"any(y > 25)", 0.5, nil, []float64{25}},
		{"x > 0.25", 0.125, []float64{0.25}, nil},
		{"abs(x)", 0.0625, nil, nil},
		{"max(y) - 25", 4, nil, nil},
	} {
		t.Run(d.expr, func(t *testing.T) {
			n := 512
			if i == 4 {
				n = 2
			}
			c := d.compile(t, b.ctx.Parameters(), n)
			in := c.Inputs()[0]
			ev := b.evaluator(t, c)
			rng := rand.New(rand.NewPCG(uint64(i), 4))
			slots, samples := d.draw(c, rng)
			st := c.prog.stream(in)
			ct, err := b.enc.EncryptReal(slots, st.LevelAt(b.ctx.Parameters().Depth()),
				InputScale(b.ctx.Parameters(), st), nil)
			if err != nil {
				t.Fatal(err)
			}
			results, err := c.run(Item{Routine: c, Evaluator: ev, Inputs: map[Input]*henc.Ciphertext{in: ct}})
			if err != nil {
				t.Fatal(err)
			}
			got := b.decrypt(t, results[0], c.out)
			d.within(t, c, got, samples)
			raw := c.out
			raw.Whole, raw.AtLeast = 0, 0
			t.Logf("depth %d, level %d: %.6g before rounding, promised error %.3g, noise %.3g", c.Depth(),
				c.steps[0].level, b.decrypt(t, results[0], raw)[0], c.out.Bound, c.out.Noise)
		})
	}
}

// TestDecisionsDeep: comparisons that are deeper than the parameters bootstrap.
func TestDecisionsDeep(t *testing.T) {
	b, ev, boot := bootBench(t)
	p := b.ctx.Parameters()
	for i, d := range []decision{
		{"y > 25", 0.625, nil, []float64{25}},
		{"count(x > 0)", 0.125, []float64{0}, nil},
	} {
		t.Run(d.expr, func(t *testing.T) {
			c := d.compile(t, p, 64)
			if c.Bootstraps() == 0 {
				t.Errorf("depth %d without bootstrapping", c.Depth())
			}
			in := c.Inputs()[0]
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			slots, samples := d.draw(c, rng)
			st := c.prog.stream(in)
			ct, err := b.enc.EncryptReal(slots, st.LevelAt(p.Depth()), InputScale(p, st), nil)
			if err != nil {
				t.Fatal(err)
			}
			results, err := c.run(Item{Routine: c, Evaluator: ev, Inputs: map[Input]*henc.Ciphertext{in: ct},
				Bootstrapper: boot})
			if err != nil {
				t.Fatal(err)
			}
			d.within(t, c, b.decrypt(t, results[0], c.out), samples)
			t.Logf("%d bootstraps, depth %d, promised error %.3g, noise %.3g", c.Bootstraps(), c.Depth(), c.out.Bound,
				c.out.Noise)
		})
	}
}
