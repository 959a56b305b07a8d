package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// eventStream is a stream of messages with a time of their own.
func eventStream(lateness time.Duration) config.Stream {
	s := config.Stream{Name: "meter", Lateness: lateness, Params: "edge12-d1", Window: config.Window{Every: 10 * time.Second, Samples: 8},
		Events: &config.Events{From: "plant", Time: "ts", TimeFormat: "unix"},
		Channels: []config.Channel{
			{Name: "a", Unit: "V", Range: [2]float64{0, 100}, Source: &config.Source{Type: config.SourceMQTT, Point: config.Point{From: "plant", Topic: "m/+", Path: "v.a"}}},
			{Name: "b", Unit: "A", Range: [2]float64{0, 100}, OnMissing: config.MissingMark, MissingValue: new(0.0),
				Source: &config.Source{Type: config.SourceMQTT, Scale: 10, Point: config.Point{From: "plant", Topic: "m/+", Path: "v.b"}}},
		}}
	s.SetDefaults()
	return s
}

// message is what a device publishes.
func message(at int, a, b float64) string {
	return fmt.Sprintf(`{"ts": %d.25, "v": {"a": %g, "b": %g}}`, t0.Unix()+int64(at), a, b)
}

// Messages over a real connection, out of order, become windows of their time.
func TestEventsToCiphertext(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{{Name: "plant", MQTT: &config.MQTT{URL: b.URL()}}}
	cfg.Streams = []config.Stream{eventStream(5 * time.Second)}
	cfg.SetDefaults()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()

	device, err := mqtt.Dial(t.Context(), mqtt.Options{URL: b.URL(), ClientID: "device", Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close(context.Background())
	publish := func(text string) {
		t.Helper()
		if err := device.Publish(t.Context(), "m/1", []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	// Until the subscription stands messages are for nobody.
	for a.Stats().Inputs["plant"].Values == 0 && a.Stats().Streams["meter"].Skipped == 0 {
		publish(`{"v": {}}`)
		time.Sleep(5 * time.Millisecond)
	}
	for _, m := range []string{
		message(1, 1, 0.1), message(3, 3, 0.3), message(2, 2, 0.2), `{"ts": "soon"}`,
		message(11, 11, 1), message(9, 9, 0.9), fmt.Sprintf(`{"ts": "%d", "v": {"a": 12}}`, t0.Unix()+12),
		message(21, 21, 2), message(1, 50, 5), // too late
		message(31, 31, 3),
	} {
		publish(m)
	}
	for a.Stats().Streams["meter"].Late == 0 || a.Stats().Streams["meter"].Windows < 2 {
		if t.Context().Err() != nil {
			t.Fatalf("got %+v", a.Stats().Streams["meter"])
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	readings, _ := opened(t, k, cfg.Device, client.messages)
	want := [][][]float64{{{1, 2, 3, 9}, {1, 2, 3, 9}}, {{11, 12}, {10, 0}}, {{21}, {20}}, {{31}, {30}}}
	if len(readings) != len(want) {
		t.Fatalf("%d windows, want %d; %+v", len(readings), len(want), a.Stats().Streams["meter"])
	}
	for i, r := range readings {
		if start := time.Unix(0, r.Meta.Start); !start.Equal(t0.Add(time.Duration(i) * 10 * time.Second)) {
			t.Errorf("window %d starts at %v", i, start)
		}
		got := decrypted(t, k, cfg.Streams[0], r)
		for c := range got {
			if !slices.EqualFunc(got[c], want[i][c], func(x, y float64) bool { return math.Abs(x-y) < 0.1 }) {
				t.Errorf("window %d, channel %d: got %v, want %v", i, c, got[c], want[i][c])
			}
		}
	}
	if st := a.Stats().Streams["meter"]; st.Late != 1 || st.Samples != 8 || st.Skipped < 1 {
		t.Errorf("got %+v", st)
	}
}

// A stream whose agent does not keep up loses messages, counted, and never
// makes the input wait; what has come is given before the end.
func TestEventsBound(t *testing.T) {
	e := &events{cfg: config.Events{}, clock: testrig.NewClock(), rows: make(chan row, 2), begin: func() {}, late: func() {}}
	lost := 0
	e.lost = func() { lost++ }
	for range 5 {
		e.take("{}")
	}
	if lost != 3 {
		t.Errorf("%d lost", lost)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := e.next(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A window of messages without a time of their own ends when its time is over,
// though no other message comes.
func TestEventsWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventStream(0)
		s.Events.Time, s.Channels = "", s.Channels[:1]
		e := &events{cfg: *s.Events, clock: role.SystemClock(), rows: make(chan row, 8), begin: func() {}, late: func() {}, lost: func() {}, ended: make(chan struct{}, 1), every: s.Window.Every}
		text, err := input.NewText(*s.Channels[0].Source)
		if err != nil {
			t.Fatal(err)
		}
		e.sources, e.texts = []config.Source{*s.Channels[0].Source}, []input.Text{text}
		c := newCollector(s, new(streamCounters), testrig.Quiet())
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
			r, err := e.next(ctx)
			if err != nil {
				break
			}
			for _, w := range c.add(r) {
				if at := time.Now(); !at.Equal(w.end) {
					t.Errorf("the window that ends at %v is ready at %v", w.end, at)
				}
				got = append(got, fmt.Sprintf("%v:%d", w.start.Sub(from), w.samples))
			}
		}
		if want := []string{"0s:3", "30s:2"}; !slices.Equal(got, want) || c.cur != nil {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// arrivals is a stream of messages without a time of their own, of one channel.
func arrivals(t *testing.T, clock role.Clock) (*events, *collector) {
	t.Helper()
	s := eventStream(0)
	s.Events.Time, s.Channels = "", s.Channels[:1]
	text, err := input.NewText(*s.Channels[0].Source)
	if err != nil {
		t.Fatal(err)
	}
	e := &events{cfg: *s.Events, clock: clock, rows: make(chan row, 8), begin: func() {}, late: func() {}, lost: func() {}, ended: make(chan struct{}, 1), every: s.Window.Every,
		sources: []config.Source{*s.Channels[0].Source}, texts: []input.Text{text}}
	return e, newCollector(s, new(streamCounters), testrig.Quiet())
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
			r, err := e.next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.add(r) {
				got = append(got, fmt.Sprintf("%v:%d", w.start.Sub(from), w.samples))
			}
		}
		take()
		time.Sleep(12 * time.Second)
		take()
		for {
			r, err := e.next(ctx)
			if err != nil {
				break
			}
			for _, w := range c.add(r) {
				got = append(got, fmt.Sprintf("%v:%d at %v", w.start.Sub(from), w.samples, time.Since(from)))
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
				r, err := e.next(ctx)
				if err != nil {
					t.Fatalf("got %v: %v", got, err)
				}
				if i == 0 && !r.tick {
					clock.by.Store(-int64(time.Hour))
				}
				for _, w := range c.add(r) {
					got = append(got, fmt.Sprintf("%v:%d", w.start.Sub(from), w.samples))
				}
			}
		}
		if want := []string{"0s:1", "-59m50s:1"}; !slices.Equal(got, want) || c.count.clockSteps.Load() != 1 {
			t.Errorf("got %v, want %v, %d steps", got, want, c.count.clockSteps.Load())
		}
	})
}

// A stream whose messages cannot come says so, in the report and with time in its
// health, and Once does not wait for ever.
func TestEventsTrouble(t *testing.T) {
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{{Name: "plant", MQTT: &config.MQTT{URL: "tcp://127.0.0.1:1"}}}
	cfg.Streams = []config.Stream{eventStream(0)}
	cfg.SetDefaults()
	deps, _ := testDeps(t, &fakeClient{})
	deps.Clock = role.SystemClock()
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Report().Troubles; len(got) != 0 {
		t.Errorf("before it runs: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for len(a.Report().Troubles) == 0 {
			time.Sleep(time.Millisecond)
		}
		got := a.Report().Troubles
		if len(got) != 2 || got[0].Channel != "a" || got[1].Channel != "b" || got[1].Stream != "meter" || !strings.Contains(got[0].Error, "no connection to tcp://127.0.0.1:1") {
			t.Errorf("got %+v", got)
		}
		if h := a.Health(); len(h) != 0 {
			t.Errorf("at once unhealthy: %q", h)
		}
		e := a.streams[0].source.(*events)
		e.mu.Lock()
		e.heard = time.Now().Add(-silentTooLong - time.Minute)
		e.mu.Unlock()
		if h := a.Health(); len(h) != 2 || !strings.Contains(h[0], "stream meter, channel a: no value for 6m") || !strings.Contains(h[0], ": no connection") {
			t.Errorf("got %q", h)
		}
		if err := a.expectSamples(ctx, 10*time.Millisecond, cancel); !errors.Is(err, ErrNoSamples) || !strings.Contains(err.Error(), "no connection") {
			t.Errorf("got %v", err)
		}
	}()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
}

// Messages that come once an hour make no stream silent for an hour when their broker goes
// away: that counts from when they could not come any more.
func TestEventsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := arrivals(t, role.SystemClock())
		var gone error
		e.trouble = func() error { return gone }
		if since, why := e.silence(); !since.IsZero() || why != nil {
			t.Errorf("before it runs: %v, %v", since, why)
		}
		e.take("{}")
		if _, err := e.next(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, why := e.silence(); why != nil {
			t.Error(why)
		}
		last := time.Now()
		gone = errors.New("gone")
		time.Sleep(time.Minute)
		if since, why := e.silence(); !since.Equal(last) || why != gone {
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
		if _, err := e.next(ctx); errors.Is(err, context.Canceled) {
			if n != 2 {
				t.Errorf("%d messages were taken", n)
			}
			return
		} else if n > 100 {
			t.Fatal("it does not end")
		}
	}
}
