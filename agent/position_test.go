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
	for name, tt := range changedReplays {
		t.Run(name, tt.test)
	}
}

// changedReplay is a replay whose file changes between two runs.
type changedReplay struct {
	before   string // firstRows, if empty
	change   func(t *testing.T, file string)
	lateness time.Duration
	want     []int  // channel a in the second run
	fails    string // what New says instead
	log      string
}

const replayHeader = "t,a,b.c\n"

var (
	firstRows = replayHeader + lines(0, 10)
	tornRow   = "1010,1"
)

var changedReplays = map[string]changedReplay{
	"the same": {want: nil, log: "nothing was added", change: func(*testing.T, string) {}},
	"grown": {want: []int{10, 11, 12}, log: "the replay continues",
		change: write(firstRows + lines(10, 3))},
	"a copy that grew": {want: []int{10, 11, 12}, log: "the replay continues",
		change: exchange(firstRows + lines(10, 3))},
	"replaced, as long": {want: []int{20, 21, 22, 23, 24, 25, 26, 27, 28, 29}, log: "was replaced",
		change: exchange(replayHeader + lines(20, 10))},
	"written over": {want: []int{20, 21, 22, 23, 24, 25, 26, 27, 28, 29}, log: "was replaced",
		change: write(replayHeader + lines(20, 10))},
	"replaced, shorter": {want: []int{20}, log: "was replaced", change: exchange(replayHeader + lines(20, 1))},
	"replaced, empty":   {want: nil, log: "was replaced", change: exchange(replayHeader)},
	"rotated": {want: []int{40, 41}, log: "the end of the old replay file was not read",
		change: func(t *testing.T, file string) {
			write(firstRows+lines(10, 1))(t, file)
			if err := os.Rename(file, file+".1"); err != nil {
				t.Fatal(err)
			}
			write(replayHeader+lines(40, 2))(t, file)
		}},
	"cut":               {fails: "cut short: 10 rows", change: write(replayHeader + lines(0, 7))},
	"cut within a line": {fails: "cut short: 10 rows", change: write(firstRows[:len(firstRows)-2])},
	"edited": {fails: "changed within the 10 rows",
		change: write(strings.Replace(firstRows, "1004,4,", "1004,5,", 1))},
	"a row was taken out": {fails: "changed within the 10 rows",
		change: write(strings.Replace(firstRows, "1004,4,0\n", "", 1) + lines(10, 5))},
	"the last line was torn": {before: firstRows + tornRow, fails: "was read before it was complete",
		change: write(firstRows + "1010,12,0\n")},
	"no newline at the end": {before: strings.TrimSuffix(firstRows, "\n"), want: []int{10},
		log: "the replay continues", change: write(firstRows + lines(10, 1))},
	"grown, with lateness": {lateness: 5 * time.Second, want: []int{10, 11, 12}, log: "the replay continues",
		change: write(firstRows + lines(10, 3))},
	"late rows were added": {lateness: 5 * time.Second, want: []int{10, 11}, log: "the replay continues",
		change: write(firstRows + "1007,7,0\n" + lines(10, 2))},
}

func (c changedReplay) test(t *testing.T) {
	cfg := withSpool(t, testConfig(t), filepath.Join(t.TempDir(), "spool"))
	if c.before == "" {
		c.before = firstRows
	}
	cfg.Streams[0] = inputtest.ReplayStream(t, "x.csv", c.before,
		func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", "fast" })
	cfg.Streams[0].Lateness = c.lateness
	cfg.Streams[0].Channels[0].Range = [2]float64{0, 64}
	file := cfg.Streams[0].Replay.File
	if c.before == firstRows+tornRow { // ragged lines are an error in CSV
		cfg.Streams[0].Channels = cfg.Streams[0].Channels[:1]
		oneColumn := strings.NewReplacer(",0\n", "\n", ",b.c", "")
		write(oneColumn.Replace(c.before))(t, file)
		c.change = write(oneColumn.Replace(firstRows + "1010,12,0\n"))
	}
	var log bytes.Buffer
	if got, err := replayed(t, cfg, &log); err != nil || len(got) < 10 {
		t.Fatalf("the first run: %v, %v", got, err)
	}
	log.Reset()
	c.change(t, file)
	got, err := replayed(t, cfg, &log)
	if c.fails != "" {
		if !errors.Is(err, source.ErrReplay) || !strings.Contains(err.Error(), c.fails) ||
			!strings.Contains(err.Error(), "another name") {
			t.Fatalf("got %v, %v", got, err)
		}
		return
	}
	if err != nil || !slices.Equal(got, c.want) || !strings.Contains(log.String(), c.log) {
		t.Errorf("got %v, want %v; %v; log %s", got, c.want, err, &log)
	}
}

// replayed runs an agent until its replay ends, and returns channel a.
func replayed(t *testing.T, cfg *config.Agent, log *bytes.Buffer) (got []int, err error) {
	t.Helper()
	deps, _ := testDeps(t, &fakeClient{})
	deps.Logger = slog.New(slog.NewTextHandler(log, nil))
	deps.Observer = func(o Observation) {
		for _, v := range o.Values[0] {
			got = append(got, int(v))
		}
	}
	a, err := New(cfg, deps)
	if err != nil {
		return nil, err
	}
	err = a.Run(t.Context())
	return got, err
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
