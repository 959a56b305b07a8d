package demo

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testenv"
)

// TestDemo plays one short window over real MQTT under several parameter sets.
func TestDemo(t *testing.T) {
	for _, params := range []string{DefaultParams, "edge12-d1", "edge12-add"} {
		t.Run(params, func(t *testing.T) { playOne(t, Options{Params: params, Samples: 4}) })
	}
}

// TestDemoCompact plays one compact window of 64 samples through a bootstrap: 20 s of a processor and 3 GiB.
func TestDemoCompact(t *testing.T) {
	if os.Getenv("HENCEDGE_TEST_DEEP") != "1" {
		testenv.Missing(t, "deep", "HENCEDGE_TEST_DEEP is not 1")
	}
	root := t.TempDir()
	files(t, root, map[string]string{"proc/loadavg": "0.50 0.40 0.30 1/100 1\n"})
	for _, r := range playOne(t, Options{Compact: true, Samples: 64, Root: root}) {
		if r.Uploaded > 350 {
			t.Errorf("a window of 64 readings has %d bytes", r.Uploaded)
		}
	}
}

// playOne plays one window, checks every result and returns them.
func playOne(t *testing.T, o Options) (rows []Row) {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var cast Cast
	o.Windows, o.Interval = 1, 20*time.Millisecond
	o.OnStart = func(c Cast) { cast = c }
	also := o.OnRow
	o.OnRow = func(r Row) error {
		rows = append(rows, r)
		if also != nil {
			return also(r)
		}
		return nil
	}
	sum, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !sum.OK || sum.Windows != 1 || sum.Results != len(rows) || sum.Exceeded != 0 || sum.WorstRatio > 1 ||
		sum.MaxError > sum.Bound || sum.Bound <= 0 {
		t.Errorf("summary %+v", sum)
	}
	if len(rows) != len(cast.Programs) || len(rows) == 0 {
		t.Fatalf("%d rows of %d programs", len(rows), len(cast.Programs))
	}
	for i, r := range rows {
		p := cast.Programs[i]
		if r.Program != p.Name || r.Window != 1 || r.Channel == "" || r.Bound <= 0 || r.Bound > p.Bound || !r.OK ||
			r.Uploaded == 0 || r.Downloaded == 0 || r.Encrypt <= 0 || r.Evaluate < 0 {
			t.Errorf("row %+v of program %+v", r, p)
		}
		if len(r.Decrypted) != len(r.Truth) || len(r.Truth) == 0 {
			t.Errorf("%s: %d values, %d true", r.Program, len(r.Decrypted), len(r.Truth))
		}
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("the demo left %v, %v", left, err)
	}
	return rows
}

