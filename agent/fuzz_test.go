package agent

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// procSources read every file of /proc that sensors read.
func procSources() map[string][]config.Source {
	return map[string][]config.Source{
		"proc/stat":      {{Type: "cpu", CPU: "total", Field: "busy"}, {Type: "cpu", CPU: "cpu1", Field: "iowait"}},
		"proc/meminfo":   {{Type: "memory", Field: "used_percent"}, {Type: "memory", Field: "swap_used_percent"}, {Type: "memory", Field: "used"}},
		"proc/loadavg":   {{Type: "load", Field: "1m"}, {Type: "load", Field: "15m"}},
		"proc/diskstats": {{Type: "disk", Device: "mmcblk0", Field: "busy"}, {Type: "disk", Device: "mmcblk0", Field: "read_bytes"}},
		"proc/net/dev":   {{Type: "net", Interface: "eth0", Field: "rx_bytes"}, {Type: "net", Interface: "eth0", Field: "tx_dropped"}},
	}
}

// FuzzProc checks that nothing that a file of /proc can hold crashes a sensor, and
// that what comes out is finite; after a good reading and before one.
func FuzzProc(f *testing.F) {
	good := map[string]string{}
	for file := range procSources() {
		text, err := os.ReadFile(filepath.Join("testdata/board", file))
		if err != nil {
			f.Fatal(err)
		}
		good[file] = string(text)
		f.Add(string(text))
	}
	f.Add("cpu  18446744073709551615 18446744073709551615 0 1 1 1 1 1\ncpu1 1 1 1 1\n")
	f.Add("MemTotal: 0 kB\nSwapTotal: 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		for file, sources := range procSources() {
			for _, src := range sources {
				cache := &fileCache{}
				m := Machine{Clock: testrig.NewClock(), files: cache}
				say := func(text string) { cache.files = map[string]fileText{m.path(file): {text: text}} }
				say(good[file])
				s, err := m.Open(src)
				if err != nil {
					t.Fatal(err)
				}
				for _, now := range []string{text, text, good[file], text} {
					say(now)
					_ = m.Clock.Sleep(t.Context(), time.Second)
					if v, _, err := s.Read(t.Context()); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
						t.Fatalf("%s %s: %v", src.Type, src.Field, v)
					}
				}
			}
		}
	})
}

// FuzzEvents checks that no message crashes, and that a row has a time that windows
// can be made of, and finite values.
func FuzzEvents(f *testing.F) {
	f.Add(`{"ts": 1767225600.25, "v": {"a": 1, "b": "2"}}`, uint8(1))
	f.Add(`{"ts": "2026-01-01T00:00:00Z", "v": [1e400, null, true]}`, uint8(0))
	f.Add(`{"ts": 1e300, "v": {"a": -0.0}}`, uint8(3))
	f.Fuzz(func(t *testing.T, text string, format uint8) {
		e := &events{cfg: config.Events{Time: "ts", TimeFormat: []string{"rfc3339", "unix", "unix_ms", "unix_ns"}[format%4]}, clock: testrig.NewClock(),
			rows: make(chan row, 4), late: func() {}, lost: func() {}, order: &reorder{lateness: time.Second}}
		for _, path := range []string{"v.a", "v.b", "v.0"} {
			in, err := input.NewText(config.Source{Point: config.Point{Path: path}})
			if err != nil {
				t.Fatal(err)
			}
			e.sources, e.texts = append(e.sources, config.Source{Scale: 2, Offset: 1}), append(e.texts, in)
		}
		r, err := e.row(text)
		if err != nil {
			if !errors.Is(err, ErrReading) {
				t.Fatal(err)
			}
			return
		}
		for i, v := range r.values {
			if math.IsInf(v, 0) || math.IsNaN(v) != (r.errs[i] != nil) {
				t.Fatalf("value %d is %v, %v", i, v, r.errs[i])
			}
		}
		if back := time.Unix(0, r.at.UnixNano()); !back.Equal(r.at) {
			t.Fatalf("the time %v is out of range", r.at)
		}
		c := newCollector(eventStream(time.Second), new(streamCounters), testrig.Quiet())
		rows, _ := e.order.add(r)
		for _, r := range append(rows, e.order.drain()...) {
			r.values, r.errs = r.values[:2], r.errs[:2]
			for _, w := range c.add(r) {
				if w.samples == 0 {
					t.Fatal("an empty window")
				}
			}
		}
	})
}
