package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
)

// lines are rows of a replay file whose channel a carries from, from+1, ...
func lines(from, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%d,%d,0\n", 1000+from+i, from+i)
	}
	return text.String()
}

// TestReplayFileChanges: what happens to a replay at its next start when its file was
// exchanged, cut, edited or extended in between. No row is passed over without a word.
func TestReplayFileChanges(t *testing.T) {
	const header = "t,a,b.c\n"
	first := header + lines(0, 10)
	for name, tt := range map[string]struct {
		before   string // first, if empty
		change   func(t *testing.T, file string)
		lateness time.Duration
		want     []int  // channel a in the second run
		fails    string // what New says instead
		log      string
	}{
		"the same": {want: nil, log: "nothing was added", change: func(*testing.T, string) {}},
		"grown": {want: []int{10, 11, 12}, log: "the replay continues",
			change: write(first + lines(10, 3))},
		"a copy that grew": {want: []int{10, 11, 12}, log: "the replay continues",
			change: exchange(first + lines(10, 3))},
		"replaced, as long": {want: []int{20, 21, 22, 23, 24, 25, 26, 27, 28, 29}, log: "was replaced",
			change: exchange(header + lines(20, 10))},
		"written over": {want: []int{20, 21, 22, 23, 24, 25, 26, 27, 28, 29}, log: "was replaced",
			change: write(header + lines(20, 10))},
		"replaced, shorter": {want: []int{20}, log: "was replaced", change: exchange(header + lines(20, 1))},
		"replaced, empty":   {want: nil, log: "was replaced", change: exchange(header)},
		"rotated": {want: []int{40, 41}, log: "the end of the old replay file was not read",
			change: func(t *testing.T, file string) {
				write(first+lines(10, 1))(t, file)
				if err := os.Rename(file, file+".1"); err != nil {
					t.Fatal(err)
				}
				write(header+lines(40, 2))(t, file)
			}},
		"cut":               {fails: "cut short: 10 rows", change: write(header + lines(0, 7))},
		"cut within a line": {fails: "cut short: 10 rows", change: write(first[:len(first)-2])},
		"edited": {fails: "changed within the 10 rows",
			change: write(strings.Replace(first, "1004,4,", "1004,5,", 1))},
		"a row was taken out": {fails: "changed within the 10 rows",
			change: write(strings.Replace(first, "1004,4,0\n", "", 1) + lines(10, 5))},
		"the last line was torn": {before: first + "1010,1", fails: "was read before it was complete",
			change: write(first + "1010,12,0\n")},
		"no newline at the end": {before: strings.TrimSuffix(first, "\n"), want: []int{10},
			log: "the replay continues", change: write(first + lines(10, 1))},
		"grown, with lateness": {lateness: 5 * time.Second, want: []int{10, 11, 12}, log: "the replay continues",
			change: write(first + lines(10, 3))},
		"late rows were added": {lateness: 5 * time.Second, want: []int{10, 11}, log: "the replay continues",
			change: write(first + "1007,7,0\n" + lines(10, 2))},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := withSpool(t, testConfig(t), filepath.Join(t.TempDir(), "spool"))
			if tt.before == "" {
				tt.before = first
			}
			cfg.Streams[0] = inputtest.ReplayStream(t, "x.csv", tt.before,
				func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", "fast" })
			cfg.Streams[0].Lateness = tt.lateness
			cfg.Streams[0].Channels[0].Range = [2]float64{0, 64}
			file := cfg.Streams[0].Replay.File
			var log bytes.Buffer
			run := func() (got []int, err error) {
				deps, _ := testDeps(t, &fakeClient{})
				deps.Logger = slog.New(slog.NewTextHandler(&log, nil))
				deps.Observer = func(o Observation) {
					for _, v := range o.Values[0] {
						got = append(got, int(v))
					}
				}
				a, err := New(cfg, deps)
				if err != nil {
					return nil, err
				}
				return got, errors.Join(err, a.Run(t.Context()))
			}
			if tt.before == first+"1010,1" { // ragged lines are an error in CSV
				cfg.Streams[0].Channels = cfg.Streams[0].Channels[:1]
				cut := func(s string) string {
					return strings.ReplaceAll(strings.ReplaceAll(s, ",0\n", "\n"), ",b.c",
						"")
				}
				write(cut(tt.before))(t, file)
				tt.change = write(cut(first + "1010,12,0\n"))
			}
			if got, err := run(); err != nil || len(got) < 10 {
				t.Fatalf("the first run: %v, %v", got, err)
			}
			log.Reset()
			tt.change(t, file)
			got, err := run()
			if tt.fails != "" {
				if !errors.Is(err, source.ErrReplay) || !strings.Contains(err.Error(), tt.fails) ||
					!strings.Contains(err.Error(), "another name") {
					t.Fatalf("got %v, %v", got, err)
				}
				return
			}
			if err != nil || !slices.Equal(got, tt.want) || !strings.Contains(log.String(), tt.log) {
				t.Errorf("got %v, want %v; %v; log %s", got, tt.want, err, &log)
			}
		})
	}
}

func write(text string) func(*testing.T, string) {
	return func(t *testing.T, file string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// exchange puts a new file in the place of the old one.
func exchange(text string) func(*testing.T, string) {
	return func(t *testing.T, file string) {
		t.Helper()
		write(text)(t, file+".new")
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
}
