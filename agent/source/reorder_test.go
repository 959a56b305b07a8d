package source

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

func TestReorder(t *testing.T) {
	o := &reorder{lateness: 3 * time.Second}
	at := func(s int) Row { return sampleAt(t0.Add(time.Duration(s)*time.Second), float64(s), 0) }
	var got []float64
	feed := func(s int) bool {
		rows, late := o.add(at(s))
		for _, r := range rows {
			got = append(got, r.Values[0])
		}
		return late == 0
	}
	for _, c := range []struct {
		s    int
		late bool
		want []float64
	}{
		{10, false, nil}, {12, false, nil}, {11, false, nil}, {13, false, []float64{10}},
		{10, false, []float64{10, 10}}, {9, true, []float64{10, 10}},
		{15, false, []float64{10, 10, 11, 12}}, {11, true, []float64{10, 10, 11, 12}},
		{14, false, []float64{10, 10, 11, 12}},
	} {
		if ok := feed(c.s); ok == c.late || !slices.Equal(got, c.want) {
			t.Fatalf("after %d: got %v, late %v; want %v, late %v", c.s, got, !ok, c.want, c.late)
		}
	}
	for _, r := range o.drain() {
		got = append(got, r.Values[0])
	}
	if !slices.Equal(got, []float64{10, 10, 11, 12, 13, 14, 15}) {
		t.Errorf("got %v", got)
	}
}

// Memory is bounded: the oldest goes on early.
func TestReorderBound(t *testing.T) {
	o := &reorder{lateness: time.Hour, most: 4}
	for i := range 100 {
		rows, late := o.add(sampleAt(t0.Add(time.Duration(i)*time.Millisecond), float64(i), 0))
		if late != 0 || i >= 4 != (len(rows) == 1) || len(o.waiting) > 4 {
			t.Fatalf("row %d: %d given back, %d wait", i, len(rows), len(o.waiting))
		}
	}
	if _, late := o.add(sampleAt(t0, 0, 0)); late != 1 {
		t.Error("a row from before those that went on is taken")
	}
}

// A message from the far future is late, and changes nothing for the others; a
// clock that was set, forwards or backwards, is believed after leapRows rows, none
// of which is lost.
func TestReorderLeap(t *testing.T) {
	var mono time.Duration
	o := &reorder{lateness: 3 * time.Second, now: func() time.Duration { return mono }}
	const year = 365 * 24 * time.Hour
	var got []float64
	id, late := 0.0, 0
	feed := func(after time.Duration, n int) {
		for range n {
			mono += time.Second
			rows, l := o.add(sampleAt(t0.Add(after+mono), id, 0))
			id++
			late += l
			for _, r := range rows {
				got = append(got, r.Values[0])
			}
		}
	}
	feed(0, 5)       // 0 to 4
	feed(70*year, 1) // 5 is a mistake
	feed(0, 3)
	feed(-2*time.Second, 1) // 9 is still in time
	feed(70*year, leapRows-1)
	feed(0, 1) // 17
	if late != leapRows || !slices.Equal(got, []float64{0, 1, 2, 3, 4, 6, 7, 9, 8}) {
		// 9 is from the second of 7, and comes after it.
		t.Fatalf("late %d, got %v", late, got)
	}
	for _, step := range []time.Duration{70 * year, 0, -40 * year, 0} {
		late, got = 0, nil
		from := id
		feed(step, 2*leapRows)
		want := id - 4 // three seconds later, and the row at hand
		if late != 0 || got[len(got)-1] != want || !slices.Contains(got, from) {
			t.Fatalf("step to %v: late %d, got %v, want from %v to %v", step, late, got, from, want)
		}
	}
	// A device that speaks once in a while is not ahead of its time.
	late, got = 0, nil
	for range 3 {
		mono += 5 * time.Hour
		feed(0, 1)
	}
	if late != 0 || got[len(got)-1] != id-2 {
		t.Errorf("late %d, got %v", late, got)
	}
	// What is held back at the end is given.
	feed(-70*year, 2)
	rows := o.drain()
	if len(rows) != 3 || rows[2].Values[0] != id-1 || len(o.drain()) != 0 {
		t.Errorf("got %v", rows)
	}
}

// event is a sample with a mark of its own, and when it arrives.
type event struct {
	at      time.Time
	arrives time.Duration
	id      float64
}

