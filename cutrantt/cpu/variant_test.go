package cpu

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

func TestVariants(t *testing.T) {
	names := Variants()
	if names[len(names)-1] != generic {
		t.Errorf("variants %v do not end with plain Go", names)
	}
	for _, name := range names {
		b, err := NewVariant(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.(backend).variant(); got != name || b.Name() != "cpu" {
			t.Errorf("variant %s calls itself %s of %s", name, got, b.Name())
		}
	}
	if _, err := NewVariant("avx9"); !errors.Is(err, cutrantt.ErrNotSupported) {
		t.Errorf("a variant that does not exist: %v", err)
	}
	want := os.Getenv(VariantVariable)
	if want == "" {
		want = names[0]
	}
	if b := New().(backend); slices.Contains(names, want) != (b.err == nil) || b.err == nil && b.variant() != want {
		t.Errorf("New runs %s (%v), want %s", b.variant(), b.err, want)
	}
	failed := backend{err: cutrantt.ErrNotSupported}
	if _, err := failed.NewRing(10, testModuli(t, 10, 1), cutrantt.Options{}); !errors.Is(err,
		cutrantt.ErrNotSupported) {
		t.Errorf("a ring of a variant that is not there: %v", err)
	}
}
