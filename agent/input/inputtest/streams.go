package inputtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
)

// EventStream returns a stream of messages with a time of their own.
func EventStream(lateness time.Duration) config.Stream {
	s := config.Stream{Name: "meter", Lateness: lateness, Params: "edge12-d1",
		Window: config.Window{Every: 10 * time.Second, Samples: 8},
		Events: &config.Events{From: "plant", Time: "ts", TimeFormat: "unix"},
		Channels: []config.Channel{
			{Name: "a", Unit: "V", Range: [2]float64{0, 100},
				Source: &config.Source{Type: config.SourceMQTT,
					Point: config.Point{From: "plant", Topic: "m/+", Path: "v.a"}}},
			{Name: "b", Unit: "A", Range: [2]float64{0, 100}, OnMissing: config.MissingMark, MissingValue: new(0.0),
				Source: &config.Source{Type: config.SourceMQTT, Scale: 10,
					Point: config.Point{From: "plant", Topic: "m/+", Path: "v.b"}}},
		}}
	s.SetDefaults()
	return s
}

// ReplayStream returns a stream over columns a and b.c of a file with this text.
func ReplayStream(t testing.TB, name, text string, edit func(*config.Replay)) config.Stream {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return ReplayOf(path, edit)
}

// ReplayOf returns a stream over columns a and b.c of the file path.
func ReplayOf(path string, edit func(*config.Replay)) config.Stream {
	s := config.Stream{Name: "r", Window: config.Window{Samples: 4}, Params: "edge12-d1",
		Replay: &config.Replay{File: path, Time: "t", Speed: "fast"},
		Channels: []config.Channel{
			{Name: "a", Unit: "V", Range: [2]float64{-10, 10},
				Source: &config.Source{Type: config.SourceReplay, Column: "a"}},
			{Name: "b", Unit: "V", Range: [2]float64{-10, 10},
				Source: &config.Source{Type: config.SourceReplay, Column: "b.c", Scale: 2, Offset: 1}},
		}}
	if edit != nil {
		edit(s.Replay)
	}
	s.SetDefaults()
	return s
}

// Config returns a checked configuration with one stream of temperature, memory
// and load, four samples to a window.
func Config(t testing.TB) *config.Agent {
	t.Helper()
	cfg := &config.Agent{
		Device: "board1", Broker: config.Broker{URL: "tcp://127.0.0.1:1"},
		Keys:       config.AgentKeys{PublicKey: "public.key", Holder: "k7qd2-4mzra-xxb3e-jq6hn-2hvwp"},
		SigningKey: "signing.key", State: t.TempDir() + "/state",
		Streams: []config.Stream{{
			Name: "system", Interval: 100 * time.Millisecond, Window: config.Window{Samples: 4}, Params: "edge12-d1",
			Channels: []config.Channel{
				{Name: "soc", Unit: "degC", Range: [2]float64{-40, 125},
					Source: &config.Source{Type: config.SourceThermal, Zone: "CPU-therm"}},
				{Name: "memory", Unit: "%", Range: [2]float64{0, 100},
					Source: &config.Source{Type: config.SourceMemory}},
				{Name: "load", Unit: "1", Range: [2]float64{0, 64}, Source: &config.Source{Type: config.SourceLoad}},
			},
		}},
	}
	cfg.SetDefaults()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	return cfg
}
