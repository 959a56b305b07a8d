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
// status that this device's key has signed and that this process did not make. A board that
// was started later, or in the same second, is answered with a birth message, so that it
// learns of this one, and so that the evaluator sees both boot epochs in turn.
type duplicates struct {
	mu     sync.Mutex
	own    map[uint64][]issue // by boot epoch of this process, the newest last
	heard  bool               // a message of this process came back
	others map[uint64]bool    // boot epochs of boards that are online
}

// issue is the number of a status that this process made, and when it made it.
type issue struct {
	sequence uint64
	start    int64
}

// maxIssues bounds the statuses that are remembered for each boot epoch. A broker does not
// deliver a status after so many newer ones.
const maxIssues = 32

// issued notes a status that this process makes, before anybody can hear it.
func (d *duplicates) issued(m *transport.Meta) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own == nil {
		d.own, d.others = map[uint64][]issue{}, map[uint64]bool{}
	}
	list := append(d.own[m.BootEpoch], issue{m.Sequence, m.Start})
	d.own[m.BootEpoch] = list[max(len(list)-maxIssues, 0):]
}

// made reports whether this process made a status under one of its boot epochs. What is
// older than all that it remembers counts as its own.
func (d *duplicates) made(m *transport.Meta) bool {
	list := d.own[m.BootEpoch]
	return slices.Contains(list, issue{m.Sequence, m.Start}) || m.Sequence < list[0].sequence
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
	_, same := d.own[boot]
	switch {
	case same && d.made(m):
		d.heard = true
		return false, false
	case !online:
		delete(d.others, boot)
		return false, false
	case boot > newest && retained && !d.heard:
		return false, false // of this board, before its state was lost and its clock set back
	case boot <= newest && (!role.ClockIsSet(since) || m.Start <= since.UnixNano()):
		return false, false // of this board, before this start
	}
	news = !d.others[boot]
	d.others[boot] = true
	return news, boot >= newest
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
