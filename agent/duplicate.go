package agent

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// duplicates notices other boards with this device's identity by their birth messages: a
// status that this device's key has signed, under a boot epoch that this process does
// not have. A board that was started later is answered with a birth message, so that it
// learns of this one, and so that the evaluator sees both boot epochs in turn.
type duplicates struct {
	mu     sync.Mutex
	own    map[uint64]bool // boot epochs of this process
	heard  bool            // a message of this process came back
	others map[uint64]bool // boot epochs of boards that are online
}

// issued notes a boot epoch under which this process signs.
func (d *duplicates) issued(boot uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own == nil {
		d.own, d.others = map[uint64]bool{}, map[uint64]bool{}
	}
	d.own[boot] = true
}

// note takes a verified status of this device. It reports whether it shows another board
// that was not known, and whether that one was started after this process, which began
// at the time since.
func (d *duplicates) note(m *transport.Meta, online, retained bool, since time.Time) (news, later bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := uint64(0)
	for boot := range d.own {
		newest = max(newest, boot)
	}
	boot := m.BootEpoch
	switch {
	case d.own[boot]:
		d.heard = true
		return false, false
	case !online:
		delete(d.others, boot)
		return false, false
	case boot > newest && retained && !d.heard:
		return false, false // of this board, before its state was lost and its clock set back
	case boot < newest && (!role.ClockIsSet(since) || m.Start <= since.UnixNano()):
		return false, false // of this board, before this start
	}
	news = !d.others[boot]
	d.others[boot] = true
	return news, boot > newest
}

func (d *duplicates) health() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.others) == 0 {
		return ""
	}
	return fmt.Sprintf("another board sends with this device's name and signing key, under boot epoch %d: give one "+
		"of them an identity of its own, with a name, a signing key, a state and a spool that are not copies",
		slices.Max(slices.Collect(maps.Keys(d.others))))
}
