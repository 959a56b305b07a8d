package evaluator

import (
	"sync"

	"github.com/hencedge/hencedge/transport"
)

// twins notices two boards that send with one identity. The sequence numbers of a
// stream go on over the boot epochs of a board, and what it made under an earlier one
// is older than what it makes under a later one. So a window of an earlier boot epoch
// that has a higher number, and that begins later, than the first of a later boot epoch
// comes from a second board: a clone, or the same one with a state that was lost while
// its clock was wrong.
type twins struct {
	mu      sync.Mutex
	streams map[[8]byte]*lineage // by series
}

// lineage is the newest boot epoch of a stream.
type lineage struct {
	boot, first uint64 // first sequence number
	start       int64  // of the earliest window
	told        bool
}

// note takes an accepted window and reports whether it is another board's, and whether
// that is news.
func (t *twins) note(signer [32]byte, m *transport.Meta) (twin, news bool) {
	k := seriesOf(signer, m.Device, m.Stream)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = map[[8]byte]*lineage{}
	}
	l := t.streams[k]
	switch {
	case l == nil || m.BootEpoch > l.boot:
		t.streams[k] = &lineage{boot: m.BootEpoch, first: m.Sequence, start: m.Start, told: l != nil && l.told}
	case m.BootEpoch == l.boot:
		l.first, l.start = min(l.first, m.Sequence), min(l.start, m.Start)
	case m.Sequence > l.first && m.Start > l.start:
		news, l.told = !l.told, true
		return true, news
	}
	return false, false
}
