package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRequired(t *testing.T) {
	for _, c := range []struct {
		tools, backends, need string
		is, wrong             bool
	}{
		{"", "", "root", false, false},
		{"root", "", "root", true, false},
		{"pty, root,", "cuda", "root", true, false},
		{"systemd-boot", "", "systemd-analyze", false, false},
		{"g++", "", "gcc", false, false},
		{"", "avx512", "avx512", true, false},
		{"", "avx512", "avx2", false, false},
		{"mosquito", "", "mosquitto", false, true},
		{"cuda", "", "cuda", true, true}, // a name of the other variable
	} {
		t.Setenv("HENCEDGE_TEST_REQUIRE", c.tools)
		t.Setenv("CUTRANTT_TEST_REQUIRE", c.backends)
		if is, err := required(c.need); is != c.is || (err != nil) != c.wrong {
			t.Errorf("%+v: %v, %v", c, is, err)
		}
	}
}

// TestDocumented: CONTRIBUTING.md lists each name.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What tests need\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && strings.Contains(cells[1], "`") {
			for i, word := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					rows = append(rows, word)
				}
			}
		}
	}
	slices.Sort(rows)
	if want := names["HENCEDGE_TEST_REQUIRE"]; !slices.Equal(rows, want) {
		t.Errorf("the table has %q, want %q", rows, want)
	}
	for _, name := range names["CUTRANTT_TEST_REQUIRE"] {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("nothing about %s", name)
		}
	}
}

// ended is a test that tells how it ended.
type ended struct {
	testing.TB
	fatal, skipped bool
}

func (e *ended) Helper()            {}
func (e *ended) Log(...any)         {}
func (e *ended) Fatal(...any)       { e.fatal = true; panic(e) }
func (e *ended) SkipNow()           { e.skipped = true; panic(e) }
func (e *ended) run(f func(*ended)) { defer func() { _ = recover() }(); f(e) }

func TestMissing(t *testing.T) {
	for _, c := range []struct {
		require                string
		missing                bool // Missing, not Without
		wantFatal, wantSkipped bool
	}{
		{"", true, false, true},
		{"gcc", true, false, true},
		{"root", true, true, false},
		{"", false, false, false},
		{"root", false, true, false},
		{"rot", false, true, false},
	} {
		t.Setenv("HENCEDGE_TEST_REQUIRE", c.require)
		e := &ended{}
		e.run(func(e *ended) {
			if c.missing {
				Missing(e, "root", "not root")
			} else {
				Without(e, "root", "not root")
			}
		})
		if e.fatal != c.wantFatal || e.skipped != c.wantSkipped {
			t.Errorf("%+v: failed %v, skipped %v", c, e.fatal, e.skipped)
		}
	}
}
