package benchmark

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// fakeMeter is a device whose calls take a time; it keeps the sets that each run used.
type fakeMeter struct {
	each        time.Duration
	parts       int // of a run that TimeRun collects, of any length
	used        []int
	times, runs [][]int
}

func (m *fakeMeter) call(set int) error { m.used = append(m.used, set); return nil }
func (m *fakeMeter) Launches() uint64   { return 0 }

func (m *fakeMeter) Time(f func() error) (time.Duration, error) {
	m.used = nil
	err := f()
	m.times = append(m.times, m.used)
	return m.each * time.Duration(len(m.used)), err
}

func (m *fakeMeter) TimeRun(lead, run func() error) (time.Duration, int, error) {
	m.used = nil
	if m.parts > 0 {
		if err := lead(); err != nil {
			return 0, 0, err
		}
	}
	before := len(m.used)
	err := run()
	m.runs = append(m.runs, m.used[before:])
	return m.each * time.Duration(len(m.used)-before), m.parts, err
}

// TestMeasureDevice: a run that the device works off as one graph uses all sets, as
// often as it takes to last long enough and as a graph has room for; others are short
// enough for the queue. Calls that are timed alone are.
func TestMeasureDevice(t *testing.T) {
	for _, c := range []struct {
		name     string
		each     time.Duration
		parts    int
		sets     int
		launches uint64
		alone    bool
		first    int // calls of the first run that was collected
		calls    int // of each run
	}{
		{"short calls", 3 * time.Microsecond, 1, 101, 1, false, 101, 404},
		{"long ones", 290 * time.Microsecond, 1, 3, 8, false, 3, 6},
		{"very long ones", 5 * time.Millisecond, 1, 3, 8, false, 3, 3},
		{"many kernels", 30 * time.Microsecond, 1, 100, 8, false, 100, 100},
		{"a large graph", 30 * time.Microsecond, 1, 1000, 8, false, 128, 128},
		{"a large call", 30 * time.Microsecond, 1, 7, 5000, false, 1, 1},
		{"no time", 0, 1, 10, 1, false, 10, 1020},
		{"copies", 30 * time.Microsecond, 4, 100, 8, false, 100, 14},
		{"no graphs", 3 * time.Microsecond, 0, 100, 1, false, 100, 32},
		{"alone", 3 * time.Microsecond, 1, 100, 1, true, 0, 1},
	} {
		m := &fakeMeter{each: c.each, parts: c.parts}
		s, graphCalls, err := measureDevice(context.Background(), m, 0, c.sets, c.launches, c.alone, m.call)
		graph := c.parts == 1 && !c.alone
		if err != nil || (graphCalls == c.calls) != graph || !graph && graphCalls != 0 {
			t.Errorf("%s: %d calls in a graph, %v", c.name, graphCalls, err)
		}
		if s.median != c.each || s.iters != minRuns*c.calls {
			t.Errorf("%s: %+v", c.name, s)
		}
		runs := m.times
		if graph {
			runs = m.runs
		}
		if c.first > 0 && len(m.runs[0]) != c.first || c.first == 0 && len(m.runs) != 0 {
			t.Errorf("%s: the first run has %d calls", c.name, len(m.runs[0]))
		}
		for _, run := range runs[len(runs)-minRuns:] {
			if len(run) != c.calls {
				t.Fatalf("%s: a run of %d calls", c.name, len(run))
			}
			for i := range run[1:] {
				if run[i+1] != (run[i]+1)%c.sets {
					t.Fatalf("%s: sets %v", c.name, run)
				}
			}
		}
		all := slices.Concat(runs...)
		slices.Sort(all)
		if n := len(slices.Compact(all)); n != min(c.sets, minRuns*c.calls) && c.name != "a large graph" {
			t.Errorf("%s: %d sets of %d", c.name, n, c.sets)
		}
	}
	bad := errors.New("bad")
	for _, alone := range []bool{false, true} {
		if _, _, err := measureDevice(context.Background(), &fakeMeter{parts: 1}, 0, 3, 1, alone,
			func(int) error { return bad }); !errors.Is(err, bad) {
			t.Errorf("error lost: %v", err)
		}
	}
}
