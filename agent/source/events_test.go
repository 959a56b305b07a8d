package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A stream whose agent does not keep up loses messages, counted, and never
// makes the input wait; what has come is given before the end.
func TestEventsBound(t *testing.T) {
	e := &events{cfg: config.Events{}, clock: testrig.NewClock(), rows: make(chan Row, 2), begin: func() {},
		counters: new(Counters)}
	for range 5 {
		e.take("{}")
	}
	if lost := e.counters.Stats().Skipped; lost != 3 {
		t.Errorf("%d lost", lost)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := e.Next(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A window of messages without a time of their own ends when its time is over,
// though no other message comes.
func TestEventsWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inputtest.EventStream(0)
		s.Events.Time, s.Channels = "", s.Channels[:1]
		e := &events{cfg: *s.Events, clock: role.SystemClock(), rows: make(chan Row, 8), begin: func() {},
			counters: new(Counters), ended: make(chan struct{}, 1), every: s.Window.Every}
		text, err := input.NewText(*s.Channels[0].Source)
		if err != nil {
			t.Fatal(err)
		}
		e.sources, e.texts = []config.Source{*s.Channels[0].Source}, []input.Text{text}
		c := NewCollector(s, new(Counters), testrig.Quiet())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for _, pause := range []time.Duration{3, 1, 1, 30, 1} {
				time.Sleep(pause * time.Second)
				e.take(`{"v": {"a": 7}}`)
			}
			time.Sleep(time.Minute)
			cancel()
		}()
		from := time.Now()
		var got []string
		for {
			r, err := e.Next(ctx)
			if err != nil {
				break
			}
			for _, w := range c.Add(r) {
				if at := time.Now(); !at.Equal(w.End) {
					t.Errorf("the window that ends at %v is ready at %v", w.End, at)
				}
				got = append(got, fmt.Sprintf("%v:%d", w.Start.Sub(from), w.Samples))
			}
		}
		if want := []string{"0s:3", "30s:2"}; !slices.Equal(got, want) || c.cur != nil {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// arrivals is a stream of messages without a time of their own, of one channel.
func arrivals(t *testing.T, clock role.Clock) (*events, *Collector) {
	t.Helper()
	s := inputtest.EventStream(0)
	s.Events.Time, s.Channels = "", s.Channels[:1]
	text, err := input.NewText(*s.Channels[0].Source)
	if err != nil {
		t.Fatal(err)
	}
	e := &events{cfg: *s.Events, clock: clock, rows: make(chan Row, 8), begin: func() {}, counters: new(Counters),
		ended: make(chan struct{}, 1), every: s.Window.Every,
		sources: []config.Source{*s.Channels[0].Source}, texts: []input.Text{text}}
	return e, NewCollector(s, new(Counters), testrig.Quiet())
}

// A window ends with its time although the message that opened it came while nobody
// looked, together with the end of the window before.
func TestEventsWindowEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := arrivals(t, role.SystemClock())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		from, got := time.Now(), []string{}
		take := func() {
			e.take(`{"v": {"a": 7}}`)
			r, err := e.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.Add(r) {
				got = append(got, fmt.Sprintf("%v:%d", w.Start.Sub(from), w.Samples))
			}
		}
		take()
		time.Sleep(12 * time.Second)
		take()
		for {
			r, err := e.Next(ctx)
			if err != nil {
				break
			}
			for _, w := range c.Add(r) {
				got = append(got, fmt.Sprintf("%v:%d at %v", w.Start.Sub(from), w.Samples, time.Since(from)))
			}
		}
		if want := []string{"0s:1", "10s:1 at 20s"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// shifted is the machine's clock, set to another time.
type shifted struct {
	role.Clock
	by atomic.Int64
}

func (s *shifted) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// A clock that is set back does not keep a window open until it has caught up.
func TestEventsClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &shifted{Clock: role.SystemClock()}
		e, c := arrivals(t, clock)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		from, got := time.Now(), []string{}
		for i := range 2 {
			e.take(`{"v": {"a": 7}}`)
			for n := len(got); len(got) == n; {
				r, err := e.Next(ctx)
				if err != nil {
					t.Fatalf("got %v: %v", got, err)
				}
				if i == 0 && !r.tick {
					clock.by.Store(-int64(time.Hour))
				}
				for _, w := range c.Add(r) {
					got = append(got, fmt.Sprintf("%v:%d", w.Start.Sub(from), w.Samples))
				}
			}
		}
		if want := []string{"0s:1", "-59m50s:1"}; !slices.Equal(got, want) || c.count.clockSteps.Load() != 1 {
			t.Errorf("got %v, want %v, %d steps", got, want, c.count.clockSteps.Load())
		}
	})
}

// Messages that come once an hour make no stream silent for an hour when their broker goes
// away: that counts from when they could not come any more.
func TestEventsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := arrivals(t, role.SystemClock())
		var gone error
		e.blocked = func() error { return gone }
		if since, why := e.Trouble(); !since.IsZero() || why != nil {
			t.Errorf("before it runs: %v, %v", since, why)
		}
		e.take("{}")
		if _, err := e.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, why := e.Trouble(); why != nil {
			t.Error(why)
		}
		last := time.Now()
		gone = errors.New("gone")
		time.Sleep(time.Minute)
		if since, why := e.Trouble(); !since.Equal(last) || why != gone {
			t.Errorf("%v ago, %v", time.Since(since), why)
		}
	})
}

// A stop does not wait for an input that brings messages faster than they are taken.
func TestEventsStopUnderLoad(t *testing.T) {
	e, _ := arrivals(t, testrig.NewClock())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.take("{}")
	for n := 0; ; n++ {
		e.take("{}")
		if _, err := e.Next(ctx); errors.Is(err, context.Canceled) {
			if n != 2 {
				t.Errorf("%d messages were taken", n)
			}
			return
		} else if n > 100 {
			t.Fatal("it does not end")
		}
	}
}
