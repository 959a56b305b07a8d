package config

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"
)

// decimal returns the shortest decimal number that rounds to x.
func decimal(t *testing.T, x float64) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	if !ok {
		t.Fatalf("%g is no number", x)
	}
	return r
}

// TestGridEdges holds edges against exact decimal arithmetic, and cells against a search
// through all edges.
func TestGridEdges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		lo, hi, width float64
		bins          int
	}{
		{0, 1, 0.1, 10}, {-40, 125, 0.25, 660}, {0, 1023, 1, 1023}, {0.7, 1.4, 0.1, 7}, {-0.3, 0.3, 0.1, 6},
		{1e6, 2e6, 1000, 1000}, {-1e-6, 1e-6, 1e-9, 2000}, {0, 16384, 1, 16384}, {20, 20.5, 0.5, 1},
		{0, 3, 1.5, 2}, {900.25, 1100.75, 0.05, 4010},
	} {
		ch := Channel{Range: [2]float64{c.lo, c.hi}, Resolution: c.width}
		g, err := ch.Grid()
		if err != nil || g.Bins != c.bins || g.Slots() != 2*c.bins || g.Width() != c.width {
			t.Fatalf("%+v: grid %+v, %v", c, g, err)
		}
		edges := make([]float64, g.Bins+1)
		for j := range edges {
			exact := new(big.Rat).Mul(decimal(t, c.width), big.NewRat(int64(j), 1))
			edges[j], _ = exact.Add(exact, decimal(t, c.lo)).Float64()
			if got := g.Edge(j); got != edges[j] {
				t.Fatalf("%+v: edge %d is %v, want %v", c, j, got, edges[j])
			}
		}
		want := func(x float64) int {
			cell := 0
			for j, e := range edges {
				switch {
				case x == e:
					return 2 * j
				case x > e:
					cell = 2*j + 1
				}
			}
			return min(cell, 2*g.Bins)
		}
		check := func(x float64) {
			t.Helper()
			if got := g.Cell(x); got != want(x) {
				t.Fatalf("%+v: %v is in cell %d, want %d", c, x, got, want(x))
			}
		}
		for range 200 {
			check(c.lo + (c.hi-c.lo)*rng.Float64())
			e := edges[rng.IntN(len(edges))]
			check(e)
			check(math.Nextafter(e, math.Inf(1)))
			check(math.Nextafter(e, math.Inf(-1)))
		}
		for x, cell := range map[float64]int{math.Inf(-1): 0, math.Inf(1): 2 * g.Bins, -math.MaxFloat64: 0,
			math.MaxFloat64: 2 * g.Bins, c.lo: 0, c.hi: 2 * g.Bins} {
			if got := g.Cell(x); got != cell {
				t.Errorf("%+v: %v is in cell %d, want %d", c, x, got, cell)
			}
		}
		if got := g.Cell(math.NaN()); got != 0 {
			t.Errorf("%+v: NaN is in cell %d", c, got)
		}
	}
}

// TestGridRefusals: every grid that is not exact is refused, whatever the numbers are.
func TestGridRefusals(t *testing.T) {
	for _, c := range []Channel{
		{Range: [2]float64{0, 1}}, {Range: [2]float64{0, 1}, Resolution: math.NaN()},
		{Range: [2]float64{0, 1}, Resolution: math.Inf(1)}, {Range: [2]float64{0, 1}, Resolution: -0.5},
		{Range: [2]float64{0, 1}, Resolution: 0.3}, {Range: [2]float64{0, 1}, Resolution: 2},
		{Range: [2]float64{1, 0}, Resolution: 0.1}, {Range: [2]float64{0, 1}, Resolution: 1.0 / 3},
		{Range: [2]float64{0, 1e300}, Resolution: 1e299}, {Range: [2]float64{0, 1e-300}, Resolution: 1e-301},
		{Range: [2]float64{0, 1}, Resolution: 0x1p-15}, {Range: [2]float64{math.NaN(), 1}, Resolution: 0.5},
		{Range: [2]float64{0, math.Inf(1)}, Resolution: 0.5}, {Range: [2]float64{1, 1}, Resolution: 0.5},
	} {
		if g, err := c.Grid(); err == nil {
			t.Errorf("%v at %v gives %+v", c.Range, c.Resolution, g)
		}
	}
}

// TestHistogramLayout: strides, units, and hashes that tell histograms apart from all else.
func TestHistogramLayout(t *testing.T) {
	s := Stream{Name: "s", Mode: ModeHistogram, Params: "edge12-add", Window: Window{Samples: 4096},
		Channels: []Channel{{Name: "c", Unit: "%", Range: [2]float64{0, 100}, Resolution: 0.5},
			{Name: "d", Unit: "%", Range: [2]float64{0, 10}, Resolution: 5}}}
	s.SetDefaults()
	if !s.Histogram() || s.LogScale != HistogramLogScale || s.Stride() != 512 || s.Slots() != 1024 {
		t.Fatalf("stream %+v has stride %d", s, s.Stride())
	}
	for samples, unit := range map[int]float64{1: 1, 2: 0.5, 3: 0.25, 4096: 0x1p-12, 4097: 0x1p-13,
		MaxSamples: 0x1p-15} {
		s.Window.Samples = samples
		if got := s.CountUnit(); got != unit {
			t.Errorf("%d samples: a count is %g, want %g", samples, got, unit)
		}
	}
	seen := map[[32]byte]int{}
	for i, change := range []func(*Stream){
		func(*Stream) {},
		func(s *Stream) { s.Packing = PackingReal },
		func(s *Stream) { s.Channels[0].Resolution = 0.25 },
		func(s *Stream) { s.Places = 2 },
		func(s *Stream) { s.LogScale = 39 },
	} {
		c := s
		c.Channels = append([]Channel{}, s.Channels...)
		change(&c)
		if old, ok := seen[c.LayoutHash()]; ok {
			t.Errorf("changes %d and %d have one hash", old, i)
		}
		seen[c.LayoutHash()] = i
	}
}