// In whatever order samples arrive: each is in exactly one window, the one of
// its time, or is counted as late; within the lateness none is late; windows and
// the samples in them are in the order of time.
func TestLatenessProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lateness := time.Duration(rapid.IntRange(1, 5000).Draw(t, "lateness")) * time.Millisecond
		s := config.Stream{Name: "s", Lateness: lateness, Replay: &config.Replay{},
			Channels: []config.Channel{{Name: "a", Range: [2]float64{0, 1e6}}}}
		s.Window.Samples = rapid.IntRange(1, 8).Draw(t, "samples")
		if rapid.Bool().Draw(t, "by time") {
			s.Window.Every = time.Duration(rapid.IntRange(500, 9000).Draw(t, "every")) * time.Millisecond
			s.Window.Samples = 1000 // nothing overflows
		}
		s.SetDefaults()
		events := drawEvents(t)

		count := new(Counters)
		c, order := NewCollector(s, count, testrig.Quiet()), &reorder{lateness: s.Lateness}
		var done []*Window
		take := func(rows []Row) {
			for _, r := range rows {
				done = append(done, c.Add(r)...)
			}
		}
		newest, timely := time.Time{}, 0
		for _, e := range events {
			if e.at.After(newest) {
				newest = e.at
			}
			if !e.at.Before(newest.Add(-lateness)) {
				timely++
			}
			rows, late := order.add(sampleAt(e.at, e.id))
			take(rows)
			count.late.Add(uint64(late))
		}
		take(order.drain())
		if w := c.Flush(); w != nil {
			done = append(done, w)
		}

		seen := checkWindows(t, s, events, done)
		st := count.Stats()
		if seen+int(st.Late) != len(events) || st.Skipped+st.Overflow+st.ClockSteps != 0 {
			t.Fatalf("%d samples in windows of %d, %+v", seen, len(events), st)
		}
		if int(st.Late) > len(events)-timely {
			t.Fatalf("%d are late, of which %d were in time", st.Late, int(st.Late)-(len(events)-timely))
		}
	})
}

// drawEvents draws samples in the order in which they arrive.
func drawEvents(t *rapid.T) []event {
	var events []event
	at := t0
	for i := range rapid.IntRange(0, 80).Draw(t, "events") {
		at = at.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "dt")) * time.Millisecond)
		delay := time.Duration(rapid.IntRange(0, 8000).Draw(t, "delay")) * time.Millisecond
		events = append(events, event{at, at.Sub(t0) + delay, float64(i)})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.arrives - b.arrives) })
	return events
}

// checkWindows checks that each sample is in one window, the one of its time, and that all
// are in order. It returns how many samples are in windows.
func checkWindows(t *rapid.T, s config.Stream, events []event, done []*Window) int {
	seen, lastStart, before := map[float64]int{}, time.Time{}, time.Time{}
	of := map[float64]event{}
	for _, e := range events {
		of[e.id] = e
	}
	for _, w := range done {
		if w.Start.Before(lastStart) || w.Samples == 0 {
			t.Fatalf("window %+v after %v", w, lastStart)
		}
		lastStart = w.Start
		for _, id := range w.Values[0] {
			seen[id]++
			e := of[id]
			if e.at.Before(before) {
				t.Fatalf("sample %v is out of order", id)
			}
			before = e.at
			if e.at.Before(w.Start) || e.at.After(w.End) || s.Window.ByTime() && !e.at.Before(w.End) {
				t.Fatalf("sample %v at %v is in %v to %v", id, e.at, w.Start, w.End)
			}
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Fatalf("sample %v is there %d times", id, n)
		}
	}
	return len(seen)
}

// A live stream with lost ticks and a stepping clock: every row is in exactly
// one window, and no window spans what the policy says it must not.
func TestGapProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := config.Stream{Name: "s", Interval: time.Second,
			Channels: []config.Channel{{Name: "a", Range: [2]float64{-1, 1e6}, OnMissing: config.MissingMark,
				MissingValue: new(-1.0)}}}
		s.OnGap = rapid.SampledFrom([]config.Gap{config.GapIgnore, config.GapMark, config.GapEnd}).Draw(t, "policy")
		s.Window.Samples = rapid.IntRange(1, 6).Draw(t, "samples")
		if rapid.Bool().Draw(t, "by time") {
			s.Window.Every = time.Duration(s.Window.Samples) * time.Second
		}
		s.SetDefaults()
		count := new(Counters)
		c := NewCollector(s, count, testrig.Quiet())
		var done []*Window
		at := t0
		n := rapid.IntRange(0, 50).Draw(t, "rows")
		fresh := map[float64]bool{} // begins after a gap or a step
		for i := range n {
			r := sampleAt(at, float64(i))
			if i > 0 {
				r.lost = int64(max(rapid.IntRange(-6, 9).Draw(t, "lost"), 0))
				r.stepped = rapid.IntRange(0, 9).Draw(t, "step") == 0
			}
			at = at.Add(time.Duration(r.lost+1) * time.Second)
			if r.stepped {
				at = at.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "by")) * time.Second)
			}
			r.At = at
			if r.stepped || r.lost > 0 && s.OnGap == config.GapEnd {
				fresh[float64(i)] = true
			}
			done = append(done, c.Add(r)...)
		}
		if w := c.Flush(); w != nil {
			done = append(done, w)
		}
		next, marks := 0.0, 0
		for _, w := range done {
			if w.Samples > s.Window.Samples || w.End.Before(w.Start) {
				t.Fatalf("window %+v", w)
			}
			for k, v := range w.Values[0] {
				if v == -1 {
					marks++
					continue
				}
				if v != next {
					t.Fatalf("sample %v where %v should be", v, next)
				}
				next++
				if fresh[v] && k > 0 {
					t.Fatalf("sample %v is not the first of its window", v)
				}
			}
		}
		st := count.Stats()
		if int(next)+int(st.Overflow) != n && s.Window.Every == 0 || marks != int(st.Marked) ||
			s.OnGap != config.GapMark && marks > 0 {
			t.Fatalf("%d of %d rows, %d marks, %+v", int(next), n, marks, st)
		}
	})
}

