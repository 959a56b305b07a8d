package power

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
)

// write changes one file of a recorded tree.
func write(t *testing.T, root, path, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, path), []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The sensor that covers most is taken, and what overlaps is not summed.
func TestOpenEnergy(t *testing.T) {
	for _, c := range []struct {
		name, sensor string
		scope        Scope
		watts        float64 // of a power
	}{
		{"testdata/orin.txtar", "VIN (hwmon2)", ScopeBoard, 12.345678},
		{"testdata/xavier.txtar", "GPU (iio:device0) + CPU (iio:device0) + CV (iio:device1)", ScopeRails,
			1.543 + 0.928},
		{"testdata/nano.txtar", "VDD_IN (hwmon1)", ScopeBoard, 4.968 * 1.24},
		{"testdata/ina238.txtar", "ina238 energy1 (hwmon0) + ina238 energy1 (hwmon1)", ScopeRails, 0},
		{"testdata/server.txtar", "package-0 (intel-rapl:0) + dram (intel-rapl:0:2) + package-1 (intel-rapl:1)",
			ScopeProcessor, 0},
		{"testdata/laptop.txtar", "psys (intel-rapl:1)", ScopeBoard, 0},
		{"testdata/epyc.txtar", "amd_energy energy3 (hwmon4) + amd_energy energy4 (hwmon4)", ScopeProcessor, 0},
		{"../../testdata/board", "VDD_IN (hwmon1)", ScopeBoard, 9.744},
	} {
		root := c.name
		if strings.HasSuffix(c.name, ".txtar") {
			root = inputtest.Tree(t, c.name)
		}
		e, err := OpenEnergy(root)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if e.Sensor != c.sensor || e.Scope != c.scope || e.Counter != (c.watts == 0) {
			t.Errorf("%s: got %q, %s, counter %v", c.name, e.Sensor, e.Scope, e.Counter)
		}
		if j, s, err := e.Add(time.Second); j != 0 || s != 0 || err != nil {
			t.Errorf("%s: the first reading gives %v J in %v s, %v", c.name, j, s, err)
		}
		if j, s, err := e.Add(3 * time.Second); math.Abs(j-2*c.watts) > 1e-9 || s != 2 || err != nil {
			t.Errorf("%s: got %v J in %v s, %v, want %v J", c.name, j, s, err, 2*c.watts)
		}
	}
}

func TestOpenEnergyFailures(t *testing.T) {
	if _, err := OpenEnergy(t.TempDir()); !errors.Is(err, input.ErrNoSensor) ||
		!strings.HasSuffix(err.Error(), "no power sensor") {
		t.Errorf("an empty tree: %v", err)
	}
	// A graphics card does not stand for the board.
	if _, err := OpenEnergy(inputtest.Tree(t, "testdata/desktop.txtar")); !errors.Is(err, input.ErrNoSensor) {
		t.Errorf("a graphics card only: %v", err)
	}
	root := inputtest.Tree(t, "testdata/server.txtar")
	for _, text := range []string{"garbage", "", "-1", "99999999999999999999"} {
		write(t, root, "sys/class/powercap/intel-rapl:1/energy_uj", text)
		if _, err := OpenEnergy(root); !errors.Is(err, input.ErrNoSensor) || !errors.Is(err, input.ErrReading) ||
			!strings.Contains(err.Error(), "intel-rapl:1") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if err := os.Remove(filepath.Join(root, "sys/class/powercap/intel-rapl:1/energy_uj")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenEnergy(root); !errors.Is(err, input.ErrNoSensor) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// Counters: wrap-around at the stated span, a restart at an unknown place, and
// files that fail for a while, after which nothing is missing.
func TestAddCounter(t *testing.T) {
	root := inputtest.Tree(t, "testdata/laptop.txtar")
	const psys = "sys/class/powercap/intel-rapl:1/energy_uj"
	write(t, root, psys, "262143000000")
	e, err := OpenEnergy(root)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		at              time.Duration
		text            string
		joules, seconds float64
		fails           bool
	}{
		{0, "262143000000", 0, 0, false},
		{time.Second, "262143300000", 0.3, 1, false},
		{2 * time.Second, "1000000", (262143328850-262143300000)*1e-6 + 1, 1, false}, // wrapped
		{3 * time.Second, "garbage", 0, 0, true},
		{60 * time.Second, "5000000", 4, 58, false}, // all since the last good one
		{60 * time.Second, "5000000", 0, 0, false},  // no time has passed
	} {
		write(t, root, psys, c.text)
		j, s, err := e.Add(c.at)
		if math.Abs(j-c.joules) > 1e-9 || s != c.seconds || (err != nil) != c.fails {
			t.Errorf("%d: got %v J in %v s, %v, want %v J in %v s", i, j, s, err, c.joules, c.seconds)
		}
	}

	// Without a span, a counter that went back started anew: nothing is known.
	root = inputtest.Tree(t, "testdata/ina238.txtar")
	if e, err = OpenEnergy(root); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		text            string
		joules, seconds float64
	}{{"7000000", 0, 0}, {"8000000", 1, 1}, {"10", 0, 0}, {"500010", 0.5, 1}} {
		write(t, root, "sys/class/hwmon/hwmon0/energy1_input", c.text)
		if j, s, err := e.Add(time.Duration(i) * time.Second); math.Abs(j-c.joules) > 1e-9 || s != c.seconds ||
			err != nil {
			t.Errorf("no span, %d: got %v J in %v s, %v", i, j, s, err)
		}
	}
}

// Powers: trapezoids, a failure that the next reading bridges, and a gap that is
// too long to be.
func TestAddPower(t *testing.T) {
	root := inputtest.Tree(t, "testdata/orin.txtar")
	e, err := OpenEnergy(root)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		at              time.Duration
		text            string
		joules, seconds float64
		fails           bool
	}{
		{0, "10000000", 0, 0, false},
		{time.Second, "12000000", 11, 1, false},
		{2 * time.Second, "", 0, 0, true},
		{3 * time.Second, "8000000", 20, 2, false},
		{3*time.Second + MaxGap, "8000000", 120, 15, false},
		{4*time.Second + 2*MaxGap, "6000000", 0, 0, false},
		{5*time.Second + 2*MaxGap, "6000000", 6, 1, false},
	} {
		write(t, root, "sys/class/hwmon/hwmon2/power1_input", c.text)
		j, s, err := e.Add(c.at)
		if math.Abs(j-c.joules) > 1e-9 || s != c.seconds || (err != nil) != c.fails {
			t.Errorf("%d: got %v J in %v s, %v, want %v J in %v s", i, j, s, err, c.joules, c.seconds)
		}
	}
}

// A counter that wraps any number of times adds up to what was spent, as long as
// it is read once per turn.
func TestAddUpAcrossWraps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Uint64Range(1000, 1<<40).Draw(t, "span")
		now := rapid.Uint64Range(0, span).Draw(t, "start")
		var spent uint64
		got := 0.0
		e := &Energy{Counter: true, meters: []meter{{span: span, count: func() (uint64, error) { return now, nil }}}}
		for i, d := range append([]uint64{0}, rapid.SliceOfN(rapid.Uint64Range(0, span-1), 1, 20).Draw(t, "steps")...) {
			if now += d; now > span {
				now -= span
			}
			spent += d
			j, _, err := e.Add(time.Duration(i+1) * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			got += j
		}
		if want := float64(spent) * 1e-6; math.Abs(got-want) > 1e-9*max(1, want) {
			t.Fatalf("got %s J, want %s", strconv.FormatFloat(got, 'g', -1, 64), strconv.FormatFloat(want, 'g', -1, 64))
		}
	})
}
