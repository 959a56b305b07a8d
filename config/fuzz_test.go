package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func seeds(f *testing.F) {
	good, _ := filepath.Glob("examples/*.yaml")
	bad, _ := filepath.Glob("testdata/bad/*.txt")
	if len(good) == 0 || len(bad) == 0 {
		f.Fatal("no seeds: have the directories moved?")
	}
	for _, file := range append(good, bad...) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(data), divider)
		f.Add([]byte(text))
	}
}

// FuzzParse checks that no text crashes a loader, that every mistake has a
// position inside the text and a remedy, and that what is accepted passes its
// own check and stays within the limits that others rely on.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, errA := ParseAgent("f.yaml", data)
		e, errE := ParseEvaluator("f.yaml", data)
		k, errK := ParseKeyHolder("f.yaml", data)
		for _, err := range []error{errA, errE, errK} {
			var all *Errors
			if err == nil {
				continue
			}
			if !errors.As(err, &all) || len(all.List) == 0 {
				t.Fatalf("not an *Errors: %v", err)
			}
			lines := strings.Count(string(data), "\n") + 1
			for _, x := range all.List {
				if x.Line < 1 || x.Line > lines || x.Column < 1 || x.Cause == "" || x.Remedy == "" {
					t.Fatalf("incomplete error %+v", x)
				}
			}
			if all.Error() == "" {
				t.Fatal("no message")
			}
		}
		if errA == nil {
			if err := a.Check(); err != nil {
				t.Fatalf("accepted, then refused: %v", err)
			}
			for _, s := range a.Streams {
				valid(t, s)
			}
		}
		if errE == nil {
			if err := e.Check(); err != nil {
				t.Fatalf("accepted, then refused: %v", err)
			}
			for _, s := range e.Streams {
				valid(t, s.Stream)
			}
			for _, p := range e.Programs {
				for _, ref := range p.Inputs {
					if _, _, err := e.Input(&p, ref); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if errK == nil && k.Check() != nil {
			t.Fatal("accepted, then refused")
		}
	})
}

func valid(t *testing.T, s Stream) {
	if s.Window.Samples < 1 || s.Slots() > MaxSlots || s.Slots() < 1 || len(s.Channels) < 1 {
		t.Fatalf("slots %d of %+v", s.Slots(), s)
	}
	for _, c := range s.Channels {
		if _, half := c.Affine(); !(half > 0) || !finite(half) {
			t.Fatalf("range %v", c.Range)
		}
	}
}
