//go:build !evaluatoronly

package main

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/agent/source"
)

// A sample that went into no window does so in sight.
func TestDescribeStream(t *testing.T) {
	if got, want := describeStream(agent.StreamStats{Stats: source.Stats{Samples: 8}, Windows: 2}),
		"8 samples, 0 missing, 2 windows, 0 lost"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := describeStream(agent.StreamStats{
		Stats: source.Stats{MissedTicks: 1, Skipped: 2, Late: 3, Overflow: 4, Outside: 5, ClockSteps: 6}})
	for _, want := range []string{"1 ticks missed", "2 samples left out", "3 too late", "4 too many for a window",
		"5 values out of range", "6 windows cut by the clock"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "64kbit": 64e3, "10Mbit/s": 10e6, "1.5Gbit": 1.5e9,
		"300bit": 300} {
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

// The newest version of the changelog is the one that builds of this tree are based on.
func TestReleaseIsInTheChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^## (\S+) - \d{4}-\d{2}-\d{2}$`).FindStringSubmatch(string(text))
	if found == nil || found[1] != release {
		t.Errorf("the newest version in CHANGELOG.md is %q, in version.go %q", found, release)
	}
	if !strings.Contains(string(text), "\n## Unreleased\n") {
		t.Error("CHANGELOG.md has no section for what is not released")
	}
}

func TestReadVersion(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"},
		{Key: "vcs.time", Value: "2026-01-01T00:00:00Z"}}}
	info.Main.Version = "v1.2.3"
	if v := readVersion(info); v.Version != "v1.2.3" || v.Commit != "abc" || !v.Modified || v.Built == "" {
		t.Errorf("%+v", v)
	}
	for _, made := range []string{"", "(devel)", "v0.0.0-20261123011958-d6c442308bb1",
		"v0.0.0-20261123011958-d6c442308bb1+dirty", "v0.1.1-0.20261123011958-d6c442308bb1"} {
		info.Main.Version = made
		if v := readVersion(info); v.Version != "v"+release+"-dev" {
			t.Errorf("a build of %q calls itself %s", made, v.Version)
		}
	}
	if v := readVersion(nil); v.Version != "v"+release+"-dev" || v.Commit != "" {
		t.Errorf("%+v", v)
	}
	version, commit = "v9", "def"
	defer func() { version, commit = "", "" }()
	if v := readVersion(info); v.Version != "v9" || v.Commit != "def" {
		t.Errorf("the linker's values do not win: %+v", v)
	}
}
