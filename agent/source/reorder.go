package source

import (
	"slices"
	"time"
)

// maxWaiting bounds the rows that wait to be put in order. With more, the oldest
// goes on before its time, and rows that come before it are late.
const maxWaiting = 1 << 16

// A clock that is wrong by more than leap is believed when leapRows rows in a row
// say so: those of a device whose clock was set. Fewer are the mistake of one
// message.
const (
	leap     = time.Hour // at least config.MaxLateness
	leapRows = 8
)

// reorder brings rows into the order of their time. A row waits until one has
// come that is younger by the lateness; rows that come later than that, after
// younger ones have gone on, are late. Rows of the same time keep their order.
//
// One row from the far future would make all others late for good. Rows that are
// later than leap, and with now those that are further ahead than leap and what
// has passed since the newest, are therefore held back: they are late when a row
// comes that contradicts them, and begin a new order after leapRows of them.
//
// Every row is given back exactly once, or counted as late: none is lost and none
// doubled.
type reorder struct {
	lateness time.Duration
	most     int                  // rows that wait; 0: maxWaiting
	now      func() time.Duration // monotonic, as rows arrive; nil: they do not arrive as they happen

	waiting []Row // by time
	newest  time.Time
	arrived time.Duration // of the newest
	gone    time.Time     // of the last row given back
	any     bool          // a row was given back

	held  []Row // that are too far away, as they came
	ahead bool  // they are in the future
}

// add takes a row. It returns the rows whose turn it is, and how many rows of this and
// earlier calls are now known to be late.
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

// future reports whether a time is ahead of what can have become of the newest.
func (o *reorder) future(at time.Time) bool {
	if o.now == nil || !o.any && len(o.waiting) == 0 {
		return false
	}
	return at.After(o.newest.Add(o.now() - o.arrived + leap))
}

// refuse drops the rows that were held back, and returns how many they were.
func (o *reorder) refuse() (late int) {
	late = len(o.held)
	o.held = nil
	return late
}

// restart begins a new order with what was held back.
func (o *reorder) restart() []Row {
	ready, held := o.take(len(o.waiting)), o.held
	o.held, o.any, o.newest, o.gone = nil, false, time.Time{}, time.Time{}
	for _, r := range held {
		ready = append(ready, o.sort(r)...)
	}
	return ready
}

// sort puts a row among those that wait and gives those whose turn it is.
func (o *reorder) sort(r Row) []Row {
	at, _ := slices.BinarySearchFunc(o.waiting, r.At, func(w Row, t time.Time) int {
		if w.At.After(t) {
			return 1
		}
		return -1 // behind all that are not younger
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

// drain returns all that waits, and what was held back: nothing contradicts it.
func (o *reorder) drain() []Row {
	if len(o.held) == 0 {
		return o.take(len(o.waiting))
	}
	ready := o.restart()
	return append(ready, o.take(len(o.waiting))...)
}

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