// files writes files below a root.
func files(t *testing.T, root string, text map[string]string) {
	t.Helper()
	for path, text := range text {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDemoEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	sum, err := Run(ctx, Options{Windows: -1, Params: "edge12-d1", Samples: 4, Interval: 20 * time.Millisecond,
		OnRow: func(r Row) error {
			if r.Window == 2 {
				stop()
			}
			return nil
		}})
	if err != nil || !sum.OK || sum.Windows < 2 {
		t.Errorf("summary %+v, %v", sum, err)
	}
}

func TestDemoRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"unknown set":   {Params: "edge99"},
		"insecure set":  {Params: "bench-paper16-insecure"},
		"one sample":    {Samples: 1},
		"many samples":  {Samples: 1 << 14},
		"no sensors":    {Root: t.TempDir()},
		"busy interval": {Interval: 1},
	} {
		if _, err := Run(context.Background(), o); !errors.Is(err, ErrSetup) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDemoStopsWhenARowIsNotWanted(t *testing.T) {
	full := errors.New("disk full")
	_, err := Run(context.Background(), Options{Windows: 1, Params: "edge12-add", Samples: 2,
		Interval: time.Millisecond,
		OnRow:    func(Row) error { return full }})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

func TestChoose(t *testing.T) {
	f := func(name string, kind config.SourceType) sensor.Found {
		return sensor.Found{Name: name, Source: config.Source{Type: kind}}
	}
	cpu, mem, load, net := f("cpu", config.SourceCPU), f("memory", config.SourceMemory), f("load", config.SourceLoad),
		f("eth0", config.SourceNet)
	cpu2 := f("cpu_system", config.SourceCPU)
	t1, t2, t3 := f("t1", config.SourceThermal), f("t2", config.SourceHwmon), f("t3", config.SourceThermal)
	for _, c := range []struct {
		found []sensor.Found
		want  []string
	}{
		{[]sensor.Found{cpu, cpu2, mem, load, net}, []string{"cpu", "memory", "load"}},
		{[]sensor.Found{t1, t2, t3, cpu, mem, load}, []string{"t1", "t2", "cpu", "memory"}},
		{[]sensor.Found{net}, []string{"eth0"}},
		{nil, nil},
	} {
		var got []string
		for _, g := range choose(c.found) {
			got = append(got, g.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

func TestFittingSaysWhyAProgramIsLeftOut(t *testing.T) {
	p, err := henc.Named("edge12-add")
	if err != nil {
		t.Fatal(err)
	}
	st := config.Stream{Name: streamName, Window: config.Window{Samples: 8}, Params: p.Name(),
		Channels: []config.Channel{{Name: "a", Unit: "1", Range: [2]float64{0, 1}},
			{Name: "b", Unit: "1", Range: [2]float64{-1, 1}}}}
	all := candidates(st.Channels)
	keep, left := fitting(all, st, p)
	if len(keep) != 1 || keep[0].Name != "scaled-a" || len(left) != len(all)-1 {
		t.Errorf("kept %v, left out %v", keep, left)
	}
	if p, err = henc.Named("edge13-d2p"); err != nil {
		t.Fatal(err)
	}
	st.Params = p.Name()
	if keep, left = fitting(all, st, p); len(keep) != len(all)-1 || len(left) != 0 {
		t.Errorf("kept %d of %d, left out %v", len(keep), len(all), left)
	}
}

// TestSummary shows that one bad result makes the whole demo fail, and which
// result is reported.
func TestSummary(t *testing.T) {
	cast := Cast{Programs: []Program{{Name: "a", Bound: 1}, {Name: "b", Bound: 1e-3}}}
	s := newSummary(cast, time.Now())
	s.add(Row{Window: 1, Program: "a", Error: 0.5, Bound: 1, OK: true, Uploaded: 10, Downloaded: 1})
	s.add(Row{Window: 1, Program: "b", Error: 0.9e-3, Bound: 1e-3, OK: true, Uploaded: 10, Downloaded: 1})
	s.finish()
	if !s.OK || s.Worst != "b" || s.MaxError != 0.9e-3 || s.Bound != 1e-3 || math.Abs(s.WorstRatio-0.9) > 1e-12 ||
		s.Uploaded != 10 || s.Downloaded != 2 || s.Results != 2 {
		t.Errorf("%+v", s)
	}
	s.add(Row{Window: 2, Program: "a", Error: 1.5, Bound: 1, Uploaded: 10})
	s.finish()
	if s.OK || s.Exceeded != 1 || s.Worst != "a" || s.MaxError != 1.5 || s.Uploaded != 20 ||
		s.Programs[0].MaxError != 1.5 {
		t.Errorf("%+v", s)
	}
	empty := newSummary(cast, time.Now())
	if empty.finish(); empty.OK {
		t.Error("a demo without results is good")
	}
}

func TestRowsOutsideThePromiseAreSeen(t *testing.T) {
	dir := t.TempDir()
	files(t, dir, map[string]string{"proc/loadavg": "0.50 0.40 0.30 1/100 1\n",
		"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 500 kB\nMemAvailable: 400 kB\n"})
	o := Options{Root: dir, Params: "edge12-d1", Windows: 1, Samples: 4, Interval: time.Millisecond}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	p, err := henc.Named(o.Params)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStage(o, p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.clear()
	// A promise that cannot be kept.
	for i := range s.cast.Programs {
		s.cast.Programs[i].Bound = 1e-30
	}
	bad := 0
	err = s.play(context.Background(), func(r Row) error {
		if !r.OK {
			bad++
		}
		return nil
	})
	if err != nil || bad != len(s.cast.Programs) {
		t.Errorf("%d of %d rows are bad, %v", bad, len(s.cast.Programs), err)
	}
}
