package config

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// withRange is a configuration whose only channel has a range and a scale.
func withRange(lo, hi, scale string) string {
	return fmt.Sprintf(`device: b
broker: {url: "tls://h:8883"}
keys: {public_key: p.key}
signing_key: s.key
state: st
streams:
  - {name: s, interval: 1s, window: {samples: 8}, params: edge12-d1,
     channels: [{name: c, unit: "1", range: [%s, %s], source: {type: load, scale: %s}}]}
`, lo, hi, scale)
}

// Numbers with an exponent are numbers, with a point or without, as programs print
// them; the same in quotes is text, and what is too large for a number is refused.
func TestExponents(t *testing.T) {
	a, err := ParseAgent("c.yaml", []byte(withRange("-1E3", "5e+08", "1e-06")))
	if err != nil {
		t.Fatal(err)
	}
	ch := a.Streams[0].Channels[0]
	if ch.Range != [2]float64{-1000, 5e8} || ch.Source.Scale != 1e-6 {
		t.Errorf("got %v, %v", ch.Range, ch.Source.Scale)
	}
	for text, want := range map[string]string{`"5e+08"`: "expected a number, found the text", "5e": "expected a number",
		"5e+08V": "expected a number", "5e999": "out of range", "0x5e8e": ""} {
		if _, err := ParseAgent("c.yaml", []byte(withRange("0", text, "1"))); (err == nil) != (want == "") ||
			err != nil &&
				!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// What is written with FormatNumber is read as the same number.
func TestFormatNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 125e6: "125000000", 5e8: "500000000", -40: "-40", 0.0625: "0.0625",
		1e-6: "0.000001", 1e30: "1.0e+30", 5e-324: "5.0e-324"} {
		if got := FormatNumber(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		hi := rapid.Float64Range(1e-12, 1e300).Draw(t, "hi")
		scale := rapid.Float64().Filter(func(v float64) bool {
			return v != 0 && !math.IsInf(v, 0) &&
				!math.IsNaN(v)
		}).Draw(t, "scale")
		a, err := ParseAgent("c.yaml", []byte(withRange("0", FormatNumber(hi), FormatNumber(scale))))
		if err != nil {
			t.Fatal(err)
		}
		if ch := a.Streams[0].Channels[0]; ch.Range[1] != hi || ch.Source.Scale != scale {
			t.Fatalf("got %v and %v", ch.Range[1], ch.Source.Scale)
		}
	})
}
