package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
)

// rows reads a whole file.
func rows(t testing.TB, s config.Stream, clock role.Clock) ([]Row, error) {
	t.Helper()
	f, err := os.Open(s.Replay.File)
	if err != nil {
		t.Fatal(err)
	}
	return rowsOf(t, f, s, clock)
}

func rowsOf(t testing.TB, in io.ReadCloser, s config.Stream, clock role.Clock) ([]Row, error) {
	t.Helper()
	defer in.Close()
	r, err := newReplay(in, s, clock, new(Counters), testrig.Quiet())
	if err != nil {
		return nil, err
	}
	var out []Row
	for {
		x, err := r.Next(t.Context())
		if IsEnd(err) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, x)
	}
}

func TestReplayFormats(t *testing.T) {
	nan := math.NaN()
	at := func(s string) time.Time {
		x, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	one, two := at("2026-01-02T03:04:05.25Z"), at("2026-01-02T03:04:06Z")
	for name, c := range map[string]struct {
		file, text string
		edit       func(*config.Replay)
		want       []Row
	}{
		"csv": {"x.csv", "t,unused,a,b.c\n2026-01-02T03:04:05.25Z,7,1.5,3\n2026-01-02T04:04:06+01:00,,-2e0, 4 \n", nil,
			[]Row{{At: one, Values: []float64{1.5, 7}}, {At: two, Values: []float64{-2, 9}}}},
		"csv with a mark, line ends, quotes and gaps": {"x.csv",
			"\xef\xbb\xbf\"t\",a,b.c\r\n2026-01-02T03:04:05.25Z,\"\",NaN\r\n\r\n2026-01-02T03:04:06Z,null,1", nil,
			[]Row{{At: one, Values: []float64{nan, nan}}, {At: two, Values: []float64{nan, 3}}}},
		"tsv": {"x.tsv", "a\tb.c\tt\n1\t2\t1767323045.25\n",
			func(r *config.Replay) { r.Delimiter, r.TimeFormat = "tab", "unix" },
			[]Row{{At: one, Values: []float64{1, 5}}}},
		"semicolon, milliseconds": {"x.csv", "a;b.c;t\n1;2;1767323045250\n",
			func(r *config.Replay) { r.Delimiter, r.TimeFormat = ";", "unix_ms" },
			[]Row{{At: one, Values: []float64{1, 5}}}},
		"ndjson": {"x.ndjson", "{\"t\":\"2026-01-02T03:04:05.25Z\",\"a\":1.5,\"b\":{\"c\":3}}\n\n  " +
			"\n{\"t\":\"2026-01-02T03:04:06Z\",\"a\":null,\"b\":4}", nil,
			[]Row{{At: one, Values: []float64{1.5, 7}}, {At: two, Values: []float64{nan, nan}}}},
		"ndjson, nanoseconds": {"x.jsonl", "{\"t\":1767323045250000000,\"a\":1e0,\"b\":{\"c\":3}}\n",
			func(r *config.Replay) { r.TimeFormat = "unix_ns" },
			[]Row{{At: one, Values: []float64{1, 7}}}},
	} {
		got, err := rows(t, inputtest.ReplayStream(t, c.file, c.text, c.edit), testrig.NewClock())
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: got %v, %v", name, got, err)
			continue
		}
		for i := range got {
			if !got[i].At.Equal(c.want[i].At) || fmt.Sprint(got[i].Values) != fmt.Sprint(c.want[i].Values) {
				t.Errorf("%s: row %d: got %v, want %v", name, i, got[i], c.want[i])
			}
		}
	}
}

