package yamlx

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestShowDuration(t *testing.T) {
	for d, want := range map[Duration]string{
		time.Second: "1s", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour: "1h", 24 * time.Hour: "24h",
		48 * time.Hour: "2d", 36 * time.Hour: "36h",
		65535 * time.Second: "18h12m15s", 250 * time.Millisecond: "250ms", time.Hour + time.Second: "1h0m1s",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", 0: "0s",
	} {
		got := ShowDuration(d)
		if got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
		if back, err := ParseDuration(got); err != nil || back != d {
			t.Errorf("%s is read as %v, %v", got, back, err)
		}
	}
}

// A suggestion is read as what was meant; where nothing is clear there is none.
func TestMeant(t *testing.T) {
	for text, want := range map[string]string{"1sec": "1s", "5 min": "5m", "10 s": "10s", "2 Hours": "", "2hours": "2h",
		"1.5day": "", "3days": "3d", "x": "", "5": "", "": "", "1 fortnight": ""} {
		if got := meantDuration(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"10M": "10MiB", "1Mib": "1MiB", "4 k": "4KiB", "1gb": "1GB", "5": "",
		"": "", "1 stone": "", "1e999M": ""} {
		if got := meantSize(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{"1B": 1, "112KiB": 114688, "1.5MiB": 1572864, "2 GiB": 2 << 30, "3kB": 3000,
		"3KB": 3000, "1MB": 1e6, "1GB": 1e9, "0B": 0} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %d %v", in, got, err)
		}
	}
	for _, in := range []string{"", "12", "B", "-1B", "1e99GiB", "NaNB", "InfB", "1.5B", "1Kib", "1 K"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%q: accepted as %d", in, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := Size(rapid.Int64Range(0, 1<<40).Draw(t, "size"))
		if got, err := ParseSize(s.String()); err != nil || got != s {
			t.Fatalf("%d -> %s -> %d %v", s, s, got, err)
		}
	})
}
