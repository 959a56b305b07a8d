package agent

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/spool"
)

// How long an outage is bridged is what the queue then does: objects of the predicted
// size are put until one is lost, with the bounds of all and with those of a stream.
func TestPlanOfAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Agent)
		age    time.Duration // the bound, where it is one
	}{
		"memory, bytes":   {func(cfg *config.Agent) { cfg.Queue.Bytes = config.MiB }, 0},
		"memory, objects": {func(cfg *config.Agent) { cfg.Queue.Objects = 11 }, 0},
		"spool": {func(cfg *config.Agent) {
			withSpool(t, cfg, filepath.Join(t.TempDir(), "spool")).Spool.Bytes = config.MiB
		}, 0},
		"one stream's bytes": {func(cfg *config.Agent) {
			withSpool(t, cfg, filepath.Join(t.TempDir(), "spool")).Delivery.Streams = []config.StreamDelivery{
				{Stream: "system", Ack: config.AckBroker, Bytes: 700 * config.KiB}}
		}, 0},
		"one stream's age": {func(cfg *config.Agent) {
			withSpool(t, cfg, filepath.Join(t.TempDir(), "spool")).Delivery.Streams = []config.StreamDelivery{
				{Stream: "system", Ack: config.AckBroker, Age: 3 * time.Minute}}
		}, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			c.change(cfg)
			deps, _ := testDeps(t, &fakeClient{})
			p, err := plan.Predict(cfg, deps.options(), 0)
			if err != nil {
				t.Fatal(err)
			}
			o := p.Streams[0]
			if p.QueueSeconds != o.QueueSeconds || c.age > 0 && p.QueueSeconds != c.age.Seconds() {
				t.Errorf("all %v s, the stream %v s", p.QueueSeconds, o.QueueSeconds)
			}
			if c.age > 0 {
				return
			}
			s, err := openSpool(cfg, testrig.NewClock(), testrig.Quiet())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			n := 0
			for ; s.Stats().Dropped == 0 && n < 1000; n++ {
				if err := s.Put(t.Context(),
					spool.Item{Stream: "system", Topic: "t", Sealed: make([]byte, o.ObjectBytes)}); err != nil {
					t.Fatal(err)
				}
			}
			held := float64(n-1) * o.WindowSeconds
			if off := p.QueueSeconds - held; off < -0.05*held || off > o.WindowSeconds+0.05*held {
				t.Errorf("the plan says %.2f s, the queue held windows of %.2f s", p.QueueSeconds, held)
			}
		})
	}
}
