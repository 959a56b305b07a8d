package source

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// Files as other programs write them: local times with a layout, a decimal comma, spaces
// around names and cells.
func TestReplayRealFiles(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		edit func(*config.Replay)
		at   []string
	}{
		"strftime, zone": {"t , a , b.c \n31.01.2026 15:04:05,1, 2\n31.07.2026 15:04:05.5,1,2\n",
			func(r *config.Replay) {
				r.TimeFormat, r.Timezone = "%d.%m.%Y %H:%M:%S", "Europe/Berlin"
			}, []string{"2026-01-31T14:04:05Z", "2026-07-31T13:04:05.5Z"}},
		"layout of Go, offset": {"\xef\xbb\xbf t,\"a \",b.c\r\n2026-01-31 15:04,\u00a01\u00a0,2\r\n",
			func(r *config.Replay) { r.TimeFormat, r.Timezone = "2006-01-02 15:04", "-03:30" },
			[]string{"2026-01-31T18:34:00Z"}},
		"decimal comma": {"t;a;b.c\n31/01/26 3:04 PM;1,0;2\n",
			func(r *config.Replay) { r.TimeFormat, r.Delimiter, r.Decimal = "%d/%m/%y %I:%M %p", ";", "," },
			[]string{"2026-01-31T15:04:00Z"}},
		"decimal comma, quoted": {"t,a,b.c\n31/01/26 3:04 PM,\"1,0\",2\n",
			func(r *config.Replay) { r.TimeFormat, r.Decimal = "%d/%m/%y %I:%M %p", "," },
			[]string{"2026-01-31T15:04:00Z"}},
		"a clock set back": {"t,a,b.c\n2026-10-25 02:30,1,2\n2026-10-25 02:59,1,2\n2026-10-25 02:00,1,2\n2026-10-25 " +
			"02:30,1,2\n2026-10-25 03:00,1,2\n", func(r *config.Replay) {
			r.TimeFormat, r.Timezone = "%F %R", "Europe/Berlin"
		}, []string{"2026-10-25T00:30:00Z", "2026-10-25T00:59:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z",
			"2026-10-25T02:00:00Z"}},
	} {
		got, err := rows(t, inputtest.ReplayStream(t, "x.csv", c.text, c.edit), testrig.NewClock())
		if err != nil || len(got) != len(c.at) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i, r := range got {
			if at := r.At.Format(time.RFC3339Nano); at != c.at[i] || r.Values[0] != 1 || r.Values[1] != 5 {
				t.Errorf("%s: row %d at %s with %v, want %s", name, i, at, r.Values, c.at[i])
			}
		}
	}
}

