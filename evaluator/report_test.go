package evaluator

import (
	"testing"
	"time"
)

func TestReportsAreLimited(t *testing.T) {
	var r reporter
	count := 0
	for i := range 100 {
		ok, skipped := r.allow("malformed", epoch.Add(time.Duration(i)*50*time.Millisecond))
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
	if ok, _ := r.allow("truncated", epoch); !ok {
		t.Error("one reason silences another")
	}
	if ok, _ := r.allow("malformed", epoch); !ok {
		t.Error("a clock that went back silences a reason")
	}
}
