//go:build !evaluatoronly

package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent"
)

// A sample that went into no window does so in sight.
func TestDescribeStream(t *testing.T) {
	if got, want := describeStream(agent.StreamStats{Samples: 8, Windows: 2}), "8 samples, 0 missing, 2 windows, 0 lost"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := describeStream(agent.StreamStats{MissedTicks: 1, Skipped: 2, Late: 3, Overflow: 4, Outside: 5, ClockSteps: 6})
	for _, want := range []string{"1 ticks missed", "2 samples left out", "3 too late", "4 too many for a window", "5 values out of range", "6 windows cut by the clock"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "64kbit": 64e3, "10Mbit/s": 10e6, "1.5Gbit": 1.5e9, "300bit": 300} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%q: %g, %v, want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"64", "fast", "kbit", "-1kbit", "0bit", "NaNbit", "Infbit", "10MB"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q was read as %g", text, got)
		}
	}
}

func TestReadVersion(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-01-01T00:00:00Z"}}}
	info.Main.Version = "v1.2.3"
	if v := readVersion(info); v.Version != "v1.2.3" || v.Commit != "abc" || !v.Modified || v.Built == "" {
		t.Errorf("%+v", v)
	}
	if v := readVersion(nil); v.Version != "development" || v.Commit != "" {
		t.Errorf("%+v", v)
	}
	version, commit = "v9", "def"
	defer func() { version, commit = "", "" }()
	if v := readVersion(info); v.Version != "v9" || v.Commit != "def" {
		t.Errorf("the linker's values do not win: %+v", v)
	}
}
