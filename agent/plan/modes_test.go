package plan

import (
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// TestModes: the smallest parameters of each mode hold the window, and the advice names the
// mode that takes fewer bytes than the one in use.
func TestModes(t *testing.T) {
	channel := func(resolution float64) config.Channel {
		return config.Channel{Name: "c", Unit: "%", Range: [2]float64{0, 100}, Resolution: resolution}
	}
	for name, c := range map[string]struct {
		mode            config.Mode
		params          string
		samples         int
		resolution      float64
		plain, binned   string
		bins            int
		seeded          bool
		advice, nothing string
	}{
		"many samples": {config.ModeSamples, "edge13-d3", 4096, 0, "edge13-d2p", "edge12-d1", 1024, false,
			"mode: histogram with up to 1024 bins under edge12-d1 takes 57440 instead of 122976 bytes", ""},
		"few samples": {config.ModeSamples, "edge12-d1", 64, 0, "edge12-d1", "edge12-d1", 1024, true, "", "x"},
		"counts":      {config.ModeHistogram, "edge12-add", 4096, 0.5, "edge13-d2p", "edge12-d1", 200, false, "", "x"},
		"large counts": {config.ModeHistogram, "edge13-d3", 4096, 0.5, "edge13-d2p", "edge12-d1", 200, false,
			"edge12-d1 at level 1 holds the 200 bins in 57440 instead of 122976 bytes", ""},
		"many bins, few samples": {config.ModeHistogram, "edge13-d3", 16, 0.05, "edge12-d1", "edge13-d2p", 2000, false,
			"but has no exact counts", ""},
	} {
		s := config.Stream{Name: "s", Mode: c.mode, Params: c.params, Window: config.Window{Samples: c.samples},
			Channels: []config.Channel{channel(c.resolution)}}
		s.SetDefaults()
		p, err := henc.Named(c.params)
		if err != nil {
			t.Fatal(err)
		}
		level := 0
		o := &StreamOutlook{BodyBytes: p.CiphertextBytes(level, c.seeded)}
		o.modes(s, c.seeded)
		if len(o.Modes) != 2 {
			t.Fatalf("%s: %+v", name, o.Modes)
		}
		plain, binned := o.Modes[0], o.Modes[1]
		if plain.Params != c.plain || binned.Params != c.binned || binned.Bins != c.bins ||
			!holds(t, plain, s.Window.Samples) || !holds(t, binned, 2*binned.Bins) {
			t.Errorf("%s: %+v", name, o.Modes)
		}
		if !strings.Contains(o.Advice, c.advice) || c.nothing != "" && o.Advice != "" {
			t.Errorf("%s: advice %q", name, o.Advice)
		}
	}
}

// holds reports whether parameters have the slots, and the bytes that were told.
func holds(t *testing.T, m ModeOutlook, slots int) bool {
	t.Helper()
	p, err := henc.Named(m.Params)
	if err != nil {
		t.Fatal(err)
	}
	return p.Slots() >= slots && (m.Bytes == p.CiphertextBytes(m.Level, false) ||
		m.Bytes == p.CiphertextBytes(m.Level, true))
}
