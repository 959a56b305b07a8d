package source

import (
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
)

func histogramStream(samples int) config.Stream {
	s := config.Stream{Name: "s", Mode: config.ModeHistogram, Params: "edge12-add",
		Window: config.Window{Samples: samples}, Channels: []config.Channel{
			{Name: "a", Unit: "degC", Range: [2]float64{-1, 2}, Resolution: 0.1},
			{Name: "b", Unit: "%", Range: [2]float64{0, 100}, Resolution: 25}}}
	s.SetDefaults()
	return s
}

// TestFillCounts holds the slots of random and of extreme windows against counts by
// comparison with every edge.
func TestFillCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := histogramStream(300)
	edge := func(ch config.Channel, j int) float64 {
		g, err := ch.Grid()
		if err != nil {
			t.Fatal(err)
		}
		return g.Edge(j)
	}
	draws := map[string]func(ch config.Channel) float64{
		"random": func(ch config.Channel) float64 {
			return ch.Range[0] + (ch.Range[1]-ch.Range[0])*rng.Float64()
		},
		"edges":     func(ch config.Channel) float64 { return edge(ch, rng.IntN(4)) },
		"all lows":  func(ch config.Channel) float64 { return ch.Range[0] },
		"all highs": func(ch config.Channel) float64 { return ch.Range[1] },
		"one bin":   func(ch config.Channel) float64 { return ch.Range[0] + ch.Resolution/3 },
		"beside edges": func(ch config.Channel) float64 {
			return math.Nextafter(edge(ch, 1+rng.IntN(3)), float64(rng.IntN(2))*1000-500)
		},
	}
	for name, draw := range draws {
		for _, n := range []int{0, 1, 7, 300} {
			values := make([][]float64, len(s.Channels))
			for k, ch := range s.Channels {
				for range n {
					values[k] = append(values[k], draw(ch))
				}
			}
			out := make([]float64, s.Slots())
			FillSlots(out, s, values)
			used := map[int]bool{}
			for k, ch := range s.Channels {
				for i := range 2 * int(math.Round((ch.Range[1]-ch.Range[0])/ch.Resolution)) {
					want := 0
					for _, x := range values[k] {
						// Slot 2j counts what is above edge j, slot 2j+1 what is at edge j+1 or above.
						if i%2 == 0 && x > edge(ch, i/2) || i%2 == 1 && x >= edge(ch, i/2+1) {
							want++
						}
					}
					at := k*s.Stride() + i
					used[at] = true
					if got := out[at] * 512; got != float64(want) {
						t.Fatalf("%s: %d samples: channel %d, slot %d counts %g, want %d", name, n, k, i, got, want)
					}
				}
			}
			for i, v := range out {
				if !used[i] && v != 0 {
					t.Fatalf("%s: slot %d holds %g, beside all counts", name, i, v)
				}
			}
		}
	}
}

// TestHistogramPolicies: values that are missing or out of range are counted as the policies
// make them: held, marked, left out or moved to the end of the range.
func TestHistogramPolicies(t *testing.T) {
	mark := 75.0
	for _, c := range []struct {
		missing config.Missing
		outside config.Outside
		want    map[float64]int // samples at or above a value, of NaN, -5, 110, 30, NaN
	}{
		{config.MissingHold, config.OutsideClamp, map[float64]int{25: 3, 50: 1, 75: 1, 100: 1}},
		{config.MissingSkip, config.OutsideClamp, map[float64]int{25: 2, 50: 1, 75: 1, 100: 1}},
		{config.MissingMark, config.OutsideClamp, map[float64]int{25: 4, 50: 3, 75: 3, 100: 1}},
		{config.MissingSkip, config.OutsideMissing, map[float64]int{25: 1, 50: 0, 75: 0, 100: 0}},
		{config.MissingMark, config.OutsideMissing, map[float64]int{25: 5, 50: 4, 75: 4, 100: 0}},
	} {
		s := histogramStream(5)
		s.Channels = s.Channels[1:]
		s.Channels[0].OnMissing, s.Channels[0].OnRange, s.Channels[0].MissingValue = c.missing, c.outside, &mark
		col := NewCollector(s, &Counters{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		at := time.Unix(100, 0)
		for i, x := range []float64{math.NaN(), -5, 110, 30, math.NaN()} {
			r := newRow(at.Add(time.Duration(i)*time.Second), 1)
			r.Values[0] = x
			for _, w := range col.Add(r) {
				checkCounts(t, s, w, c.want)
				w.Samples = -1 // seen
			}
		}
		if w := col.Flush(); w != nil {
			checkCounts(t, s, w, c.want)
		}
	}
}

// checkCounts holds the counts of a window of the channel of 0 to 100 against want.
func checkCounts(t *testing.T, s config.Stream, w *Window, want map[float64]int) {
	t.Helper()
	out := make([]float64, s.Slots())
	FillSlots(out, s, w.Values)
	for edge, n := range want {
		slot := 2*int(edge/25) - 1
		if got := out[slot] / s.CountUnit(); got != float64(n) {
			t.Errorf("%s, %s: %g samples at %g or above, want %d", s.Channels[0].OnMissing, s.Channels[0].OnRange,
				got, edge, n)
		}
	}
}
