package seal

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
)

// Without the disk the boot epoch is that of the clock, or, where the clock is behind
// what was used before, one that is drawn beyond that. Any other error is one.
func TestStateWithoutTheDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	full := func(string, []byte) error { return unix.ENOSPC }
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if _, err := openStateWith(path, "d", now,
		func(string, []byte) error { return errors.New("no such directory") }); !errors.Is(err, ErrState) {
		t.Errorf("another error: %v", err)
	}
	s, err := openStateWith(path, "d", now.Add(time.Hour), durable.WriteState)
	if err != nil || s.Health() != nil || s.Close() != nil {
		t.Fatal(err)
	}
	used := s.Boot()
	drawn := map[uint64]bool{}
	for _, wrong := range []time.Time{now, time.Unix(50, 0), now, time.Unix(60, 0), now} {
		s, err := openStateWith(path, "d", wrong, full)
		if err != nil || s.Boot() <= used || s.Boot() > used+3600 || s.Health() == nil {
			t.Fatalf("a clock behind the last start: boot epoch %d after %d, %v", s.Boot(), used, err)
		}
		drawn[s.Boot()] = true
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(drawn) < 3 {
		t.Errorf("%d of 5 boot epochs differ", len(drawn))
	}
	if s, err = openStateWith(path, "d", now.Add(2*time.Hour), full); err != nil || s.Health() == nil {
		t.Fatal(err)
	}
	for n := range uint64(3 * SequenceBlock) { // far beyond what was reserved
		if got, err := s.Take("a"); err != nil || got != n {
			t.Fatalf("number %d: %d, %v", n, got, err)
		}
	}
	s.disk.Write = durable.WriteState
	if _, err := s.Take("b"); err != nil || s.Health() != nil {
		t.Errorf("the disk works again: %v, %v", err, s.Health())
	}
	if f, err := ReadState(path, "d"); err != nil || f.BootEpoch != uint64(now.Add(2*time.Hour).Unix())+1 ||
		f.Reserved["a"] < 3*SequenceBlock {
		t.Errorf("%+v, %v", f, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
