package config

import (
	"strings"
	"testing"
)

// TestCompactStream: what follows from the mode, and that the layout has it.
func TestCompactStream(t *testing.T) {
	stream := func(mode Mode, precision int) Stream {
		s := Stream{Name: "s", Mode: mode, Precision: precision, Params: "boot15", Window: Window{Samples: 60},
			Channels: []Channel{{Name: "c", Unit: "%", Range: [2]float64{0, 100}}}}
		s.SetDefaults()
		return s
	}
	seen := map[[32]byte]bool{}
	for _, c := range []struct {
		s                   Stream
		precision, readings int
	}{{stream("", 0), 0, 64}, {stream(ModeCompact, 0), 12, 64}, {stream(ModeCompact, 16), 16, 64}} {
		if c.s.Compact() != c.precision || c.s.Readings() != c.readings {
			t.Errorf("%+v: precision %d, %d readings", c.s, c.s.Compact(), c.s.Readings())
		}
		seen[c.s.LayoutHash()] = true
	}
	if len(seen) != 3 {
		t.Errorf("three modes have %d layouts", len(seen))
	}
	for samples, want := range map[int]int{1: 64, 64: 64, 65: 128, 4096: 4096, 5000: 4096} {
		s := stream(ModeCompact, 12)
		if s.Window.Samples = samples; s.Readings() != want {
			t.Errorf("%d samples are %d readings, want %d", samples, s.Readings(), want)
		}
	}
}

func TestCompactStreamRefuses(t *testing.T) {
	const file = `
version: 1
name: e
keys: {holder: none}
state: /tmp/e.state
signing_key: /tmp/e.key
key_sets: [/tmp/k]
broker: {url: mqtts://h}
devices: [{name: d, public_key: KEY}]
programs: [{name: p, expr: mean(x), inputs: {x: d/s/c}}]
streams:
  - {device: d, name: s, params: PARAMS, window: {samples: SAMPLES}, MORE, channels: [{name: c, unit: V, range: [0,1]}]}
`
	key := testKey(1)
	for more, want := range map[string]string{
		"mode: compact":                             "",
		"mode: compact, precision: 16":              "",
		"mode: compact, precision: 13":              "12",
		"precision: 12":                             "only compact windows have a precision",
		"mode: compact, places: 4":                  "the evaluator chooses the places",
		"mode: compact, log_scale: 30":              "a scale of their own",
		"mode: compact, level: 0":                   "have no level",
		"mode: compact PARAMS edge12-d1":            "which edge12-d1 cannot do",
		"mode: compact SAMPLES 4097":                "has at most 4096",
		"mode: compact, precision: 12 SAMPLES 4096": "",
	} {
		text, params, samples := more, "boot15", "64"
		if at := strings.Index(text, " PARAMS "); at >= 0 {
			text, params = text[:at], text[at+8:]
		} else if at := strings.Index(text, " SAMPLES "); at >= 0 {
			text, samples = text[:at], text[at+9:]
		}
		doc := strings.NewReplacer("KEY", key, "PARAMS", params, "SAMPLES", samples, "MORE", text).Replace(file)
		_, err := ParseEvaluator("e.yaml", []byte(doc))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", more, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}
