package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected errors in testdata/bad")

const divider = "\n-----\n"

// parseAs parses data as the role that starts the case's file name.
func parseAs(t testing.TB, role string, data []byte) error {
	t.Helper()
	var err error
	switch role {
	case "agent":
		_, err = ParseAgent("config.yaml", data)
	case "evaluator":
		_, err = ParseEvaluator("config.yaml", data)
	case "keyholder":
		_, err = ParseKeyHolder("config.yaml", data)
	default:
		t.Fatalf("unknown role %q", role)
	}
	return err
}

// Each case is a configuration, a line of dashes, and the errors it must give,
// word for word.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 60 {
		t.Fatalf("found %d cases, want at least 60", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(raw), divider)
			role, _, _ := strings.Cut(filepath.Base(file), "-")
			got := parseAs(t, role, []byte(input+"\n"))
			if got == nil {
				t.Fatal("accepted")
			}
			var all *Errors
			if !errors.As(got, &all) || !errors.Is(got, ErrInvalid) {
				t.Fatalf("not an *Errors: %v", got)
			}
			for _, e := range all.List {
				if e.Line < 1 || e.Column < 1 || e.Cause == "" || e.Remedy == "" {
					t.Errorf("incomplete error %+v", e)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(input+divider+got.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.Error()+"\n" != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
