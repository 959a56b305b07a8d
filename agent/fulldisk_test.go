package agent

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A board whose disk is full of windows that wait, or has become read-only, and that is
// switched off and on, starts, delivers what is there, and goes on.
func TestStartOnABadDisk(t *testing.T) {
	for _, trouble := range []string{"full", "read-only"} {
		t.Run(trouble, func(t *testing.T) {
			dir := testenv.Disk(t, "600k")
			cfg := withSpool(t, testConfig(t), filepath.Join(dir, "spool"))
			cfg.State = filepath.Join(dir, "state")
			cfg.Streams[0].Interval = time.Millisecond
			client := &fakeClient{fail: func(topic string) error {
				if strings.Contains(topic, "/up/") {
					return errors.New("broker is away")
				}
				return nil
			}}
			run := func(windows int, stop func(a *Agent)) *Agent {
				t.Helper()
				deps, _ := testDeps(t, client)
				deps.Clock = role.SystemClock()
				ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
				defer cancel()
				seen := 0
				var a *Agent
				deps.Observer = func(Observation) {
					if seen++; seen == windows {
						stop(a)
						cancel()
					}
				}
				cfg.StopTimeout = config.DefaultStopTimeout
				a, err := New(cfg, deps)
				if err != nil {
					t.Fatalf("it does not start: %v", err)
				}
				if client.fail != nil {
					cfg.StopTimeout = 300 * time.Millisecond
				}
				if err := a.Run(ctx); err != nil && !errors.Is(err, ErrUndelivered) {
					t.Fatal(err)
				}
				return a
			}
			first := run(6, func(*Agent) {})
			boot := first.state.Boot()
			if trouble == "full" {
				testenv.Fill(t, filepath.Join(dir, "ballast"))
			} else {
				testenv.ReadOnly(t, dir)
			}
			var health []string
			second := run(4, func(a *Agent) { health = a.Health() })
			if second.state.Boot() <= boot || second.Stats().Spool.Recovered < 6 {
				t.Errorf("boot epoch %d after %d, %+v", second.state.Boot(), boot, second.Stats().Spool)
			}
			if told := strings.Contains(strings.Join(health, "\n"), "state file: "); told != (trouble == "read-only") {
				t.Errorf("health: %q", health)
			}
			client.fail = nil
			third := run(4, func(*Agent) {})
			if left := third.Stats().Spool; left.Objects != 0 {
				t.Errorf("%+v", left)
			}
			readings, _ := opened(t, keysFor(t), "board1", client.messages)
			numbers := map[[2]uint64]bool{}
			for _, o := range readings {
				numbers[[2]uint64{o.Meta.BootEpoch, o.Meta.Sequence}] = true
			}
			if len(readings) < 10 || len(numbers) != len(readings) {
				t.Errorf("%d windows arrived under %d numbers", len(readings), len(numbers))
			}
		})
	}
}
