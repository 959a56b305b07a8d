package program

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
)

// histogramVars are testVars with h and k, two channels of a histogram.
func histogramVars(params string, samples int) map[string]Var {
	st := testStream("hist", params, samples, [2]float64{0, 10}, [2]float64{-1, 1})
	st.Mode, st.Packing, st.LogScale = config.ModeHistogram, config.PackingHistogram, config.HistogramLogScale
	st.Channels[0].Resolution, st.Channels[1].Resolution = 0.5, 0.1
	vars := testVars(params, samples)
	vars["h"], vars["k"] = Var{"a", st, 0}, Var{"a", st, 1}
	return vars
}

// histogramClass are h and k of a class.
func histogramClass(params string, samples, places int) map[string]Var {
	vars := map[string]Var{}
	for name, v := range histogramVars(params, samples) {
		if v.Stream.Histogram() {
			v.Device, v.Stream.Places, v.Stream.Window.Every = "", places, time.Minute
			vars[name] = v
		}
	}
	return vars
}

// countSlots puts the counts of samples into slots, by comparison with every edge. First it
// moves some samples to edges, or beside them.
func countSlots(t testing.TB, slots []float64, st config.Stream, channel int, samples []float64, rng *rand.Rand) {
	grid, err := st.Channels[channel].Grid()
	if err != nil {
		t.Fatal(err)
	}
	for i := range samples {
		e := grid.Edge(rng.IntN(grid.Bins + 1))
		switch rng.IntN(6) {
		case 0, 1:
			samples[i] = e
		case 2:
			samples[i] = min(max(math.Nextafter(e, 100), grid.Edge(0)), grid.Edge(grid.Bins))
		case 3:
			samples[i] = min(max(math.Nextafter(e, -100), grid.Edge(0)), grid.Edge(grid.Bins))
		}
	}
	clear(slots)
	putCounts(slots, st, grid, samples)
}

// putCounts puts the counts of samples into slots of zeros.
func putCounts(slots []float64, st config.Stream, grid config.Grid, samples []float64) {
	for j := range grid.Bins {
		for _, x := range samples {
			if x > grid.Edge(j) {
				slots[2*j] += st.CountUnit()
			}
			if x >= grid.Edge(j+1) {
				slots[2*j+1] += st.CountUnit()
			}
		}
	}
}

var histogramPrograms = []string{
	"count(h > 5)", "count(h >= 5)", "count(h < 5)", "count(h <= 5)", "count(5 > h)", "count(0 < h)", "count(h < 10)",
	"count(h == 5)", "count(h == 0)", "count(h == 10)", "count(k > -0.3)", "count(k <= 2*0.15)",
	"count(2.5 < h < 7)", "count(2.5 <= h and h <= 7)", "count(h > 1 and 9 > h and h > 2)", "count(k >= -1 and k < 0)",
	"fraction(h > 5)", "fraction(h <= 5)", "fraction(2.5 < h <= 7)", "count(prev(h) > 5)",
	"quantile(h, 0)", "quantile(h, 0.01)", "quantile(h, 0.25)", "quantile(h, 0.5)", "quantile(h, 0.9)",
	"quantile(h, 0.99)", "quantile(k, 1)", "median(h)", "median(k)", "min(h)", "max(h)", "min(k)", "max(k)",
	"median(last(h, 3))", "count(last(h, 2) > 5)", "fraction(last(k, 5) > 0.5)", "max(last(prev(h), 2))",
	"let r = lag(k, 2); min(r)", "count(h > 5) - count(prev(h) > 5)", "2*count(h > 5) - 7", "-count(k > 0)",
}

