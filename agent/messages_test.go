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
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// Messages over a real connection, out of order, become windows of their time.
func TestEventsToCiphertext(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{{Name: "plant", MQTT: &config.MQTT{URL: b.URL()}}}
	cfg.Streams = []config.Stream{inputtest.EventStream(5 * time.Second)}
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
	testrig.Eventually(t, "the first message to arrive", func() bool {
		publish(`{"v": {}}`)
		return a.Stats().Inputs["plant"].Values > 0 || a.Stats().Streams["meter"].Skipped > 0
	})
	for _, m := range []string{
		message(1, 1, 0.1), message(3, 3, 0.3), message(2, 2, 0.2), `{"ts": "soon"}`,
		message(11, 11, 1), message(9, 9, 0.9), fmt.Sprintf(`{"ts": "%d", "v": {"a": 12}}`, noon.Unix()+12),
		message(21, 21, 2), message(1, 50, 5), // too late
		message(31, 31, 3),
	} {
		publish(m)
	}
	testrig.Eventually(t, "a late message and two windows", func() bool {
		meter := a.Stats().Streams["meter"]
		return meter.Late > 0 && meter.Windows >= 2
	})
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
		if start := time.Unix(0, r.Meta.Start); !start.Equal(noon.Add(time.Duration(i) * 10 * time.Second)) {
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

// olderTrouble is a source whose trouble began earlier than it did.
type olderTrouble struct {
	source.Source
	older atomic.Int64 // nanoseconds
}

func (s *olderTrouble) Trouble() (since time.Time, why error) {
	since, why = s.Source.Trouble()
	return since.Add(-time.Duration(s.older.Load())), why
}

// A stream whose messages cannot come says so, in the report and with time in its
// health, and Once does not wait for ever.
func TestEventsTrouble(t *testing.T) {
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{{Name: "plant", MQTT: &config.MQTT{URL: "tcp://127.0.0.1:1"}}}
	cfg.Streams = []config.Stream{inputtest.EventStream(0)}
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
	src := &olderTrouble{Source: a.streams[0].Source}
	a.streams[0].Source = src
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		testrig.Poll(func() bool { return len(a.Report().Troubles) > 0 })
		got := a.Report().Troubles
		if len(got) != 2 || got[0].Channel != "a" || got[1].Channel != "b" || got[1].Stream != "meter" ||
			!strings.Contains(got[0].Error, "no connection to tcp://127.0.0.1:1") {
			t.Errorf("got %+v", got)
		}
		if h := a.Health(); len(h) != 0 {
			t.Errorf("at once unhealthy: %q", h)
		}
		src.older.Store(int64(silentTooLong + time.Minute))
		if h := a.Health(); len(h) != 2 || !strings.Contains(h[0], "stream meter, channel a: no value for 6m") ||
			!strings.Contains(h[0], ": no connection") {
			t.Errorf("got %q", h)
		}
		if err := a.expectSamples(ctx, 10*time.Millisecond, cancel); !errors.Is(err, ErrNoSamples) ||
			!strings.Contains(err.Error(), "no connection") {
			t.Errorf("got %v", err)
		}
	}()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
}

// message is what a device publishes.
func message(at int, a, b float64) string {
	return fmt.Sprintf(`{"ts": %d.25, "v": {"a": %g, "b": %g}}`, noon.Unix()+int64(at), a, b)
}
