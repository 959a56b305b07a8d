package agent

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// A file of /sys that blocks in read(2): the agent samples the other channels, and
// stops.
func TestHangingSensor(t *testing.T) {
	t.Parallel() // it mostly waits
	cfg := testConfig(t)
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	deps.Root, deps.Clock = inputtest.CopyTree(t, "testdata/board"), role.SystemClock()
	zones, err := filepath.Glob(filepath.Join(deps.Root, "sys/class/thermal/thermal_zone*"))
	if err != nil {
		t.Fatal(err)
	}
	fifo := ""
	for _, z := range zones {
		if kind, err := os.ReadFile(filepath.Join(z, "type")); err == nil &&
			strings.TrimSpace(string(kind)) == "CPU-therm" {
			fifo = filepath.Join(z, "temp")
		}
	}
	if err := errors.Join(os.Remove(fifo), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // let the read end
		if f, err := os.OpenFile(fifo, os.O_RDWR, 0); err == nil {
			_, _ = f.WriteString("41000\n")
			f.Close()
		}
	})
	// The power sensor hangs too, when the energy is counted at the end.
	rail := filepath.Join(deps.Root, "sys/class/hwmon/hwmon1/power1_average")
	t.Cleanup(func() {
		if f, err := os.OpenFile(rail, os.O_RDWR, 0); err == nil {
			_, _ = f.WriteString("41000\n")
			f.Close()
		}
	})
	soc := &cfg.Streams[0].Channels[0]
	soc.OnMissing, soc.MissingValue = config.MissingMark, new(-40.0)
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if a.Energy().Sensor == "" {
		t.Fatal("no power sensor")
	}
	if err := errors.Join(os.Remove(rail), unix.Mkfifo(rail, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	readings, _ := opened(t, k, cfg.Device, client.messages)
	if len(readings) != 1 {
		t.Fatalf("%d readings", len(readings))
	}
	got := decrypted(t, k, cfg.Streams[0], readings[0])
	for i := range got[0] {
		if math.Abs(got[0][i]+40) > 0.5 || math.Abs(got[1][i]-25.27) > 0.5 {
			t.Errorf("sample %d: got %v and %v", i, got[0][i], got[1][i])
		}
	}
}
