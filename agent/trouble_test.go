package agent

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A service starts although a sensor is not there, and takes it up when it comes;
// a check fails.
func TestStartWithoutSensor(t *testing.T) {
	t.Parallel() // it mostly waits
	cfg := testConfig(t)
	cfg.Streams[0].Channels[1].Source = &config.Source{Type: config.SourceHwmon, Chip: "late", Input: "temp1", Scale: 1}
	cfg.Streams[0].Channels[1].Unit = "degC"
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	deps.Root, deps.Clock = inputtest.CopyTree(t, "testdata/board"), role.SystemClock()
	var log strings.Builder
	deps.Logger = textLogger(&log)
	if _, err := New(cfg, deps); !errors.Is(err, config.ErrInvalid) ||
		!strings.Contains(err.Error(), `hwmon chip "late"`) {
		t.Fatalf("got %v", err)
	}
	deps.WaitForSensors = true
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "the sensor is missing; waiting for it") ||
		!strings.Contains(log.String(), "channel=memory") ||
		!strings.Contains(log.String(), "no samples of the stream (on_missing: hold)") {
		t.Errorf("the log is\n%s", log.String())
	}
	chip := filepath.Join(deps.Root, "sys/class/hwmon/hwmon20")
	if err := errors.Join(os.Mkdir(chip, 0o700), os.WriteFile(filepath.Join(chip, "name"), []byte("late\n"), 0o600),
		os.WriteFile(filepath.Join(chip, "temp1_input"), []byte("33000\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	readings, _ := opened(t, k, cfg.Device, client.messages)
	for _, v := range decrypted(t, k, cfg.Streams[0], readings[0])[1] {
		if v < 32.5 || v > 33.5 {
			t.Errorf("got %v", v)
		}
	}
}

// A channel without a value is in the report, and not when it has one again. The agent is
// unhealthy when that takes long.
func TestTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t)
		cfg.Streams[0].Channels[2].OnRange = config.OutsideMissing
		deps, _ := testDeps(t, &fakeClient{})
		a, err := New(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		c := a.streams[0].Collector
		at := time.Now()
		c.Add(source.Row{At: at, Values: []float64{20, math.NaN(), 65}})
		got := a.Report().Troubles
		if len(got) != 2 || got[0].Channel != "load" || !strings.Contains(got[0].Error, "it is out of range") ||
			got[1].Channel != "memory" ||
			got[1].Error != sensor.ErrReading.Error() || got[1].Since.Before(at.Round(0)) {
			t.Fatalf("got %+v", got)
		}
		if h := a.Health(); len(h) != 0 {
			t.Errorf("at once unhealthy: %q", h)
		}
		c.Add(source.Row{At: at.Add(time.Second), Values: []float64{20, math.NaN(), 60}})
		time.Sleep(silentTooLong + time.Minute)
		if h := a.Health(); len(h) != 1 ||
			!strings.Contains(h[0], "stream system, channel memory: no value for 6m0s: unusable reading") {
			t.Errorf("got %q", h)
		}
		c.Add(source.Row{At: at.Add(2 * time.Second), Values: []float64{20, 30, 60}})
		if got := a.Report().Troubles; len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// Once does not wait for ever for sensors that give nothing, and says which.
func TestOnceWithoutSamples(t *testing.T) {
	t.Parallel() // it mostly waits
	cfg := testConfig(t)
	deps, _ := testDeps(t, &fakeClient{})
	deps.Root, deps.Clock = inputtest.CopyTree(t, "testdata/board"), role.SystemClock()
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(deps.Root, "sys/class/thermal")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // what run does, with less patience
		testrig.Poll(func() bool { return a.Stats().Streams["system"].Missing > 0 })
		err := a.expectSamples(ctx, 100*time.Millisecond, cancel)
		if !errors.Is(err, ErrNoSamples) || !strings.Contains(err.Error(), "stream system: no sample: channel soc: ") {
			t.Errorf("got %v", err)
		}
	}()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	if ctx.Err() == nil || a.Stats().Streams["system"].Samples != 0 {
		t.Errorf("got %+v", a.Stats().Streams["system"])
	}
}