// TestHistogramPlain holds programs on histograms, run without noise, against the plain samples.
func TestHistogramPlain(t *testing.T) {
	for _, set := range []string{"edge12-add", "edge12-d1"} {
		for i, expr := range histogramPrograms {
			for _, samples := range []int{1, 20, 21} {
				c, err := Compile(Source{Name: "p", Expr: expr, Vars: histogramVars(set, samples)}, mustParams(t, set))
				if err != nil {
					t.Fatalf("%s: %v", set, err)
				}
				for k := range 3 {
					checkPlain(t, c, rand.New(rand.NewPCG(uint64(i), uint64(k))))
				}
			}
		}
	}
}

// TestHistogramExact runs the programs on ciphertexts of random and of extreme windows, full
// or not: counts and shares are those of the plain samples, and so is a quantile that is an
// edge; another one is in its bin.
func TestHistogramExact(t *testing.T) {
	for _, set := range []string{"edge12-add", "edge12-d1", "edge13-d3"} {
		b := testBench(t, set)
		for i, expr := range histogramPrograms {
			for _, present := range []int{20, 13} {
				vars := histogramVars(set, 20)
				c, err := Compile(Source{Name: "p", Expr: expr, Vars: vars,
					Present: map[Input]int{{"a", "hist", 0}: present}}, b.ctx.Parameters())
				if err != nil {
					t.Fatalf("%s: %s: %v", set, expr, err)
				}
				if n, _ := c.switches(); n > 0 {
					t.Errorf("%s: %s takes %d key switches", set, expr, n)
				}
				for seed := range 2 {
					b.checkExact(t, c, rand.New(rand.NewPCG(uint64(i), uint64(seed))))
				}
			}
		}
	}
}

// checkExact runs a circuit on ciphertexts and wants exact values.
func (b *bench) checkExact(t *testing.T, c *Circuit, rng *rand.Rand) {
	t.Helper()
	cts, plain := b.sample(t, c, rng)
	ct, out, err := c.Run(b.evaluator(t, c), cts)
	if err != nil {
		t.Fatalf("%s: %v", c.prog.Expr, err)
	}
	want, err := c.Reference(plain)
	if err != nil {
		t.Fatal(err)
	}
	wantExact(t, c, b.decrypt(t, ct, out), want, out)
}

func wantExact(t *testing.T, c *Circuit, got, want []float64, out Output) {
	t.Helper()
	if len(got) != 1 || len(want) != 1 || !(math.Abs(got[0]-want[0]) <= out.BoundAt(got[0])) {
		t.Errorf("%s: %s gives %v, want %v within %g", c.params.Name(), c.prog.Expr, got, want, out.BoundAt(got[0]))
	}
	if counts := out.Counts.kind != readRank; counts && (got[0] != want[0] || out.Bound != 0) {
		t.Errorf("%s: %s gives %v with the bound %g, want %v", c.params.Name(), c.prog.Expr, got, out.Bound, want)
	}
	if lo, hi := c.Range(); got[0] < lo || got[0] > hi {
		t.Errorf("%s: %v is outside of %g to %g", c.prog.Expr, got, lo, hi)
	}
}

// TestHistogramTogether: programs of one window run as a set, and keep their results.
func TestHistogramTogether(t *testing.T) {
	b := testBench(t, "edge13-d3")
	var circuits []*Circuit
	for i, expr := range []string{"count(h > 5)", "quantile(h, 0.9)", "fraction(k < 0)", "max(k)", "mean(x)",
		"var(x)"} {
		c, err := Compile(Source{Name: fmt.Sprintf("p%d", i), Expr: expr, Vars: histogramVars("edge13-d3", 20)},
			b.ctx.Parameters())
		if err != nil {
			t.Fatal(err)
		}
		circuits = append(circuits, c)
	}
	s, err := Fuse(nil, circuits...)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range 4 {
		rng := rand.New(rand.NewPCG(9, uint64(seed)))
		b.checkSet(t, s, rng)
		checkPlainSet(t, s, rng)
	}
}

var histogramFleet = []string{"fleet.count(h > 5)", "fleet.count(h <= 5)", "fleet.count(2.5 < h < 7)",
	"fleet.fraction(k >= 0)", "fleet.fraction(-0.5 < k <= 0.5)", "fleet.quantile(h, 0.99)", "fleet.median(k)",
	"fleet.min(h)", "fleet.max(k)"}

