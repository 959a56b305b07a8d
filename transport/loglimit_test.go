package transport

import (
	"testing"
	"time"
)

func TestLogLimit(t *testing.T) {
	var r LogLimit
	epoch := time.Unix(1000, 0)
	count := 0
	for i := range 100 {
		ok, skipped := r.Allow("malformed", epoch.Add(time.Duration(i)*50*time.Millisecond))
		if ok {
			count++
			if want := 19; i > 0 && skipped != want {
				t.Errorf("%d skipped, want %d", skipped, want)
			}
		}
	}
	if count != 5 {
		t.Errorf("%d lines in 5 seconds, want 5", count)
	}
	if ok, _ := r.Allow("truncated", epoch); !ok {
		t.Error("one reason silences another")
	}
	if ok, _ := r.Allow("malformed", epoch); !ok {
		t.Error("a clock that went back silences a reason")
	}
}
