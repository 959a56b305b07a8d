package plan

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// TestPlanOfCompactStreams: bytes, keys, memory and precision of compact windows, alone and beside others.
func TestPlanOfCompactStreams(t *testing.T) {
	plan := func(streams ...config.Stream) *Prediction {
		t.Helper()
		cfg := inputtest.Config(t)
		dir := t.TempDir()
		cfg.Keys.PublicKey, cfg.SigningKey = "", filepath.Join(dir, "signing.key")
		for i := range streams {
			if streams[i].Mode == config.ModeCompact {
				cfg.Keys.BoardKey = filepath.Join(dir, "board.key")
			} else {
				cfg.Keys.PublicKey = filepath.Join(dir, "public.key")
			}
			streams[i].SetDefaults()
		}
		cfg.Streams = streams
		cfg.Queue.Bytes = 4 * config.MiB
		p, err := Predict(cfg, Options{Machine: sensor.Machine{Root: "../testdata/board", Clock: testrig.NewClock(),
			Log: testrig.Quiet()}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Refusals) > 0 || !p.KeyAbsent {
			t.Errorf("%+v", p)
		}
		return p
	}
	compact := inputtest.Config(t).Streams[0]
	compact.Mode, compact.Params, compact.Packing, compact.Name = config.ModeCompact, "boot16", "", "small"
	compact.Precision, compact.Window.Samples, compact.Channels = 16, 64, compact.Channels[:1]
	plain := inputtest.Config(t).Streams[0]
	plain.Params, plain.Level = "boot16", new(0)

	alone := plan(compact)
	s := alone.Streams[0]
	if alone.KeyMode != "compact" || alone.KeyBytes != 0 || alone.BoardKeyBytes < 1000 || alone.Params != "boot16" ||
		s.Precision != 16 || s.Readings != 64 || s.BodyBytes != 190 || s.WireBytes > 400 || s.Chunks != 1 {
		t.Errorf("%+v", alone)
	}
	if c := s.Channels[0]; c.Bound != 165.0/2*math.Exp2(-16) || c.Error <= 0 || c.Error > c.Bound {
		t.Errorf("%+v", c)
	}
	if alone.MemoryBytes > 40<<20 {
		t.Errorf("%d bytes of memory", alone.MemoryBytes)
	}
	both := plan(compact, plain)
	if both.KeyMode != "public" || both.KeyBytes < 1<<20 || both.BoardKeyBytes != alone.BoardKeyBytes ||
		both.Streams[0].WireBytes != s.WireBytes || both.Streams[1].Precision != 0 ||
		both.MemoryBytes < alone.MemoryBytes+1<<20 {
		t.Errorf("%+v", both)
	}
	if err := both.Needs(ProgramNeeds{Streams: map[string]LevelNeed{"small": {Programs: []string{"p"}, Accepts: 3}},
		Object: 64 << 20}); err != nil || len(both.Refusals) > 0 || both.Streams[0].Programs[0] != "p" {
		t.Errorf("%v, %q", err, both.Refusals)
	}
}
