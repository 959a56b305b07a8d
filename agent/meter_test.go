package agent

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
)

// gathered are the metrics of an agent whose names start so.
func gathered(t *testing.T, a *Agent, prefix string) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(a); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, prefix) {
			m := f.GetMetric()[0]
			out[strings.TrimPrefix(name, prefix)] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// An agent on a board with a sensor counts from start to stop and exports it; one
// without a sensor, or that may not, says so and exports nothing.
func TestAgentCountsEnergy(t *testing.T) {
	for _, c := range []struct {
		name, root string
		policy     config.EnergyPolicy
		reason     string
	}{
		{"board", "testdata/board", config.EnergyAuto, ""},
		{"off", "testdata/board", config.EnergyOff, "off"},
		{"none", t.TempDir(), config.EnergyAuto, "no power sensor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Energy = c.policy
			deps, _ := testDeps(t, &fakeClient{})
			a, err := New(cfg, deps)
			if err != nil {
				t.Fatal(err)
			}
			a.openMeter(sensor.Machine{Root: c.root, Clock: deps.Clock})
			if err := a.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, m := a.Report().Energy, gathered(t, a, "hencedge_agent_energy_")
			if c.reason != "" {
				if r.Reason != c.reason || r.Sensor != "" || r.String() != c.reason || len(m) != 0 {
					t.Errorf("got %+v, metrics %v", r, m)
				}
				return
			}
			if r.Sensor != "VDD_IN (hwmon1)" || r.Seconds <= 0 || math.Abs(r.Joules/r.Seconds-9.744) > 1e-6 ||
				r.Failures != 0 {
				t.Errorf("got %+v", r)
			}
			if m["joules_total"] != r.Joules || m["seconds_total"] != r.Seconds || math.Abs(m["watts"]-9.744) > 1e-6 {
				t.Errorf("metrics %v for %+v", m, r)
			}
		})
	}
}
