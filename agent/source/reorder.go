package source

import (
	"slices"
	"time"
)

// maxWaiting bounds the rows that wait to be put in order. When there are more, the
// oldest is released early, and rows that are older than it are late from then on.
const maxWaiting = 1 << 16

// A time that is off by more than leap is believed only after leapRows such rows in a
// row: then the device's clock was set. Fewer are taken as mistakes in single messages.
const (
	leap     = time.Hour // at least config.MaxLateness
	leapRows = 8
)

// reorder sorts rows by time. A row waits until a row arrives that is newer by at least
// the lateness; then it is released. A row that is older than a released row is late.
// Rows of the same time keep the order in which they arrived.
//
// A single row from the far future would make all rows after it late. Rows with
// implausible times are therefore held back: those more than leap older than the last
// released row, and those more than leap ahead of the newest row plus the time that has
// passed since it arrived (only where now is set). The next plausible row shows that the
// held rows were mistakes, and they count as late. After leapRows of them in a row, a new
// order begins with them.
//
// Every row is either released exactly once or counted as late.
type reorder struct {
	lateness time.Duration
	most     int                  // bound of waiting; 0: maxWaiting
	now      func() time.Duration // monotonic time of arrival; nil: rows are not live

	waiting []Row // by time
	newest  time.Time
	arrived time.Duration // when newest arrived
	gone    time.Time     // time of the last released row
	any     bool          // a row was released

	held  []Row // rows with implausible times, in the order of arrival
	ahead bool  // held rows are too far in the future, not in the past
}

// add takes a row. It returns the rows that it releases, and how many rows of this and
// earlier calls have turned out to be late.
func (o *reorder) add(r Row) (ready []Row, late int) {
	past := o.any && r.At.Before(o.gone.Add(-leap))
	future := o.future(r.At)
	if past || future {
		if len(o.held) > 0 && o.ahead != future {
			late = o.refuse()
		}
		o.held, o.ahead = append(o.held, r), future
		if len(o.held) < leapRows {
			return nil, late
		}
		return o.restart(), late
	}
	late = o.refuse()
	if o.any && r.At.Before(o.gone) {
		return nil, late + 1
	}
	return o.sort(r), late
}

// future reports whether a time is implausibly far ahead of the newest row.
func (o *reorder) future(at time.Time) bool {
	if o.now == nil || !o.any && len(o.waiting) == 0 {
		return false
	}
	return at.After(o.newest.Add(o.now() - o.arrived + leap))
}

// refuse drops the held rows and returns their number.
func (o *reorder) refuse() (late int) {
	late = len(o.held)
	o.held = nil
	return late
}

// restart releases all waiting rows and begins a new order with the held ones.
func (o *reorder) restart() []Row {
	ready, held := o.take(len(o.waiting)), o.held
	o.held, o.any, o.newest, o.gone = nil, false, time.Time{}, time.Time{}
	for _, r := range held {
		ready = append(ready, o.sort(r)...)
	}
	return ready
}

// sort inserts a row among those that wait, and returns those that it releases.
func (o *reorder) sort(r Row) []Row {
	at, _ := slices.BinarySearchFunc(o.waiting, r.At, func(w Row, t time.Time) int {
		if w.At.After(t) {
			return 1
		}
		return -1 // after all rows that are not newer
	})
	o.waiting = slices.Insert(o.waiting, at, r)
	if r.At.After(o.newest) || len(o.waiting) == 1 && !o.any {
		o.newest = r.At
		if o.now != nil {
			o.arrived = o.now()
		}
	}
	most := o.most
	if most == 0 {
		most = maxWaiting
	}
	n := 0
	for n < len(o.waiting) && (len(o.waiting)-n > most || !o.waiting[n].At.After(o.newest.Add(-o.lateness))) {
		n++
	}
	return o.take(n)
}

// drain releases all waiting rows and then the held ones, since no row will contradict
// them.
func (o *reorder) drain() []Row {
	if len(o.held) == 0 {
		return o.take(len(o.waiting))
	}
	ready := o.restart()
	return append(ready, o.take(len(o.waiting))...)
}

// take releases the first n waiting rows.
func (o *reorder) take(n int) []Row {
	if n == 0 {
		return nil
	}
	out := slices.Clone(o.waiting[:n])
	clear(o.waiting[:n])
	o.waiting = o.waiting[n:] // not moved to the front: there may be tens of thousands
	o.gone, o.any = out[n-1].At, true
	return out
}