func TestReplayErrorsNameFileAndLine(t *testing.T) {
	good := "2026-01-02T03:04:05Z,1,2\n"
	for name, c := range map[string]struct {
		file, text string
		line       int
		want       string
	}{
		"empty file": {"x.csv", "", 1, "empty"},
		"UTF-16":     {"x.csv", "\xff\xfet\x00,\x00a\x00", 1, "UTF-16"},
		"no column":  {"x.csv", "t,a\n", 1, `no column "b.c"; there are "t", "a"`},
		"no header": {"x.csv", "2026-01-02T03:04:05Z,21.75\n", 1,
			`no column "t"; there are "9-9-9a9:9:9a", "9.9"`},
		"no time column": {"x.csv", "a,b.c\n", 1, `no column "t"`},
		"column twice":   {"x.csv", "t,a,b.c,a\n", 1, "twice"},
		"short line":     {"x.csv", "t,a,b.c\n" + good + "2026-01-02T03:04:06Z,1\n", 3, "number of cells"},
		"quote":          {"x.csv", "t,a,b.c\n" + good + good + "2026-01-02T03:04:06Z,\"1,2\n", 4, "quote"},
		"no number": {"x.csv", "t,a,b.c\n" + good + "2026-01-02T03:04:06Z,1,warm\n", 3,
			`row 2, b.c (cell C3): text of the form "a" is not a finite number; bad_cells: skip or missing`},
		"infinity": {"x.csv", "t,a,b.c\n2026-01-02T03:04:06Z,inf,1\n", 2, "not a finite number"},
		"overflow": {"x.csv", "t,a,b.c\n2026-01-02T03:04:06Z,1e999,1\n", 2, "not a finite number"},
		"bad time": {"x.csv", "t,a,b.c\nyesterday,1,1\n", 2,
			`row 1, t (cell A2): text of the form "a" is not a time`},
		"no time":           {"x.csv", "t,a,b.c\n,1,1\n", 2, "the timestamp is missing"},
		"time out of range": {"x.csv", "t,a,b.c\n9999-01-01T00:00:00Z,1,1\n", 2, "out of range"},
		"time goes back": {"x.csv", "t,a,b.c\n" + good + "\n2026-01-02T03:04:04Z,1,1\n", 4,
			"before that of the previous"},
		"long line": {"x.csv", "t,a,b.c\n" + good + strings.Repeat("x", maxReplayLine+5000), 3,
			"longer than"},
		"endless quote": {"x.csv", "t,a,b.c\n" + good + "2026-01-02T03:04:06Z,\"" +
			strings.Repeat(strings.Repeat("1", 1023)+"\n", maxRecord/1024+100), 3, "is there an extra quote?"},
		"ndjson syntax":     {"x.ndjson", "{\"t\":\"2026-01-02T03:04:05Z\"}\n{\"t\":\n", 2, "not a JSON object"},
		"ndjson array":      {"x.ndjson", "[1,2]\n", 1, "not a JSON object"},
		"ndjson two values": {"x.ndjson", "\n{\"t\":\"2026-01-02T03:04:05Z\"} {}\n", 2, "more than one"},
		"ndjson text value": {"x.ndjson", "{\"t\":\"2026-01-02T03:04:05Z\",\"a\":\"1\"}\n", 1,
			`row 1, a: text of the form "\"9\"" is not a finite number`},
		"ndjson truth value": {"x.ndjson", "{\"t\":\"2026-01-02T03:04:05Z\",\"b\":{\"c\":true}}\n", 1,
			`row 1, b.c: text of the form "a" is not a finite number`},
		"ndjson time object":  {"x.ndjson", "{\"t\":{}}\n", 1, "t is neither a string nor a number (row 1)"},
		"ndjson without time": {"x.ndjson", "{\"a\":1}\n", 1, "the timestamp is missing"},
		"ndjson long line": {"x.ndjson", "{\"t\":\"2026-01-02T03:04:05Z\"}\n\"" +
			strings.Repeat("x", maxReplayLine+5000), 2, "longer than"},
	} {
		s := inputtest.ReplayStream(t, c.file, c.text, nil)
		_, err := rows(t, s, testrig.NewClock())
		if want := fmt.Sprintf("%s:%d: ", s.Replay.File, c.line); !errors.Is(err, ErrReplay) ||
			!strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s ... %s", name, err, want, c.want)
		}
	}
	s := inputtest.ReplayStream(t, "x.csv", "", nil)
	if err := unix.Mkfifo(s.Replay.File+".fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := s
	pipe.Replay = &config.Replay{File: s.Replay.File + ".fifo", Format: "csv", Time: "t", TimeFormat: "unix",
		Speed: "fast"}
	if _, err := openReplay(pipe, testrig.NewClock(), new(Counters), testrig.Quiet()); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
	s.Replay.File += ".none"
	if _, err := openReplay(s, testrig.NewClock(), new(Counters), testrig.Quiet()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// The example's file fits its configuration.
func TestReplayExample(t *testing.T) {
	cfg, err := config.LoadAgent("../../config/examples/agent-replay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := rows(t, cfg.Streams[0], testrig.NewClock())
	if err != nil || len(got) != 512 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	c, count := collect(cfg.Streams[0])
	var windows []*Window
	for _, r := range got {
		windows = append(windows, c.Add(r)...)
	}
	if st := count.Stats(); len(windows) != 2 || st.Missing != 1 || st.Held != 1 || st.Outside != 0 ||
		st.Samples != 512 {
		t.Errorf("%d windows, %+v", len(windows), st)
	}
	if w := windows[0]; w.Start.UnixMilli() != 1767225600000 || w.End.Sub(w.Start) != 2550*time.Millisecond {
		t.Errorf("from %v to %v", w.Start, w.End)
	}
}

func TestReplayPace(t *testing.T) {
	text := "t,a,b.c\n100,1,1\n101,1,1\n101,1,1\n111,1,1\n"
	for speed, want := range map[string]time.Duration{"fast": 0, "realtime": 11 * time.Second,
		"10x": 1100 * time.Millisecond} {
		clock := testrig.NewClock()
		start := clock.Mono()
		got, err := rows(t, inputtest.ReplayStream(t, "x.csv", text,
			func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", speed }), clock)
		if err != nil || len(got) != 4 {
			t.Fatalf("%s: %v, %v", speed, got, err)
		}
		if took := clock.Mono() - start; took != want {
			t.Errorf("%s: took %v, want %v", speed, took, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := openReplay(inputtest.ReplayStream(t, "x.csv", text,
		func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", "realtime" }), role.SystemClock(), new(Counters),
		testrig.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestReplayTells: a long replay says from time to time how far it is, and that it is through.
func TestReplayTells(t *testing.T) {
	for name, edit := range map[string]func(*config.Stream){"in order": func(*config.Stream) {},
		"reordered": func(s *config.Stream) { s.Lateness = time.Second }} {
		log := new(testrig.Log)
		s := inputtest.ReplayStream(t, "x.csv", "t,a,b.c\n100,1,1\n130,1,1\n170,1,1\n180,1,1\n220,1,1\n240,1,1\n",
			func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", "realtime" })
		edit(&s)
		r, err := openReplay(s, testrig.NewClock(), new(Counters), log.Logger())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for {
			if _, err := r.Next(t.Context()); IsEnd(err) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		got := log.String()
		if strings.Count(got, "the replay goes on") != 2 || !strings.Contains(got, "rows=3 at=1970-01-01T00:02:50Z") ||
			strings.Count(got, "the replay is through") != 1 || !strings.Contains(got, "rows=6\n") {
			t.Errorf("%s: the log has\n%s", name, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		text, format string
		want         int64 // ns
		ok           bool
	}{
		{"0", "unix", 0, true}, {"1.5", "unix", 1500000000, true}, {"-1.5", "unix", -1500000000, true},
		{"1700000000.123456789", "unix", 1700000000123456789, true},
		{"1700000000.1234567899", "unix", 1700000000123456789, true}, {" 12 ", "unix_ms", 12000000, true},
		{"12.5", "unix_ms", 12500000, true}, {"7", "unix_ns", 7, true},
		{"9223372035", "unix", 9223372035000000000, true}, {"9223372036", "unix", 0, false}, {"1e9", "unix", 0, false},
		{"", "unix", 0, false}, {"-", "unix", 0, false},
		{".5", "unix", 0, false}, {"1.x", "unix", 0, false}, {"+1", "unix", 0, false}, {"--1", "unix", 0, false},
		{"1", "epoch", 0, false},
		{"1970-01-01T00:00:01Z", "rfc3339", 1000000000, true},
		{"1970-01-01T01:00:01+01:00", "rfc3339", 1000000000, true}, {"1970-01-01", "rfc3339", 0, false},
		{"1600-01-01T00:00:00Z", "rfc3339", 0, false},
	} {
		got, err := parseTime(c.text, c.format)
		if (err == nil) != c.ok || c.ok && got.UnixNano() != c.want {
			t.Errorf("%q as %s: got %v, %v", c.text, c.format, got.UnixNano(), err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "ns")
		want := time.Unix(0, ns).UTC()
		sign, abs := "", ns
		if ns < 0 {
			sign, abs = "-", -ns
		}
		for format, text := range map[string]string{
			"rfc3339": want.Format(time.RFC3339Nano), "unix": fmt.Sprintf("%s%d.%09d", sign, abs/1e9, abs%1e9),
			"unix_ms": fmt.Sprintf("%s%d.%06d", sign, abs/1e6, abs%1e6), "unix_ns": fmt.Sprint(ns),
		} {
			got, err := parseTime(text, format)
			if err != nil || !got.Equal(want) {
				t.Fatalf("%q as %s: got %v, %v; want %v", text, format, got, err, want)
			}
		}
	})
}

// fuzzReplay checks that no file crashes a reader, whatever is done with bad cells: rows
// in order of time with finite values or NaN, or an error that names the file. From the
// position of a row on there are the rows that follow it.
func fuzzReplay(t *testing.T, name string, data []byte, edit func(*config.Replay)) {
	for _, policy := range []config.BadCells{config.BadFail, config.BadSkip, config.BadMissing} {
		s := inputtest.ReplayOf(name, func(r *config.Replay) { edit(r); r.BadCells = policy })
		got, err := rowsOf(t, io.NopCloser(bytes.NewReader(data)), s, testrig.NewClock())
		if err != nil && (!errors.Is(err, ErrReplay) || !strings.HasPrefix(err.Error(), s.Replay.File+":")) {
			t.Fatalf("got %v", err)
		}
		for i, r := range got {
			if i > 0 && r.At.Before(got[i-1].At) {
				t.Fatalf("row %d is before row %d", i, i-1)
			}
			for k, v := range r.Values {
				if math.IsInf(v, 0) || math.IsNaN(v) != (r.errs[k] != nil) {
					t.Fatalf("row %d: %v, %v", i, r.Values, r.errs)
				}
			}
		}
		if len(got) == 0 {
			continue
		}
		half := len(got) / 2
		r, err := newReplay(io.NopCloser(bytes.NewReader(data)), s, testrig.NewClock(), new(Counters), testrig.Quiet())
		if err == nil {
			err = r.skip(got[half].position, 0)
		}
		if err != nil {
			t.Fatalf("%s: skip to %+v: %v", policy, got[half].position, err)
		}
		for i := half + 1; i < len(got); i++ {
			x, err := r.Next(t.Context())
			if err != nil || x.position != got[i].position {
				t.Fatalf("%s: row %d after a skip: %+v, want %+v; %v", policy, i, x.position, got[i].position, err)
			}
		}
	}
}

func FuzzReplayLayout(f *testing.F) {
	f.Add([]byte("t; a;b.c\n31.01.2026 15:04;1,5;x\n31.01.2026 15:05:06,25;1.5;\n;;\n1;2\n"))
	f.Add([]byte("t;a;b.c\n25.10.2026 02:30;1;1\n25.10.2026 02:00;1;1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzReplay(t, "x.csv", data, func(r *config.Replay) {
			r.TimeFormat, r.Timezone, r.Delimiter, r.Decimal = "%d.%m.%Y %H:%M", "Europe/Berlin", ";", ","
		})
	})
}

func FuzzReplayCSV(f *testing.F) {
	f.Add([]byte("t,a,b.c\n1,2,3\n2.5,,NaN\n"))
	f.Add([]byte("\xef\xbb\xbf\"t\",\"a\",\"b.c\"\r\n-1,\"2\n\",3\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzReplay(t, "x.csv", data, func(r *config.Replay) { r.TimeFormat = "unix" })
	})
}

func FuzzReplayNDJSON(f *testing.F) {
	f.Add([]byte("{\"t\":\"2026-01-02T03:04:05.25Z\",\"a\":1.5,\"b\":{\"c\":3}}\n\n{\"t\":\"2026-01-02T03:04:06Z\"}"))
	f.Add([]byte("{\"t\":\"2026-01-02T03:04:05+01:00\",\"a\":null,\"b\":[{}]}"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzReplay(t, "x.ndjson", data, func(*config.Replay) {}) })
}

func TestLineLimit(t *testing.T) {
	ok := strings.Repeat(strings.Repeat("x", maxReplayLine-1)+"\n", 3)
	if b, err := io.ReadAll(&lineLimit{r: strings.NewReader(ok), file: "f"}); err != nil || len(b) != len(ok) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// Long files have no limit, only their records.
func TestReplayLongFile(t *testing.T) {
	for name, text := range map[string]string{"x.csv": "2026-01-02T03:04:05Z,1,2,%s\n",
		"x.ndjson": "{\"t\":\"2026-01-02T03:04:05Z\",\"a\":1,\"b\":{\"c\":3},\"x\":\"%s\"}\n"} {
		var b strings.Builder
		if strings.HasSuffix(name, "csv") {
			b.WriteString("t,a,b.c,x\n")
		}
		for range 2*maxRecord/100_000 + 1 {
			fmt.Fprintf(&b, text, strings.Repeat("x", 100_000))
		}
		if got, err := rows(t, inputtest.ReplayStream(t, name, b.String(), nil), testrig.NewClock()); err != nil ||
			len(got) != 2*maxRecord/100_000+1 {
			t.Errorf("%s: %d rows, %v", name, len(got), err)
		}
	}
}
