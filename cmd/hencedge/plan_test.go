//go:build !evaluatoronly

package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/benchmark"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/demo"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
)

// within fails when a prediction is more than a fifth off.
func within(t *testing.T, what string, predicted, measured float64) {
	t.Helper()
	t.Logf("%s: predicted %.6g, measured %.6g", what, predicted, measured)
	if !(math.Abs(predicted-measured) <= 0.2*measured) {
		t.Errorf("%s: predicted %g, measured %g", what, predicted, measured)
	}
}

// What plan says of a configuration like the demo's is what the demo measures, for
// several parameter sets and windows: sizes, counts and slots. Times are told, not
// judged.
func TestPlanPredictsTheDemo(t *testing.T) {
	for _, c := range []struct {
		params           string
		samples, windows int
	}{{"edge13-d3", 8, 3}, {"edge13-d2p", 16, 2}, {"std14-d5", 32, 2}} {
		t.Run(c.params, func(t *testing.T) { planAndDemo(t, c.params, c.samples, c.windows) })
	}
}

func planAndDemo(t *testing.T, params string, samples, count int) {
	const interval = 10 * time.Millisecond
	var cast demo.Cast
	var bytes, encrypt []float64
	windows := map[int]bool{}
	summary, err := demo.Run(t.Context(), demo.Options{Windows: count, Params: params, Samples: samples,
		Interval: interval,
		OnStart:  func(c demo.Cast) { cast = c },
		OnRow: func(r demo.Row) error {
			if !windows[r.Window] {
				windows[r.Window] = true
				bytes, encrypt = append(bytes, float64(r.Uploaded)), append(encrypt, r.Encrypt)
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if cast.Params != params || len(bytes) != count {
		t.Fatalf("%d windows of %s", len(bytes), cast.Params)
	}
	cfg := &config.Agent{Device: "edge1", Broker: config.Broker{URL: "tcp://127.0.0.1:1"},
		Keys:       config.AgentKeys{PublicKey: "none.key"},
		SigningKey: "none.key", State: filepath.Join(t.TempDir(), "state"),
		Streams: []config.Stream{{Name: "sensors", Interval: interval, Window: config.Window{Samples: samples},
			Params: cast.Params}}}
	for _, ch := range cast.Channels {
		cfg.Streams[0].Channels = append(cfg.Streams[0].Channels,
			config.Channel{Name: ch.Name, Unit: "1", Range: ch.Range, Source: &config.Source{Type: config.SourceLoad}})
	}
	cfg.SetDefaults()
	p, err := plan.Predict(cfg, plan.Options{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	o := p.Streams[0]
	for _, b := range bytes {
		within(t, "bytes of a window", float64(o.ObjectBytes), b)
	}
	within(t, "bytes of all windows", float64(count)*float64(o.ObjectBytes), float64(summary.Uploaded))
	within(t, "messages of a window", float64(o.Chunks), math.Ceil(bytes[0]/float64(config.DefaultChunkSize)))
	within(t, "seconds of a window", o.WindowSeconds, float64(samples)*interval.Seconds())
	within(t, "bytes a day", o.BytesPerDay, bytes[0]*86400/o.WindowSeconds)
	within(t, "slots", float64(o.SlotsUsed), float64(len(cast.Channels)*samples))
	for i, ch := range o.Channels {
		if ch.Name != cast.Channels[i].Name || !(ch.Bound > ch.Error) || !(ch.Error > 0) {
			t.Errorf("channel %+v", ch)
		}
	}
	if !(o.SealMs >= o.EncryptMs && o.EncryptMs > 0 && o.Duty > 0 && p.CPU == o.Duty && p.KeyAbsent && p.KeyBytes > 0) {
		t.Errorf("got %+v", p)
	}
	t.Logf("encryption: predicted %.2f ms, measured %.2f ms", o.EncryptMs, encrypt)
}

// The size of a window's ciphertext by plan is that of the ciphertexts that bench
// makes, under a public and under a symmetric key.
func TestPlanPredictsTheBench(t *testing.T) {
	for _, params := range []string{"edge12-d1", "edge13-d3", "edge13-d2p", "std14-d5"} {
		set, err := henc.Named(params)
		if err != nil {
			t.Fatal(err)
		}
		size, took := map[string]int{}, map[string]float64{}
		options := benchmark.Options{Backend: cpu.New(), Params: []henc.Parameters{set},
			Ops: []string{"henc_pk", "henc_seeded"}, MinTime: time.Millisecond, Cached: true}
		if err := benchmark.Run(t.Context(), options, func(r benchmark.Record) error {
			size[r.Op], took[r.Op] = r.CiphertextBytes, r.MedianUS/1e3
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for op, keys := range map[string]config.AgentKeys{
			"henc_pk":     {PublicKey: "none.key"},
			"henc_seeded": {Mode: config.KeyModeSymmetric, SecretKey: "none.key"},
		} {
			cfg := &config.Agent{Device: "edge1", Broker: config.Broker{URL: "tcp://127.0.0.1:1"}, Keys: keys,
				SigningKey: "none.key", State: filepath.Join(t.TempDir(), "state"),
				Streams: []config.Stream{{Name: "s", Interval: time.Second, Window: config.Window{Samples: 8},
					Params: params,
					Channels: []config.Channel{{Name: "load", Unit: "1", Range: [2]float64{0, 100},
						Source: &config.Source{Type: config.SourceLoad}}}}}}
			cfg.SetDefaults()
			p, err := plan.Predict(cfg, plan.Options{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			within(t, params+", "+op+": bytes of a ciphertext", float64(p.Streams[0].BodyBytes), float64(size[op]))
			within(t, params+", "+op+": MQTT messages of a window", float64(p.Streams[0].Chunks),
				math.Ceil(float64(size[op])/float64(config.DefaultChunkSize)))
			t.Logf("%s, %s: predicted %.3f ms for an encryption, after a pause; %.3f ms one after the other", params,
				op,
				p.Streams[0].EncryptMs, took[op])
		}
	}
}

// The examples of agent and evaluator: what the programs need is found, and a
// stream that is packed differently is told.
func TestProgramNeeds(t *testing.T) {
	const dir = "../../config/examples/"
	cfg, err := config.LoadAgent(dir + "agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dir + "evaluator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "evaluator.yaml")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(text))
	needs, err := programNeeds(cfg, file)
	if err != nil {
		t.Fatal(err)
	}
	n := needs.Streams["system"]
	if len(n.Programs) == 0 || n.Level < 0 || n.Level > n.Accepts || n.Accepts != 3 {
		t.Errorf("got %+v", needs)
	}
	if k := needs.Keys; needs.Object != 4<<20 || k.Count == 0 || k.Bytes < int64(k.Count)<<10 ||
		k.Count != len(k.Rotations)+map[bool]int{true: 1}[k.Relinearise] {
		t.Errorf("got %+v", needs)
	}
	// A sum needs no level at all, a product one.
	one := func(expr string) plan.LevelNeed {
		t.Helper()
		from := strings.Index(string(text), "programs:")
		write(string(text)[:from] + "programs:\n  - {name: p, expr: " + expr + ", inputs: {x: board1/system/cpu}}\n")
		needs, err := programNeeds(cfg, file)
		if err != nil {
			t.Fatal(err)
		}
		return needs.Streams["system"]
	}
	if sum, square := one("x + 1"), one("x*x"); sum.Level != 0 || square.Level < 1 || square.Level > 2 {
		t.Errorf("x+1 needs level %d, x*x level %d", sum.Level, square.Level)
	}
	write(strings.Replace(string(text), "samples: 64", "samples: 32", 1))
	if _, err := programNeeds(cfg, file); err == nil || !strings.Contains(err.Error(), "packed differently") {
		t.Errorf("got %v", err)
	}
}
