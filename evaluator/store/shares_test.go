package store

import (
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport/spool"
)

// While no results are delivered at all, a full share loses nothing: its windows wait
// with their devices, and programs are given up only when others are read.
func TestShares(t *testing.T) {
	s := newShares(&config.Store{Bytes: 3000, RetryMax: time.Second, ReceiptTimeout: time.Second},
		map[string]string{"a": "t/a", "b": "t/b"})
	now := time.Unix(1000, 0)
	waiting := map[string]spool.StreamStats{}
	put := func(program string, n int) {
		for range n {
			s.begun(program)
			s.made(program, 100)
			w := waiting[program]
			waiting[program] = spool.StreamStats{Objects: w.Objects + 1, Bytes: w.Bytes + 100}
		}
	}
	put("old", 2) // of a program that was removed: it keeps a part
	put("a", 9)
	if s.blocks("a", waiting, now, true) {
		t.Error("blocks with room for one more")
	}
	put("a", 1)
	if s.blocks("a", waiting, now, true) {
		t.Error("no probe although everything else is delivered")
	}
	if !s.blocks("a", waiting, now, true) || s.blocks("b", waiting, now, true) || s.skips("a", waiting) {
		t.Error("a full share: its windows wait, others go on, nothing is skipped")
	}
	put("b", 3)
	s.delivered("b", waiting, now)
	now = now.Add(5 * time.Hour)
	s.delivered("b", waiting, now) // after an outage of everything
	if s.skips("a", waiting) {
		t.Error("given up after one pause")
	}
	for range giveUp {
		now = now.Add(time.Minute)
		s.delivered("b", waiting, now)
	}
	if s.blocks("a", waiting, now, true) || !s.skips("a", waiting) || s.skips("b", waiting) {
		t.Error("an unread program is not given up")
	}
	if w := s.waiting(waiting); !w["a"].Unread || w["a"].Skipped != 1 || w["b"].Unread || w["old"].Results != 2 ||
		w["a"].Share != 1000 {
		t.Errorf("%+v", w)
	}
	s.delivered("a", waiting, now) // somebody reads it after all
	if !s.blocks("a", waiting, now, true) || s.skips("a", waiting) {
		t.Error("a program that is read again loses results")
	}
	// A share that is smaller than one result takes one.
	s.bytes = 30
	if waiting["a"] = (spool.StreamStats{}); s.blocks("a", waiting, now, true) {
		t.Error("no room for the first result")
	}
}
