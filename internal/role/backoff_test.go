package role

import (
	"testing"
	"time"
)

// Waits double up to a bound, at least half of each, and begin anew after a success.
func TestBackoff(t *testing.T) {
	b := Backoff{First: time.Second, Most: 10 * time.Second}
	for i, full := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
		full *= time.Second
		if d := b.Next(); d < full/2 || d > full {
			t.Errorf("wait %d is %v, want %v to %v", i, d, full/2, full)
		}
	}
	b.Good()
	if d := b.Next(); d > time.Second {
		t.Errorf("after a success: %v", d)
	}
	for b := (Backoff{First: 1, Most: 1 << 62}); b.Failures() < 200; {
		if d := b.Next(); d <= 0 {
			t.Fatalf("wait %v", d)
		}
	}
}
