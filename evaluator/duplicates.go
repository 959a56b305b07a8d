package evaluator

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// duplicates notices two boards that send with one identity: a clone, or a board whose
// state was lost while its clock was wrong. A board leaves its boot epoch for good when it
// starts again. So there are two boards if something was made under an earlier boot epoch
// after a later one had begun:
//
//   - a birth message of an earlier boot epoch after that of a later one;
//   - a window that begins after the boot epoch of a later one, which is the Unix time of
//     that start, where its windows show that the board's clock was right;
//   - a window with a higher number, and a later beginning, than the first of a later boot
//     epoch, since the numbers of a stream go on over the boot epochs of a board.
type duplicates struct {
	mu      sync.Mutex
	streams map[sender]*lineage
	births  map[sender]*births
	told    map[string]bool // devices
}

// sender is who signed a message, and for which stream; none for birth messages.
type sender struct {
	signer         [32]byte
	device, stream string
}

// lineage is the newest boot epoch of a stream.
type lineage struct {
	boot, first uint64 // first sequence number
	start       int64  // of the earliest window
	timed       bool   // the boot epoch is a time of the clock that the windows follow
}

// births are the birth messages of a device.
type births struct {
	boot uint64           // newest
	made int64            // when the first of them was made
	last map[uint64]birth // by boot epoch
}

// birth is the newest message of a boot epoch. late says that the first one came after
// one of a later boot epoch: a broker may have kept it.
type birth struct {
	sequence uint64
	late     bool
}

// skew is how far a device's clock may be ahead of this machine's.
const skew = time.Minute

// note takes an accepted window and reports whether it is another board's, and whether
// that is news.
func (d *duplicates) note(signer [32]byte, m *transport.Meta, now time.Time) (twin, news bool) {
	k := sender{signer, m.Device, m.Stream}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams == nil {
		d.streams = map[sender]*lineage{}
	}
	began := func(boot uint64) int64 { return time.Unix(int64(min(boot, 1<<33)), 0).UnixNano() }
	past := m.Start <= now.Add(skew).UnixNano()
	timed := past && m.End >= began(m.BootEpoch)
	l := d.streams[k]
	switch {
	case l == nil || m.BootEpoch > l.boot:
		d.streams[k] = &lineage{m.BootEpoch, m.Sequence, m.Start, timed}
	case m.BootEpoch == l.boot:
		l.first, l.start, l.timed = min(l.first, m.Sequence), min(l.start, m.Start), l.timed || timed
	case m.Sequence > l.first && m.Start > l.start,
		l.timed && past && m.Start > began(l.boot+1):
		return true, d.tell(m.Device)
	}
	return false, false
}

// birth takes a birth message and does the same.
func (d *duplicates) birth(signer [32]byte, m *transport.Meta) (twin, news bool) {
	k := sender{signer, m.Device, ""}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.births == nil {
		d.births = map[sender]*births{}
	}
	b := d.births[k]
	if b == nil {
		b = &births{last: map[uint64]birth{}}
		d.births[k] = b
	}
	before, known := b.last[m.BootEpoch]
	if known && m.Sequence <= before.sequence {
		return false, false
	}
	earlier := m.BootEpoch < b.boot
	b.last[m.BootEpoch] = birth{m.Sequence, before.late || !known && earlier}
	if len(b.last) > maxBirths {
		delete(b.last, slices.Min(slices.Collect(maps.Keys(b.last))))
	}
	switch {
	case m.BootEpoch > b.boot:
		b.boot, b.made = m.BootEpoch, m.Start
	case earlier && (known && !before.late || m.Start > b.made):
		return true, d.tell(m.Device)
	}
	return false, false
}

// maxBirths bounds the boot epochs of a device that are remembered.
const maxBirths = 16

// tell reports whether nobody was told of a device yet; mu is held.
func (d *duplicates) tell(device string) bool {
	if d.told[device] {
		return false
	}
	if d.told == nil {
		d.told = map[string]bool{}
	}
	d.told[device] = true
	return true
}

// devices returns the devices that have a second board.
func (d *duplicates) devices() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.told))
}
