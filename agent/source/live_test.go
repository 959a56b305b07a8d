package source

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
)

// scripted is a sensor that gives one result after the other.
type scripted struct {
	results []any // float64 or error
	n       int
}

func (s *scripted) Read(context.Context) (float64, time.Time, error) {
	r := s.results[min(s.n, len(s.results)-1)]
	s.n++
	if err, ok := r.(error); ok {
		return 0, time.Time{}, err
	}
	return r.(float64), time.Time{}, nil
}

func TestLiveTicks(t *testing.T) {
	clock := testrig.NewClock()
	start := clock.Mono()
	l := &live{clock: clock, unrepeatable: unrepeatable{time.Second}, counters: new(Counters),
		reader:  sensor.NewReader([]sensor.Sensor{&scripted{results: []any{1.0}}}, time.Second),
		sources: []config.Source{{Scale: 2, Offset: 5}}}
	tick := func() time.Duration {
		t.Helper()
		r, err := l.Next(t.Context())
		if err != nil || r.Values[0] != 7 {
			t.Fatalf("got %v, %v", r, err)
		}
		return clock.Mono() - start
	}
	if got := tick(); got != firstSample {
		t.Errorf("first sample after %v", got)
	}
	clock.SetLate(300 * time.Millisecond) // late, but by less than an interval
	if got := tick(); got != 1550*time.Millisecond {
		t.Errorf("second sample after %v", got)
	}
	if got := tick(); got != 2250*time.Millisecond {
		t.Errorf("the schedule drifted: third sample after %v", got)
	}
	clock.SetLate(5500 * time.Millisecond) // the process stood still
	if got := tick(); l.counters.Stats().MissedTicks != 5 || got != 8750*time.Millisecond {
		t.Errorf("missed %d, sample after %v", l.counters.Stats().MissedTicks, got)
	}
	if got := tick(); l.counters.Stats().MissedTicks != 5 || got != 9250*time.Millisecond {
		t.Errorf("missed %d, after the gap: sample after %v", l.counters.Stats().MissedTicks, got)
	}
	clock.Step(-24 * time.Hour) // ticks must not follow the wall clock
	if got := tick(); got != 10250*time.Millisecond {
		t.Errorf("after a clock step: sample after %v", got)
	}
}

// However late the goroutine runs, a window by time has as many samples as ticks, and
// none is left over, where ticks lie shortly before the windows' borders.
func TestLiveJitter(t *testing.T) {
	clock := testrig.NewClock()
	clock.Step(-300 * time.Microsecond)
	s := twoChannels(config.Window{Every: time.Second})
	s.Interval = firstSample
	s.Window.Samples = 0
	s.SetDefaults()
	l := &live{clock: clock, unrepeatable: unrepeatable{s.Interval}, counters: new(Counters),
		reader: sensor.NewReader([]sensor.Sensor{&scripted{results: []any{1.0}}, &scripted{results: []any{0.0}}},
			time.Second), sources: make([]config.Source, 2)}
	c, count := collect(s)
	var done []*Window
	for i := range 100 {
		clock.SetLate(time.Duration(i*i%7) * 100 * time.Microsecond)
		r, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, c.Add(r)...)
	}
	for i, w := range done {
		if w.Samples != 4 && i > 0 {
			t.Errorf("window %d has %d samples", i, w.Samples)
		}
	}
	if st := count.Stats(); st.Overflow != 0 || len(done) != 24 {
		t.Errorf("%d windows, %+v", len(done), st)
	}
}

// Where a process stands still, the gap is where the samples are missing.
func TestLiveGapPlace(t *testing.T) {
	clock := testrig.NewClock()
	s := twoChannels(config.Window{Samples: 8})
	s.OnGap = config.GapMark
	for i := range s.Channels {
		s.Channels[i].OnMissing, s.Channels[i].MissingValue = config.MissingMark, new(0.0)
	}
	l := &live{clock: clock, unrepeatable: unrepeatable{time.Second}, counters: new(Counters),
		reader: sensor.NewReader([]sensor.Sensor{&scripted{results: []any{0.0, 1.0, 2.0, 3.0, 4.0, 5.0}},
			&scripted{results: []any{1.0}}}, time.Second), sources: make([]config.Source, 2)}
	c, _ := collect(s)
	var done []*Window
	for i := range 5 {
		if i == 2 {
			clock.SetLate(3200 * time.Millisecond)
		}
		r, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, c.Add(r)...)
	}
	if len(done) != 1 || !equal(done[0].Values[:1], [][]float64{{1, 2, 0, 0, 0, 3, 4, 5}}) ||
		done[0].End.Sub(done[0].Start) != 7*time.Second {
		t.Errorf("got %+v", done)
	}
}

func TestLiveFailures(t *testing.T) {
	boom := errors.New("boom")
	l := &live{clock: testrig.NewClock(), unrepeatable: unrepeatable{time.Second}, counters: new(Counters),
		reader: sensor.NewReader([]sensor.Sensor{&scripted{results: []any{0.0, boom, 4.0}},
			&scripted{results: []any{0.0, 2.0, math.Inf(1)}}}, time.Second), sources: make([]config.Source, 2)}
	r, err := l.Next(t.Context())
	if err != nil || !math.IsNaN(r.Values[0]) || !errors.Is(r.errs[0], boom) || r.Values[1] != 2 || r.errs[1] != nil {
		t.Fatalf("got %v, %v", r, err)
	}
	r, err = l.Next(t.Context())
	if err != nil || r.Values[0] != 4 || !math.IsNaN(r.Values[1]) || !errors.Is(r.errs[1], sensor.ErrReading) {
		t.Fatalf("got %v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSystemClock(t *testing.T) {
	c := role.SystemClock()
	a := c.Mono()
	if err := c.Sleep(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if b := c.Mono(); b-a < time.Millisecond {
		t.Errorf("slept %v", b-a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []time.Duration{-1, time.Hour} {
		if err := c.Sleep(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", d, err)
		}
	}
}
