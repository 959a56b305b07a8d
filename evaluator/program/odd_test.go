package program

import (
	"math"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// TestOddSources: streams and constants at the edges of their types, which a checked
// configuration does not have, give an error or a circuit with a finite promise.
func TestOddSources(t *testing.T) {
	level, below := 99, -1
	channels := func(low, high float64) []config.Channel { return []config.Channel{{Range: [2]float64{low, high}}} }
	four := config.Window{Samples: 4}
	streams := []config.Stream{
		{},
		{Window: four},
		{Window: config.Window{Samples: -5}, Channels: channels(0, 1)},
		{Window: config.Window{Samples: 1 << 40}, Channels: channels(0, 1)},
		{Window: four, Channels: channels(0, 1), LogScale: -5},
		{Window: four, Channels: channels(0, 1), LogScale: 2000},
		{Window: four, Channels: channels(0, 1), Level: &level},
		{Window: four, Channels: channels(0, 1), Level: &below},
		{Window: four, Channels: channels(math.NaN(), 1)},
		{Window: four, Channels: channels(1, 1)},
		{Window: four, Channels: channels(-1e308, 1e308)},
		{Window: four, Channels: channels(1e300, 1.1e300)},
		{Window: four, Channels: channels(0, 5e-324)},
		{Window: four, Channels: channels(-1, 1)},
	}
	exprs := []string{"x", "x*x", "mean(x)", "x^64", "x - x", "x - mean(x)", "std(x)", "x/1e-320", "cov(x, x*1e200)",
		"poly(x, [1e308, 1e308, 1e308])", "poly(x, [0, 0, 0, 1e-320, 1])", "dot(x, [0, 0, 0, 0])",
		"dot(x, [1e308, 1e308, -1e308, 1])"}
	made := 0
	for i, st := range streams {
		for _, expr := range exprs {
			for _, p := range []henc.Parameters{mustParams(t, "edge12-d1"), mustParams(t, "edge12-add"), {}} {
				for _, channel := range []int{0, -1, 7} {
					c, err := Compile(Source{Name: "p", Expr: expr, Vars: map[string]Var{"x": {"d", st, channel}}}, p)
					if err != nil {
						continue
					}
					made++
					if b := c.Output().Bound; !(b > 0) || !finite(b) || !finite(c.lo) || !finite(c.hi) {
						t.Errorf("stream %d, %s under %s: promise %g, range %g to %g", i, expr, p.Name(), b, c.lo, c.hi)
					}
					if c.Explain().Text() == "" {
						t.Errorf("stream %d, %s: no explanation", i, expr)
					}
					for _, ev := range []*henc.Evaluator{nil, {}} {
						if _, _, err := c.Run(ev, nil); err == nil {
							t.Errorf("stream %d, %s ran without a context", i, expr)
						}
					}
				}
			}
		}
	}
	if made < 10 {
		t.Errorf("only %d circuits", made)
	}
}
