package sensor

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// procSources read every file of /proc that sensors read.
func procSources() map[string][]config.Source {
	return map[string][]config.Source{
		"proc/stat": {{Type: "cpu", CPU: "total", Field: "busy"}, {Type: "cpu", CPU: "cpu1", Field: "iowait"}},
		"proc/meminfo": {{Type: "memory", Field: "used_percent"}, {Type: "memory", Field: "swap_used_percent"},
			{Type: "memory", Field: "used"}},
		"proc/loadavg": {{Type: "load", Field: "1m"}, {Type: "load", Field: "15m"}},
		"proc/diskstats": {{Type: "disk", Device: "mmcblk0", Field: "busy"},
			{Type: "disk", Device: "mmcblk0", Field: "read_bytes"}},
		"proc/net/dev": {{Type: "net", Interface: "eth0", Field: "rx_bytes"},
			{Type: "net", Interface: "eth0", Field: "tx_dropped"}},
	}
}

// FuzzProc checks that nothing that a file of /proc can hold crashes a sensor, and
// that what comes out is finite; after a good reading and before one.
func FuzzProc(f *testing.F) {
	good := map[string]string{}
	for file := range procSources() {
		text, err := os.ReadFile(filepath.Join("../testdata/board", file))
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
