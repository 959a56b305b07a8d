package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// What no board can do is refused, each with its reason; what it can do is not.
func TestPlanRefusesTheImpossible(t *testing.T) {
	small := sensor.Machine{Root: t.TempDir(), Clock: testrig.NewClock()}
	if err := os.MkdirAll(filepath.Join(small.Root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(small.Root, "proc/meminfo"),
		[]byte("MemTotal: 65536 kB\nMemAvailable: 60000 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Prediction, *config.Agent)
		want   string
	}{
		"nothing": {func(*Prediction, *config.Agent) {}, ""},
		"windows too slow": {func(p *Prediction, _ *config.Agent) { p.Streams[0].SealMs = 500 },
			"stream system: a window takes 0.5 s to encrypt and seal on this machine, and one is due every 0.4 s"},
		"samples too slow": {func(p *Prediction, _ *config.Agent) { p.Streams[0].SampleMs = 120 },
			"reading its sensors takes 120 ms and a sample is due every 100ms"},
		"memory": {func(p *Prediction, _ *config.Agent) { p.MemoryBytes = 100 << 20 },
			"about 100 MiB of memory and this machine has 64"},
		"two processors": {func(p *Prediction, _ *config.Agent) { p.CPU, p.Processors = 1.9, 2 }, ""},
		"no more than two": {func(p *Prediction, _ *config.Agent) { p.CPU, p.Processors = 2.1, 2 },
			"take 105 % of the processors"},
		"a disk of its own": {func(_ *Prediction,
			cfg *config.Agent) {
			cfg.Spool = &config.Spool{Dir: small.Root, Bytes: 1 << 50}
		}, "spool.bytes is 1048576GiB and the disk of"},
		"another machine's": {func(_ *Prediction,
			cfg *config.Agent) {
			cfg.Spool = &config.Spool{Dir: "/no/such", Bytes: 1 << 50}
		}, ""},
	} {
		cfg := inputtest.Config(t)
		p := &Prediction{Processors: 1, CPU: 0.1, MemoryBytes: 20 << 20,
			Streams: []StreamOutlook{{Name: "system", WindowSeconds: 0.4, SealMs: 2, SampleMs: 1}}}
		c.change(p, cfg)
		p.judge()
		p.inTime(cfg)
		p.machine(cfg, small)
		if got := strings.Join(p.Refusals, "\n"); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Times are of this machine, medians, and what is absent is told; inputs are not asked.
func TestPlanMeasures(t *testing.T) {
	var slept time.Duration
	clock := testrig.NewClock()
	began, n := clock.Mono(), 0
	got, err := measured(clock, func() error { n++; time.Sleep(2 * time.Millisecond); return nil })
	if slept = clock.Mono() - began; err != nil || n != planRuns || slept != planRuns*planPause ||
		got.wall < 2*time.Millisecond || got.cpu < 0 {
		t.Errorf("%+v, %v, %d runs, slept %v", got, err, n, slept)
	}
	cfg := inputtest.Config(t)
	cfg.Streams[0].Channels[0].Source.Zone = "reactor"
	s := &seal.Stream{Config: cfg.Streams[0]}
	took, absent := sampling(s, sensor.Machine{Root: "../testdata/board", Clock: clock})
	if took.wall <= 0 || len(absent) != 1 || !strings.Contains(absent[0], "reactor") {
		t.Errorf("%+v, %q", took, absent)
	}
	s.Config.Replay = &config.Replay{}
	if took, absent := sampling(s, sensor.Machine{Root: "../testdata/board", Clock: clock}); took != (cost{}) ||
		absent != nil {
		t.Errorf("a replay: %+v, %q", took, absent)
	}
}

// No example is one that cannot work, wherever the plan is made: what is not there is a
// warning.
func TestPlansOfExamples(t *testing.T) {
	files, err := filepath.Glob("../../config/examples/agent*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d examples: %v", len(files), err)
	}
	for _, file := range files {
		cfg, err := config.LoadAgent(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Predict(cfg, Options{Machine: sensor.Machine{Root: "../testdata/board", Clock: testrig.NewClock(),
			Log: testrig.Quiet()}}, 0)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(p.Refusals) > 0 || len(p.Streams) != len(cfg.Streams) {
			t.Errorf("%s: %q", file, p.Refusals)
		}
	}
}
