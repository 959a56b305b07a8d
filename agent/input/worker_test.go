package input

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
)

// Waits grow while an input fails, up to their bound; a success begins them anew and
// leaves no trouble behind.
func TestNote(t *testing.T) {
	var log strings.Builder
	w := worker(&log) // 4 s to a minute
	boom := errors.New("boom")
	for _, most := range []time.Duration{4, 8, 16, 32, 60, 60} {
		if wait := w.Note(boom); wait > most*time.Second || wait < most*time.Second/2 {
			t.Errorf("waits %v, want %v to %v", wait, most*time.Second/2, most*time.Second)
		}
	}
	if !errors.Is(w.Trouble(), boom) {
		t.Errorf("trouble: %v", w.Trouble())
	}
	if wait := w.Note(nil); wait != 0 || w.Trouble() != nil {
		t.Errorf("after a success: waits %v, trouble %v", wait, w.Trouble())
	}
	if wait := w.Note(boom); wait > 4*time.Second {
		t.Errorf("after a success it waits %v", wait)
	}
	if warned, again := strings.Count(log.String(), "level=WARN"),
		strings.Count(log.String(), "works again"); warned != 2 || again != 1 {
		t.Errorf("%d warnings, %d times it works again:\n%s", warned, again, &log)
	}
}

// A text of another kind leaves the quantities as they are that it does not have; what
// matches and is no number is counted as bad.
func TestTakeMatching(t *testing.T) {
	count := new(Counters)
	texts := NewTexts(count)
	add := func(pattern string) *Cell {
		t.Helper()
		c, err := texts.Add(config.Source{Point: config.Point{Pattern: pattern}}, config.Input{MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := add(`A=(\S+)`), add(`B=(\S+)`)
	for _, text := range []string{"A=1", "B=2", "neither", "B=x"} {
		texts.TakeMatching(text)
	}
	if v, _, err := a.Read(t.Context()); v != 1 || err != nil {
		t.Errorf("A: %v, %v", v, err)
	}
	if _, _, err := b.Read(t.Context()); !errors.Is(err, ErrReading) {
		t.Errorf("B: %v", err)
	}
	if values, bad := count.Values.Load(), count.Bad.Load(); values != 2 || bad != 1 {
		t.Errorf("%d values and %d bad ones were counted", values, bad)
	}
}
