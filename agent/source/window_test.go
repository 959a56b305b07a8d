package source

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var errRead = errors.New("read failed")

// twoChannels is a stream of a in [0, 10] and b in [-1, 1].
func twoChannels(w config.Window) config.Stream {
	s := config.Stream{Name: "s", Interval: time.Second, Window: w, Channels: []config.Channel{
		{Name: "a", Range: [2]float64{0, 10}}, {Name: "b", Range: [2]float64{-1, 1}}}}
	s.SetDefaults()
	return s
}

func sampleAt(at time.Time, values ...float64) Row {
	r := newRow(at, len(values))
	for i, v := range values {
		if math.IsNaN(v) {
			r.miss(i, errRead)
		} else {
			r.Values[i] = v
		}
	}
	return r
}

func collect(s config.Stream) (*Collector, *Counters) {
	count := new(Counters)
	return NewCollector(s, count, testrig.Quiet()), count
}

func equal(a, b [][]float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if len(a[i]) != len(b[i]) {
			return false
		}
		for j := range a[i] {
			if a[i][j] != b[i][j] {
				return false
			}
		}
	}
	return true
}

func TestWindowsByCount(t *testing.T) {
	c, _ := collect(twoChannels(config.Window{Samples: 2}))
	if done := c.Add(sampleAt(t0, 1, 0)); len(done) != 0 {
		t.Fatal("finished early")
	}
	done := c.Add(sampleAt(t0.Add(time.Second), 2, 0.5))
	if len(done) != 1 {
		t.Fatalf("%d windows", len(done))
	}
	w := done[0]
	if !w.Start.Equal(t0) || !w.End.Equal(t0.Add(time.Second)) || w.Samples != 2 ||
		!equal(w.Values, [][]float64{{1, 2}, {0, 0.5}}) {
		t.Errorf("got %+v", w)
	}
	c.Add(sampleAt(t0.Add(2*time.Second), 3, 0))
	if w := c.Flush(); w == nil || w.Samples != 1 || !w.Start.Equal(w.End) {
		t.Errorf("flush: %+v", w)
	}
	if w := c.Flush(); w != nil {
		t.Errorf("empty flush: %+v", w)
	}
}

func TestWindowsByTime(t *testing.T) {
	c, count := collect(twoChannels(config.Window{Every: 10 * time.Second, Samples: 3}))
	start := t0.Add(7 * time.Second)
	var done []*Window
	for i := range 8 {
		done = append(done, c.Add(sampleAt(start.Add(time.Duration(i)*time.Second), float64(i), 0))...)
	}
	if len(done) != 1 || done[0].Samples != 3 || !done[0].Start.Equal(t0) ||
		!done[0].End.Equal(t0.Add(10*time.Second)) || !equal(done[0].Values, [][]float64{{0, 1, 2}, {0, 0, 0}}) {
		t.Fatalf("got %+v", done)
	}
	if n := count.overflow.Load(); n != 2 {
		t.Errorf("%d samples overflowed, want 2", n)
	}
	// A gap of several windows, and a row without a sample, both end a window.
	done = c.Add(sampleAt(t0.Add(time.Minute), math.NaN(), 0))
	if len(done) != 1 || done[0].Samples != 3 {
		t.Errorf("got %+v", done)
	}
}

func TestBucketOf(t *testing.T) {
	for _, c := range []struct {
		ns   int64
		want int64
	}{{0, 0}, {9, 0}, {10, 1}, {-1, -1}, {-10, -1}, {-11, -2}} {
		if got := bucketOf(time.Unix(0, c.ns), 10); got != c.want {
			t.Errorf("%d: got %d, want %d", c.ns, got, c.want)
		}
	}
}

func TestPolicies(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		edit func(a *config.Channel)
		rows [][2]float64
		want [][]float64
		stat Stats
	}{
		"hold": {func(*config.Channel) {}, [][2]float64{{nan, 0}, {4, 0}, {nan, 0}, {5, 0}, {nan, 0.5}},
			[][]float64{{4, 4, 5, 5}, {0, 0, 0, 0.5}},
			Stats{Samples: 4, Skipped: 1, Missing: 3, Held: 2}},
		"skip": {func(a *config.Channel) { a.OnMissing = config.MissingSkip },
			[][2]float64{{4, 0}, {nan, 1}, {5, 0.5}}, [][]float64{{4, 5}, {0, 0.5}},
			Stats{Samples: 2, Skipped: 1, Missing: 1}},
		"mark": {func(a *config.Channel) { a.OnMissing, a.MissingValue = config.MissingMark, new(0.0) },
			[][2]float64{{nan, 0}, {5, 0}, {nan, 0}}, [][]float64{{0, 5, 0}, {0, 0, 0}},
			Stats{Samples: 3, Missing: 2}},
		"clamp": {func(*config.Channel) {}, [][2]float64{{-3, 0}, {11, 0}, {10, 0}, {1e300, -0.5}},
			[][]float64{{0, 10, 10, 10}, {0, 0, 0, -0.5}},
			Stats{Samples: 4, Outside: 3, Clamped: 3}},
		"out of range is missing, hold": {func(a *config.Channel) { a.OnRange = config.OutsideMissing },
			[][2]float64{{5, 0}, {11, 0}, {6, 0}}, [][]float64{{5, 5, 6}, {0, 0, 0}},
			Stats{Samples: 3, Missing: 1, Held: 1, Outside: 1}},
		"out of range is missing, skip": {func(a *config.Channel) {
			a.OnRange, a.OnMissing = config.OutsideMissing,
				config.MissingSkip
		}, [][2]float64{{5, 0}, {-1, 0}, {6, 0}}, [][]float64{{5, 6}, {0, 0}},
			Stats{Samples: 2, Missing: 1, Skipped: 1, Outside: 1}},
	} {
		s := twoChannels(config.Window{Samples: 100})
		c.edit(&s.Channels[0])
		col, count := collect(s)
		for i, v := range c.rows {
			col.Add(sampleAt(t0.Add(time.Duration(i)*time.Second), v[0], v[1]))
		}
		w := col.Flush()
		if w == nil || !equal(w.Values, c.want) {
			t.Errorf("%s: got %+v, want %v", name, w, c.want)
		}
		if got := count.Stats(); got != c.stat {
			t.Errorf("%s: got %+v, want %+v", name, got, c.stat)
		}
	}
}

