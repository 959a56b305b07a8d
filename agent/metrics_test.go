package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// The exported metrics keep to Prometheus' conventions, as `promtool check metrics`
// reads them, every one that is sent was announced, and labels have few values: names
// of the configuration.
func TestMetricsAreSound(t *testing.T) {
	cfg := testConfig(t)
	deps, _ := testDeps(t, &fakeClient{})
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(a); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	values := map[string]float64{}
	for _, f := range families {
		if help := f.GetHelp(); !strings.HasSuffix(help, ".") || strings.HasPrefix(help, "Their") ||
			strings.HasPrefix(help, "Of these") {
			t.Errorf("%s: the help %q does not stand alone", f.GetName(), help)
		}
		for _, m := range f.GetMetric() {
			values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			for _, l := range m.GetLabel() {
				if name, value := l.GetName(),
					l.GetValue(); !slices.Contains([]string{"stream=system", "scope=board", "sensor=VDD_IN (hwmon1)"},
					name+"="+value) {
					t.Errorf("%s has the label %s=%q", f.GetName(), name, value)
				}
			}
		}
	}
	if values["hencedge_agent_sent_total"] != 1 || values["hencedge_agent_connected"] != 1 {
		t.Errorf("got %v", values)
	}
	if ack := time.UnixMilli(int64(1e3 * values["hencedge_agent_last_ack_timestamp_seconds"])); ack.Year() != 2026 {
		t.Errorf("the last acknowledgement was at %v", ack)
	}
}
