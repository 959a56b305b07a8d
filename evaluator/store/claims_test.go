package store

import (
	"path/filepath"
	"testing"
)

// A window that was claimed counts as used once the result is in the outbox, for its program
// alone, over restarts and compactions; and no more is known of it once it has left.
func TestClaims(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := openTestLedger(t, path, 8)
	r := &Results{ledger: l, made: map[[32]byte]bool{}}
	windows := [][32]byte{id(1), id(2), id(3)}
	if err := r.Claim("all", windows); err != nil {
		t.Fatal(err)
	}
	for _, w := range windows {
		if r.Used("all", w) {
			t.Error("a window is used before its result is there")
		}
	}
	// The process ends before the result is there, and then makes one of other windows.
	again := func() {
		t.Helper()
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		l = openTestLedger(t, path, 8)
		r.ledger = l
	}
	again()
	if r.Used("all", windows[0]) {
		t.Error("a window is used by a result that was never there")
	}
	fewer := windows[1:]
	if err := r.Claim("all", fewer); err != nil {
		t.Fatal(err)
	}
	if err := r.Claim("other", windows[:1]); err != nil {
		t.Fatal(err)
	}
	if err := r.FailFleet("all", fewer); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r.Used("all", windows[0]) || !r.Used("all", windows[1]) || !r.Used("all", windows[2]) ||
			r.Used("other", windows[1]) {
			t.Error("other windows are used than the result has")
		}
		again()
	}
	if err := l.add(record{kind: recTaken, id: windows[1], series: [8]byte{1}, boot: 1, number: 1}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if len(l.claims) != 2 || l.claimsOf(windows[1]) != nil {
			t.Errorf("%d windows are claimed", len(l.claims))
		}
		again()
	}
}