func TestClockStepEndsTheWindow(t *testing.T) {
	for name, w := range map[string]config.Window{"by count": {Samples: 10},
		"by time": {Every: time.Minute, Samples: 60}} {
		c, count := collect(twoChannels(w))
		c.Add(sampleAt(t0, 1, 0))
		c.Add(sampleAt(t0.Add(time.Second), 2, 0))
		done := c.Add(sampleAt(t0.Add(-time.Hour), 3, 0))
		if len(done) != 1 || done[0].Samples != 2 || done[0].End.Before(done[0].Start) {
			t.Errorf("%s: got %+v", name, done)
		}
		if next := c.Flush(); next == nil || next.Samples != 1 || next.Values[0][0] != 3 ||
			count.clockSteps.Load() != 1 {
			t.Errorf("%s: got %+v, %d steps", name, next, count.clockSteps.Load())
		}
	}
}

// Whatever comes in: no sample is lost without being counted, windows are in
// order and full or cut short for a reason, and every value is in range.
func TestCollectorProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := config.Window{Samples: rapid.IntRange(1, 6).Draw(t, "samples")}
		if rapid.Bool().Draw(t, "by time") {
			w.Every = time.Duration(rapid.IntRange(1, 9).Draw(t, "every")) * time.Second
		}
		s := twoChannels(w)
		for i := range s.Channels {
			s.Channels[i].OnMissing = rapid.SampledFrom([]config.Missing{config.MissingHold, config.MissingSkip,
				config.MissingMark}).Draw(t, "missing")
			s.Channels[i].OnRange = rapid.SampledFrom([]config.Outside{config.OutsideClamp,
				config.OutsideMissing}).Draw(t, "outside")
			s.Channels[i].MissingValue = new(0.25)
		}
		c, count := collect(s)
		at := t0
		var done []*Window
		n := rapid.IntRange(0, 60).Draw(t, "rows")
		for range n {
			at = at.Add(time.Duration(rapid.IntRange(-1000, 3000).Draw(t, "dt")) * time.Millisecond)
			value := rapid.OneOf(rapid.Float64Range(-20, 20), rapid.Just(math.NaN()))
			done = append(done, c.Add(sampleAt(at, value.Draw(t, "a"), value.Draw(t, "b")))...)
		}
		if last := c.Flush(); last != nil {
			done = append(done, last)
		}
		inWindows := 0
		for _, w := range done {
			inWindows += w.Samples
			if w.Samples < 1 || w.Samples > s.Window.Samples || w.End.Before(w.Start) {
				t.Fatalf("window %+v", w)
			}
			for k, ch := range s.Channels {
				if len(w.Values[k]) != w.Samples {
					t.Fatalf("channel %d has %d of %d samples", k, len(w.Values[k]), w.Samples)
				}
				for _, v := range w.Values[k] {
					if !(v >= ch.Range[0] && v <= ch.Range[1]) {
						t.Fatalf("%v is not in %v", v, ch.Range)
					}
				}
			}
			for _, u := range slots(s, w.Values) {
				if !(u >= -1 && u <= 1) {
					t.Fatalf("slot %v", u)
				}
			}
		}
		st := count.Stats()
		if inWindows != int(st.Samples) || int(st.Samples+st.Skipped+st.Overflow) != n {
			t.Fatalf("%d rows, %d samples in windows, %+v", n, inWindows, st)
		}
	})
}

func slots(s config.Stream, values [][]float64) []float64 {
	out := make([]float64, s.Slots())
	FillSlots(out, s, values)
	return out
}

func TestSlots(t *testing.T) {
	s := twoChannels(config.Window{Samples: 3}) // stride 4
	got := slots(s, [][]float64{{0, 10}, {0.5, -1}})
	want := []float64{-1, 1, 0, 0, 0.5, -1, 0, 0}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// A channel without a value is told with the reason of its newest sample, and since when
// there is none; it is not told when it has one again.
func TestCountersTrouble(t *testing.T) {
	c, count := collect(twoChannels(config.Window{Samples: 100}))
	slow := sampleAt(t0, 1, math.NaN())
	c.Add(slow)
	first := count.Trouble()[1]
	if len(count.Trouble()) != 1 || !errors.Is(first.Err, errRead) {
		t.Fatalf("got %v", count.Trouble())
	}
	if first.Since == first.Since.Round(0) {
		t.Errorf("%v has no monotonic reading: a clock that is set would change its age", first.Since)
	}
	slow.errs[1] = sensor.ErrSlow
	c.Add(slow)
	if now := count.Trouble()[1]; !errors.Is(now.Err, sensor.ErrSlow) || now.Since != first.Since {
		t.Errorf("got %v after %v", now, first)
	}
	c.Add(sampleAt(t0, 1, 0))
	if got := count.Trouble(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