// TestHistogramAcross: sums over the devices of a class, which report as they do, are exact.
func TestHistogramAcross(t *testing.T) {
	for _, of := range []struct {
		set    string
		places int
	}{{"edge12-add", 0}, {"edge13-d3", 0}, {"edge13-d3", 8}} {
		b := testBench(t, of.set)
		for i, expr := range histogramFleet {
			c, err := Compile(Source{Name: "p", Class: "pump", Expr: expr, Vars: histogramClass(of.set, 20, of.places)},
				b.ctx.Parameters())
			if err != nil {
				t.Errorf("%s: %v", of.set, err)
				continue
			}
			if c.Capacity() != capacities[0] {
				t.Errorf("%s: %s takes %d windows", of.set, expr, c.Capacity())
			}
			for k, present := range [][]int{{20}, {1}, {20, 20, 20, 20, 20, 20, 20}, {20, 3, 17, 1, 20}} {
				got, want, out := b.across(t, c, present, rand.New(rand.NewPCG(uint64(i), uint64(k))))
				wantExact(t, c, got, want, out)
			}
		}
	}
}

// TestHistogramNoise: the promise of the noise holds in every slot of a sum of windows, with
// room, and what would not be exact is refused.
func TestHistogramNoise(t *testing.T) {
	b := testBench(t, "edge12-add")
	vars := map[string]Var{"h": histogramVars("edge12-add", 4096)["h"]}
	c, err := Compile(Source{Name: "p", Expr: "max(last(h, 16))", Vars: vars}, b.ctx.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	cts, plain := b.sample(t, c, rand.New(rand.NewPCG(1, 1)))
	ct, out, err := c.Run(b.evaluator(t, c), cts)
	if err != nil {
		t.Fatal(err)
	}
	slots, err := b.dec.DecryptReal(ct)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for j := range 20 {
		for i, holds := range []func(x float64) bool{
			func(x float64) bool { return x > float64(j)*0.5 }, func(x float64) bool { return x >= float64(j+1)*0.5 }} {
			want := 0.0
			for _, window := range plain {
				for _, x := range window {
					if holds(x) {
						want++
					}
				}
			}
			worst = max(worst, math.Abs(out.A*slots[out.Slot+2*j+i]+out.B-want))
		}
	}
	if !(worst <= out.Noise) || !(out.Noise < maxCountNoise) || worst == 0 {
		t.Errorf("the noise reaches %g, promised %g", worst, out.Noise)
	}
	for scale, fits := range map[int]bool{26: false, 31: false, 36: true, 50: true} {
		v := vars["h"]
		v.Stream.LogScale = scale
		_, err := Compile(Source{Name: "p", Expr: "count(h > 5)", Vars: map[string]Var{"h": v}}, b.ctx.Parameters())
		if (err == nil) != fits || err != nil && (!errors.Is(err, ErrParams) ||
			!strings.Contains(err.Error(), "log_scale")) {
			t.Errorf("at scale 2^%d: %v", scale, err)
		}
	}
}

// TestHistogramCapacity: how many windows of 4096 samples a result across devices takes.
func TestHistogramCapacity(t *testing.T) {
	for set, windows := range map[string]int{"edge12-add": 1 << 16, "edge12-d1": 1 << 12} {
		c, err := Compile(Source{Name: "p", Class: "c", Expr: "fleet.median(h)", Vars: histogramClass(set, 4096, 0)},
			mustParams(t, set))
		if err != nil || c.Capacity() != windows {
			t.Errorf("%s: %d windows, want %d: %v", set, c.Capacity(), windows, err)
		}
	}
}

// TestHistogramRefusals: each refusal names its part of the program and what to do.
func TestHistogramRefusals(t *testing.T) {
	for expr, want := range map[string]struct {
		kind error
		part string
		says string
	}{
		"count(h > 5.1)":           {ErrConstant, "h > 5.1", "write 5 or 5.5"},
		"count(k > 0.05)":          {ErrConstant, "k > 0.05", "write 0 or 0.1"},
		"count(h > 11)":            {ErrConstant, "h > 11", "the range of `h` is 0 to 10"},
		"count(h >= 0)":            {ErrConstant, "count(h >= 0)", "holds for every sample"},
		"count(h < 0)":             {ErrConstant, "count(h < 0)", "holds for no sample"},
		"count(h > 5 and h < 5)":   {ErrConstant, "count(h > 5 and h < 5)", "holds for no sample"},
		"count(h)":                 {ErrType, "h", "write count(x > 80)"},
		"count(h != 5)":            {ErrType, "h != 5", "write count(x > 80)"},
		"count(h > 5 or h < 2)":    {ErrType, "h > 5 or h < 2", "write count(x > 80)"},
		"count(h > k)":             {ErrType, "h > k", "a number on the other"},
		"count(1 > 2)":             {ErrConstant, "count(1 > 2)", "whatever the inputs are"},
		"count(h > 5 and k > 0)":   {ErrUnsupported, "h > 5 and k > 0", "two histograms"},
		"count(x > 5)":             {ErrUnsupported, "x > 5", "mode: histogram"},
		"max(x)":                   {ErrUnsupported, "max(x)", "mode: histogram"},
		"quantile(h, 1.5)":         {ErrType, "1.5", "from 0 to 1"},
		"quantile(h, mean(x))":     {ErrType, "mean(x)", "from 0 to 1"},
		"quantile(h)":              {ErrType, "quantile(h)", "write quantile(x, p)"},
		"max(h, k)":                {ErrType, "max(h, k)", "write max(x)"},
		"max(h + 1)":               {ErrUnsupported, "h + 1", "is no histogram"},
		"max(h) - min(h)":          {ErrUnsupported, "max(h)", "must be outermost"},
		"count(1 < h < 2) + 1":     {ErrUnsupported, "count(1 < h < 2)", "outermost"},
		"mean(h)":                  {ErrType, "h", "holds counts, not samples"},
		"h*x":                      {ErrType, "h", "holds counts, not samples"},
		"last(h, 2)":               {ErrType, "last(h, 2)", "where a histogram stands"},
		"max(last(h, 0))":          {ErrType, "0", "from 1 to 64"},
		"max(last(h, 65))":         {ErrType, "65", "from 1 to 64"},
		"max(last(h))":             {ErrType, "last(h)", "write last(x, k)"},
		"max(last(lag(h, 60), 9))": {ErrSize, "lag(h, 60)", "windows back"},
		"max(" + strings.Repeat("last(", 40) + "h" + strings.Repeat(", 2)", 40) + ")": {ErrUnsupported,
			"last(last(h, 2), 2)", "write last once"},
		"max(q)":                      {ErrName, "q", "did you mean h?"},
		"fleet.max(h)":                {ErrUnsupported, "fleet.max(h)", "write for:"},
		"fleet.mode(h)":               {ErrName, "fleet.mode(h)", "fleet.quantile"},
		"count(h > 5) - count(h > 7)": {ErrDepth, "count(h > 5) - count(h > 7)", "key switching"},
	} {
		_, err := Compile(Source{Name: "p", Expr: expr, Vars: histogramVars("edge12-add", 20)},
			mustParams(t, "edge12-add"))
		wantHint(t, err)
		var e *Error
		if !errors.As(err, &e) || e.Kind != want.kind || e.part() != want.part ||
			!strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v", expr, err)
		}
	}
	for expr, says := range map[string]string{
		"fleet.max(prev(h))": "windows of one interval", "fleet.max(last(h, 2))": "windows of one interval",
		"fleet.count(h > 5) - count(h > 5)": "is a value of one device", "fleet.max(h) + 1": "must be outermost",
	} {
		_, err := Compile(Source{Name: "p", Class: "c", Expr: expr, Vars: histogramClass("edge12-add", 20, 0)},
			mustParams(t, "edge12-add"))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

// TestRanks holds ranks against a search, for shares that float64 rounds and that it does not.
func TestRanks(t *testing.T) {
	for n := int64(1); n <= 300; n++ {
		for percent := range int64(101) {
			rank := int64(1)
			for rank*100 < percent*n {
				rank++
			}
			if got := rankOf(float64(percent)/100, n); got != rank {
				t.Fatalf("rank of %d %% of %d is %d, want %d", percent, n, got, rank)
			}
		}
	}
	if got := rankOf(0.999, 1<<31); got != 2145336165 {
		t.Errorf("rank %d", got)
	}
	if got := []int64{rankOf(5e-324, 9), rankOf(1-0x1p-53, 9), rankOf(1, 9)}; !slices.Equal(got, []int64{1, 9, 9}) {
		t.Errorf("ranks %v", got)
	}
}

// TestHistogramValuesOfNonsense: whatever slots decrypt to, a value of the range comes out.
func TestHistogramValuesOfNonsense(t *testing.T) {
	c, err := Compile(Source{Name: "p", Expr: "quantile(h, 0.3)", Vars: histogramVars("edge12-add", 20)},
		mustParams(t, "edge12-add"))
	if err != nil {
		t.Fatal(err)
	}
	out := c.Output()
	slots := make([]float64, 2048)
	for _, v := range []float64{0, 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 1e300, -1e-300} {
		for i := range slots {
			slots[i] = v * float64(1-2*(i%2))
		}
		if got := out.Values(slots); len(got) != 1 || !(got[0] >= 0 && got[0] <= 10) {
			t.Errorf("slots of %g give %v", v, got)
		}
	}
}

// BenchmarkHistogram times what an evaluator computes for a window of 4096 samples in 1000
// bins, for all thresholds and quantiles, and what a window adds to a sum across devices.
func BenchmarkHistogram(b *testing.B) {
	for _, set := range []string{"edge12-d1", "edge12-add"} {
		st := testStream("hist", set, 4096, [2]float64{0, 1000})
		st.Mode, st.Packing, st.LogScale = config.ModeHistogram, config.PackingHistogram, config.HistogramLogScale
		st.Channels[0].Resolution = 1
		bed := testBench(b, set)
		c, err := Compile(Source{Name: "p", Expr: "quantile(h, 0.99)", Vars: map[string]Var{"h": {"a", st, 0}}},
			bed.ctx.Parameters())
		if err != nil {
			b.Fatal(err)
		}
		cts, _ := bed.sample(b, c, rand.New(rand.NewPCG(1, 1)))
		ev := bed.evaluator(b, c)
		ct, _, err := c.Run(ev, cts)
		if err != nil {
			b.Fatal(err)
		}
		bytes := len(bed.marshal(b, ct))
		b.Run(set+"/result", func(b *testing.B) {
			for b.Loop() {
				ct, _, err := c.Run(ev, cts)
				if err != nil {
					b.Fatal(err)
				}
				bed.ctx.Ring().Free(ct.Value)
			}
			b.ReportMetric(float64(bytes), "bytes")
		})
		b.Run(set+"/add", func(b *testing.B) {
			for b.Loop() {
				sum, err := ev.Add(ct, ct)
				if err != nil {
					b.Fatal(err)
				}
				bed.ctx.Ring().Free(sum.Value)
			}
		})
		b.Run(set+"/encrypt", func(b *testing.B) {
			slots := make([]float64, st.Slots())
			for b.Loop() {
				ct, err := bed.enc.EncryptReal(slots, st.LevelAt(bed.ctx.Parameters().MaxLevel()),
					InputScale(bed.ctx.Parameters(), st), nil)
				if err != nil {
					b.Fatal(err)
				}
				bed.ctx.Ring().Free(ct.Value)
			}
		})
	}
}
