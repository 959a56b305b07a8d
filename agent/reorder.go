package agent

import (
	"slices"
	"time"
)

// maxWaiting bounds the rows that wait to be put in order. With more, the oldest
// goes on before its time, and rows that come before it are late.
const maxWaiting = 1 << 16

// reorder brings rows into the order of their time. A row waits until one has
// come that is younger by the lateness; rows that come later than that, after
// younger ones have gone on, are late. Rows of the same time keep their order.
//
// Every row is given back exactly once, or refused by add: none is lost and none
// doubled.
type reorder struct {
	lateness time.Duration
	most     int // rows that wait; 0: maxWaiting

	waiting []row // by time
	newest  time.Time
	gone    time.Time // of the last row given back
	any     bool      // a row was given back
}

// add takes a row and gives those whose turn it is. ok is false for a row that
// is late.
func (o *reorder) add(r row) (ready []row, ok bool) {
	if o.any && r.at.Before(o.gone) {
		return nil, false
	}
	at, _ := slices.BinarySearchFunc(o.waiting, r.at, func(w row, t time.Time) int {
		if w.at.After(t) {
			return 1
		}
		return -1 // behind all that are not younger
	})
	o.waiting = slices.Insert(o.waiting, at, r)
	if r.at.After(o.newest) || len(o.waiting) == 1 && !o.any {
		o.newest = r.at
	}
	most := o.most
	if most == 0 {
		most = maxWaiting
	}
	n := 0
	for n < len(o.waiting) && (len(o.waiting)-n > most || !o.waiting[n].at.After(o.newest.Add(-o.lateness))) {
		n++
	}
	return o.take(n), true
}

// drain gives back all that waits.
func (o *reorder) drain() []row { return o.take(len(o.waiting)) }

func (o *reorder) take(n int) []row {
	if n == 0 {
		return nil
	}
	out := slices.Clone(o.waiting[:n])
	o.waiting = slices.Delete(o.waiting, 0, n)
	o.gone, o.any = out[n-1].at, true
	return out
}