// What is not a number ends the stream, leaves its row out, or is missing, as the policy
// says; every such cell and row is counted.
func TestBadCells(t *testing.T) {
	csv := "t,a,b.c\n1,1,1\n2,warm,2\nnever,3,3\n4,4\n5,5,5,5\n6,,6\n7,1e999,cold\n8,8,8\n"
	ndjson := `{"t":1,"a":1,"b":{"c":1}}
{"t":2,"a":"2","b":{"c":2}}
{"t":{},"a":3}
{"t":
[5]
{"t":6,"b":{"c":6}}
{"t":7,"a":true,"b":{"c":[7]}}
{"t":8,"a":8,"b":{"c":8}}
`
	nan := math.NaN()
	for file, text := range map[string]string{"x.csv": csv, "x.ndjson": ndjson} {
		for policy, want := range map[config.BadCells]struct {
			a           []float64
			cells, rows uint64
		}{
			config.BadSkip:    {[]float64{1, nan, 8}, 0, 5},
			config.BadMissing: {[]float64{1, nan, nan, nan, 8}, 3, 3},
		} {
			s := inputtest.ReplayStream(t, file, text,
				func(r *config.Replay) { r.TimeFormat, r.BadCells = "unix", policy })
			if err := Scan(s, testrig.NewClock()); err != nil {
				t.Errorf("%s, %s: the check says %v", file, policy, err)
			}
			var log testrig.Log
			r, err := openReplay(s, testrig.NewClock(), new(Counters), log.Logger())
			if err != nil {
				t.Fatal(err)
			}
			var got []float64
			var last Position
			for {
				x, err := r.Next(t.Context())
				if IsEnd(err) {
					break
				}
				if err != nil {
					t.Fatalf("%s, %s: %v", file, policy, err)
				}
				got, last = append(got, x.Values[0]), x.position
			}
			st := r.counters.Stats()
			if fmt.Sprint(got) != fmt.Sprint(want.a) || st.BadCells != want.cells || st.BadRows != want.rows {
				t.Errorf("%s, %s: %v, %+v; want %+v", file, policy, got, st, want)
			}
			if first := log.String(); strings.Count(first, "level=WARN") != 1 ||
				!strings.Contains(first, s.Replay.File+":") || !strings.Contains(first, "row 2") {
				t.Errorf("%s, %s: the first is %q", file, policy, first)
			}
			r.Close()
			if r, err = openReplay(s, testrig.NewClock(), new(Counters), testrig.Quiet()); err != nil {
				t.Fatal(err)
			}
			if err := r.skip(last, 0); err != nil {
				t.Errorf("%s, %s: going on: %v", file, policy, err)
			}
			r.Close()
		}
	}
	s := inputtest.ReplayStream(t, "x.csv", "t,a,b.c\n1,1,x\n2,2,\n",
		func(r *config.Replay) { r.TimeFormat, r.BadCells = "unix", config.BadMissing })
	if err := Scan(s, testrig.NewClock()); !errors.Is(err, ErrReplay) ||
		!strings.Contains(err.Error(), "none of the first 2 rows has a number for column b.c") {
		t.Errorf("a column without a number: %v", err)
	}
	s = inputtest.ReplayStream(t, "x.csv", "t;a;b.c\n1;1,5;2\n",
		func(r *config.Replay) { r.TimeFormat, r.Delimiter = "unix", ";" })
	if _, err := rows(t, s, testrig.NewClock()); err == nil || !strings.Contains(err.Error(), `set decimal: ","`) {
		t.Errorf("a decimal comma: %v", err)
	}
}

// A check reads both ends of a file and names the place of a mistake as the replay does.
func TestScan(t *testing.T) {
	const n = 5000
	for _, file := range []string{"x.csv", "x.ndjson"} {
		for bad, found := range map[int]bool{0: true, 999: true, 2500: false, 4200: true, n - 1: true, -1: false} {
			var text strings.Builder
			if file == "x.csv" {
				text.WriteString("t,a,b.c\n")
			}
			for i := range n {
				value := "1"
				if i == bad {
					value = `"x"`
				}
				if file == "x.csv" {
					fmt.Fprintf(&text, "%d,%s,2\n", 10000+i, value)
				} else {
					fmt.Fprintf(&text, "{\"t\":%d,\"a\":%s}\n", 10000+i, value)
				}
			}
			s := inputtest.ReplayStream(t, file, text.String(), func(r *config.Replay) { r.TimeFormat = "unix" })
			err := Scan(s, testrig.NewClock())
			if (err != nil) != found {
				t.Errorf("%s: a mistake in row %d: %v", file, bad, err)
			}
			if found {
				if _, want := rows(t, s, testrig.NewClock()); want == nil || err == nil || want.Error() != err.Error() {
					t.Errorf("%s: the check says\n%v, the replay\n%v", file, err, want)
				}
			}
		}
	}
	spanning := "t,a,b.c,note\n" + strings.Repeat("1,1,1,\"two\nlines\"\n", 3000)
	if err := Scan(inputtest.ReplayStream(t, "x.csv", spanning, func(r *config.Replay) { r.TimeFormat = "unix" }),
		testrig.NewClock()); err != nil {
		t.Errorf("rows that span lines: %v", err)
	}
	if err := Scan(inputtest.ReplayStream(t, "x.csv", "t,a,b.c\n"+strings.Repeat("2,1,1\n", 1200)+"1,1,1\n",
		func(r *config.Replay) { r.TimeFormat = "unix" }), testrig.NewClock()); err == nil ||
		!strings.Contains(err.Error(), "x.csv:1202: ") || !strings.Contains(err.Error(), "row 1201: the time") {
		t.Errorf("a time that goes back: %v", err)
	}
}
