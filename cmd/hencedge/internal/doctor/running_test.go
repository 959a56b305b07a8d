package doctor

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/systemd"
)

// answer is what a service says of itself.
type answer struct{ v any }

func (answer) Describe(chan<- *prometheus.Desc)        {}
func (answer) Collect(chan<- prometheus.Metric)        {}
func (answer) Health() []string                        { return nil }
func (a answer) Status() any                           { return a.v }
func (answer) AskReload(context.Context, string) error { return nil }

func TestRunningService(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "control.sock")
	if c := running(t.Context(), systemd.Agent, socket); c.Status != Info || c.Detail != "none" {
		t.Errorf("nobody there: %+v", c)
	}
	for _, c := range []struct {
		v     any
		want  Status
		holds string
	}{
		{daemon.SupervisorStatus{Version: "v7", Healthy: true, Protection: daemon.Protection{Locked: true}}, OK,
			"version v7, memory: no core dumps, no ptrace, locked"},
		{daemon.SupervisorStatus{Healthy: true, Protection: daemon.Protection{Detail: "the limit is low"}}, OK,
			"not locked; the limit is low"},
		{daemon.SupervisorStatus{Healthy: true, Protection: daemon.Protection{Dumpable: true}}, Warn,
			"core dumps and ptrace are possible"},
		{daemon.SupervisorStatus{Reasons: []string{"no broker"}}, Warn, "not healthy: no broker"},
		{"hello", Warn, "cannot be read"},
	} {
		stop, err := daemon.ServeControl(socket, answer{c.v}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		got := running(t.Context(), systemd.Agent, socket)
		stop()
		if got.Status != c.want || !strings.Contains(got.Detail, c.holds) || (c.want == Warn) != (got.Remedy != "") {
			t.Errorf("%+v: %+v", c.v, got)
		}
	}
}
