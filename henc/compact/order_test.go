package compact_test

import (
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc/compact"
)

// TestOrder: by hand, and its own inverse.
func TestOrder(t *testing.T) {
	for _, c := range []struct{ count, slot, sent, readings int }{
		{0, 0, 0, 64}, {1, 0, 0, 64}, {3, 1, 16, 64}, {3, 2, 8, 64}, {64, 1, 16, 64},
		{64, 31, 31, 64}, {64, 32, 32, 64},
		{64, 33, 48, 64}, {64, 38, 44, 64}, {65, 1, 32, 128}, {65, 64, 64, 128},
	} {
		x := make([]float64, c.count)
		for i := range x {
			x[i] = float64(i + 1)
		}
		sent, want := compact.Order(x), 0.0
		if c.count > 0 {
			want = x[c.slot]
		}
		if len(sent) != c.readings || sent[c.sent] != want {
			t.Errorf("%d values: slot %d is not reading %d of %v", c.count, c.slot, c.sent, sent)
		}
		again := compact.Order(sent)
		rest := func(v float64) bool { return v != 0 }
		if !slices.Equal(again[:c.count], x) || slices.ContainsFunc(again[c.count:], rest) {
			t.Errorf("%d values come back as %v", c.count, again)
		}
	}
}
