package sensor

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input/power"
)

// The first reading is a baseline; what is counted while the sensor fails, or
// before a gap too long to bridge, is in none of the figures.
func TestEnergyFigures(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "sys/class/hwmon/hwmon0")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	set := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("name", "ina226\n")
	set("power1_label", "VIN\n")
	set("power1_input", "4000000\n")
	sensor, err := power.OpenEnergy(root)
	if err != nil {
		t.Fatal(err)
	}
	var done Work
	var cpu processorTime
	gpu := false
	e := &Meter{sensor: sensor, work: func() Work { return done }, cpu: func() processorTime { return cpu },
		gpu: func() bool { return gpu }}
	step := func(at time.Duration, watts string, readings, windows uint64, own, busy time.Duration) {
		set("power1_input", watts)
		done.Readings, done.Windows, cpu.own, cpu.busy = readings, windows, own, busy
		e.add(at)
	}
	step(0, "4000000", 100, 10, time.Second, time.Hour) // before the first reading: not ours to count
	if got := e.Report(); got.Joules != 0 || got.Readings != 0 || got.PerReading != 0 || got.Share != nil ||
		got.Recent.Seconds != 0 {
		t.Errorf("at the start: %+v", got)
	}
	step(2*time.Second, "4000000", 102, 10, time.Second+20*time.Millisecond, time.Hour+200*time.Millisecond)
	if got := e.Report(); got.Joules != 8 || got.Readings != 2 || got.PerReading != 4 || got.PerWindow != 0 ||
		got.Share != nil {
		t.Errorf("after two seconds: %+v", got)
	}
	step(3*time.Second, "broken", 103, 11, time.Second+50*time.Millisecond, time.Hour+time.Second)
	step(4*time.Second, "4000000", 104, 11, time.Second+100*time.Millisecond, time.Hour+2*time.Second)
	got := e.Report()
	if got.Joules != 16 || got.Seconds != 4 || got.Readings != 4 || got.Windows != 1 || got.PerReading != 4 ||
		got.PerWindow != 16 || got.Failures != 1 ||
		got.Recent != (RecentEnergy{4, 4, 4}) || got.Scope != power.ScopeBoard {
		t.Errorf("a failure bridged: %+v", got)
	}
	if got.Share != nil {
		t.Errorf("a share before processor time was read again: %v", *got.Share)
	}
	step(10*time.Second, "4000000", 110, 12, time.Second+100*time.Millisecond, time.Hour+2*time.Second)
	got = e.Report()
	if got.Share == nil || math.Abs(*got.Share-0.05) > 1e-9 || math.Abs(*got.Own-2) > 1e-9 {
		t.Errorf("the own part: %+v, want a twentieth of 40 J", got)
	}
	if gpu = true; e.Report().Share != nil {
		t.Error("processor time stands for a GPU's work")
	}
	gpu = false
	step(1000*time.Second, "9000000", 1000, 100, time.Minute, 2*time.Hour) // a gap
	if again := e.Report(); again.Joules != 40 || again.Readings != 10 || *again.Share != *got.Share {
		t.Errorf("after a gap: %+v", again)
	}
	const line = "VIN (hwmon0), board: 40 J in 10s, 4 W lately; 4 J per reading, 20 J per window; own part about 2 " +
		"J (5 % of the busy processor time); 1 readings failed"
	if text := e.Report().String(); !strings.HasPrefix(text, line) {
		t.Errorf("got %q", text)
	}
	// Recent figures forget what is older than five minutes, and memory is bounded.
	for i := range 1000 {
		step((1001+time.Duration(i))*time.Second, "9000000", 1000+uint64(2*i), 100, time.Minute, 2*time.Hour)
	}
	got = e.Report()
	if r := got.Recent; r.Seconds < 300 || r.Seconds > 320 || math.Abs(r.Watts-9) > 1e-9 ||
		math.Abs(r.PerReading-4.5) > 0.05 || len(e.recent) > 33 {
		t.Errorf("lately: %+v, %d steps", r, len(e.recent))
	}
}

// What one reading of the sensor costs, every few seconds.
func BenchmarkEnergy(b *testing.B) {
	e := OpenMeter(board(), func() Work { return Work{} }, func() bool { return false })
	at := time.Duration(0)
	for b.Loop() {
		at += time.Second
		e.add(at)
	}
}
