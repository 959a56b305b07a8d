package source

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// FuzzEvents checks that no message crashes, and that a row has a time that windows
// can be made of, and finite values.
func FuzzEvents(f *testing.F) {
	f.Add(`{"ts": 1767225600.25, "v": {"a": 1, "b": "2"}}`, uint8(1))
	f.Add(`{"ts": "2026-01-01T00:00:00Z", "v": [1e400, null, true]}`, uint8(0))
	f.Add(`{"ts": 1e300, "v": {"a": -0.0}}`, uint8(3))
	f.Fuzz(func(t *testing.T, text string, format uint8) {
		e := &events{cfg: config.Events{Time: "ts",
			TimeFormat: []string{"rfc3339", "unix", "unix_ms", "unix_ns"}[format%4]}, clock: testrig.NewClock(),
			rows: make(chan Row, 4), counters: new(Counters), order: &reorder{lateness: time.Second}}
		for _, path := range []string{"v.a", "v.b", "v.0"} {
			in, err := input.NewText(config.Source{Point: config.Point{Path: path}})
			if err != nil {
				t.Fatal(err)
			}
			e.sources, e.texts = append(e.sources, config.Source{Scale: 2, Offset: 1}), append(e.texts, in)
		}
		r, err := e.row(text)
		if err != nil {
			if !errors.Is(err, sensor.ErrReading) {
				t.Fatal(err)
			}
			return
		}
		for i, v := range r.Values {
			if math.IsInf(v, 0) || math.IsNaN(v) != (r.errs[i] != nil) {
				t.Fatalf("value %d is %v, %v", i, v, r.errs[i])
			}
		}
		if back := time.Unix(0, r.At.UnixNano()); !back.Equal(r.At) {
			t.Fatalf("the time %v is out of range", r.At)
		}
		c := NewCollector(inputtest.EventStream(time.Second), new(Counters), testrig.Quiet())
		rows, _ := e.order.add(r)
		for _, r := range append(rows, e.order.drain()...) {
			r.Values, r.errs = r.Values[:2], r.errs[:2]
			for _, w := range c.Add(r) {
				if w.Samples == 0 {
					t.Fatal("an empty window")
				}
			}
		}
	})
}
