package backoff

import (
	"testing"
	"time"
)

// Waits double up to a bound and begin anew after a success.
func TestWaits(t *testing.T) {
	w := Waits{First: time.Second, Most: 10 * time.Second}
	for i, full := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
		full *= time.Second
		if d := w.Next(); d < full/2 || d > full {
			t.Errorf("wait %d is %v, want %v to %v", i, d, full/2, full)
		}
	}
	w.Good()
	if d := w.Next(); d > time.Second {
		t.Errorf("after a success: %v", d)
	}
	for w := (Waits{First: 1, Most: 1 << 62}); w.Failures() < 200; {
		if d := w.Next(); d <= 0 {
			t.Fatalf("wait %v", d)
		}
	}
}

// The upper half of each wait is random.
func TestWaitIsSpread(t *testing.T) {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	for n := range 70 {
		top := min(first<<min(n, 20), most)
		seen := map[time.Duration]bool{}
		for range 20 {
			d := Wait(n, first, most)
			if seen[d] = true; d < top/2 || d > top {
				t.Fatalf("after %d failures %v, want %v to %v", n, d, top/2, top)
			}
		}
		if len(seen) < 10 {
			t.Errorf("after %d failures %d different waits of 20: many devices would come back at once", n, len(seen))
		}
	}
}