func TestGapMark(t *testing.T) {
	s := twoChannels(config.Window{Samples: 5})
	s.OnGap = config.GapMark
	c, count := collect(s)
	c.Add(sampleAt(t0, 1, 0))
	r := sampleAt(t0.Add(4*time.Second), 5, 0.5)
	r.lost = 3
	done := c.Add(r)
	// hold is the default: the last good value stands in their place.
	if len(done) != 1 || !equal(done[0].Values, [][]float64{{1, 1, 1, 1, 5}, {0, 0, 0, 0, 0.5}}) ||
		!done[0].End.Equal(t0.Add(4*time.Second)) {
		t.Fatalf("got %+v", done)
	}
	if st := count.Stats(); st.Marked != 3 || st.Held != 6 || st.Samples != 5 {
		t.Errorf("got %+v", st)
	}
	// A gap that is longer than the window ends it and leaves the rest out.
	c.Add(sampleAt(t0.Add(5*time.Second), 2, 0))
	r = sampleAt(t0.Add(100*time.Second), 7, 0)
	r.lost = 94
	if done = c.Add(r); len(done) != 1 || !equal(done[0].Values, [][]float64{{2, 2, 2, 2, 2}, {0, 0, 0, 0, 0}}) ||
		!done[0].End.Equal(t0.Add(9*time.Second)) {
		t.Fatalf("got %+v", done)
	}
	if w := c.Flush(); w == nil || w.Samples != 1 || w.Values[0][0] != 7 {
		t.Errorf("got %+v", w)
	}
}

// The wall clock is set forwards, as when a board without a battery finds its
// time server: no window spans 1970 and today.
func TestLiveClockStep(t *testing.T) {
	clock := testrig.NewClock()
	l := &live{clock: clock, unrepeatable: unrepeatable{time.Second}, counters: new(Counters),
		reader:  sensor.NewReader([]sensor.Sensor{&scripted{results: []any{1.0}}}, time.Second),
		sources: make([]config.Source, 1)}
	next := func() Row {
		t.Helper()
		r, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i, c := range []struct {
		step    time.Duration
		stepped bool
	}{{0, false}, {0, false}, {500 * 24 * time.Hour, true}, {0, false}, {-time.Hour, true},
		{300 * time.Millisecond, false}, {math.MaxInt32, true}} {
		clock.Step(c.step)
		if r := next(); r.stepped != c.stepped {
			t.Errorf("row %d: stepped %v", i, r.stepped)
		}
	}
	clock.SetLate(2500 * time.Millisecond)
	if r := next(); r.lost != 2 || r.stepped { // late by more than a tick
		t.Errorf("got %+v", r)
	}
	if r := next(); r.lost != 0 || r.stepped {
		t.Errorf("got %+v", r)
	}
}

// Whatever clocks do, every row is given back once or counted as late once, and
// nothing but a few rows is held back.
func TestReorderLeapProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var mono time.Duration
		o := &reorder{lateness: time.Duration(rapid.IntRange(1, 3600).Draw(t, "lateness")) * time.Second,
			most: rapid.IntRange(1, 40).Draw(t, "most")}
		if rapid.Bool().Draw(t, "live") {
			o.now = func() time.Duration { return mono }
		}
		seen, late, n := map[float64]int{}, 0, 0
		take := func(rows []Row) {
			for _, r := range rows {
				seen[r.Values[0]]++
			}
		}
		base := t0
		for range rapid.IntRange(0, 30).Draw(t, "runs") {
			base = base.Add(time.Duration(rapid.IntRange(-500000, 500000).Draw(t, "step")) * time.Second)
			for range rapid.IntRange(1, 20).Draw(t, "rows") {
				mono += time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Second
				base = base.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "dt")) * time.Second)
				rows, l := o.add(sampleAt(base, float64(n), 0))
				take(rows)
				late += l
				n++
				if len(o.held) >= leapRows || len(o.waiting) > o.most {
					t.Fatalf("%d rows are held back, %d wait", len(o.held), len(o.waiting))
				}
			}
		}
		take(o.drain())
		for id, times := range seen {
			if times != 1 {
				t.Fatalf("row %v is there %d times", id, times)
			}
		}
		if len(seen)+late != n || len(o.waiting)+len(o.held) != 0 {
			t.Fatalf("%d rows and %d late of %d", len(seen), late, n)
		}
	})
}

// An hour of lateness at ten samples a second: 36,000 rows wait.
func BenchmarkReorder(b *testing.B) {
	o := &reorder{lateness: time.Hour}
	r := sampleAt(t0, 1)
	for b.Loop() {
		r.At = r.At.Add(100 * time.Millisecond)
		o.add(r)
	}
}
