// Package interval keeps book of the windows that are added up across the devices of a
// class: which belong to one interval, which devices have reported, when an interval closes
// and what comes too late. It does no arithmetic.
package interval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
)

var (
	// ErrLate: the interval was closed, so its result is or will be without the window.
	ErrLate = errors.New("window came after its interval was closed")
	// ErrTwice: the device has sent all samples of the interval already.
	ErrTwice = errors.New("samples of an interval that its device has sent")
)

// Window is a window as far as the book has to know it.
type Window struct {
	Device  string
	ID      [32]byte
	Key     transport.KeyRef // only windows under one key can be added up
	Number  int64            // of the interval: Unix time divided by its length
	Samples int
	Full    int       // samples of a full window
	At      time.Time // of arrival
}

// Book has the open intervals of one program. It is safe for concurrent use.
//
//   - An interval closes when every device has reported, when it has waited for Timeout, when
//     more than Most intervals are open and it was opened first, or when a sum is full.
//   - A device has reported when all samples of its interval have come, or one of its windows
//     came after the interval's end: before that a window may be cut, with another one to come.
//   - An interval waits from its first window on or, where that came before its end, from its end.
//   - A closed interval has one Sum for each key. Each is handed out once, when none of its
//     windows is being added any more.
//   - Of a closed interval only the number is kept, for a while.
type Book struct {
	Every   time.Duration // length of an interval
	Timeout time.Duration
	Most    int // open intervals
	// Capacity is the most windows of a sum; an interval that has as many under one key closes.
	Capacity int
	// Complete reports whether these devices are all that there are.
	Complete func(devices map[string]bool) bool

	mu     sync.Mutex
	open   map[int64]*entry
	closed []int64 // newest last
}

// entry is an interval.
type entry struct {
	number   int64
	first    time.Time // arrival of its first window
	samples  map[string]int
	reported map[string]bool
	sums     map[transport.KeyRef]*Sum
	closing  bool
}

// Sum is the windows of one interval under one key. Its fields do not change any more once
// it was handed out by Done or Due.
type Sum struct {
	Key     transport.KeyRef
	Number  int64
	Windows []Window // that were added, in that order
	Parts   any      // of the caller, who sets it under a lock of its own

	of      *entry
	pending int
	over    bool // handed out
}

// Devices returns the number of devices in the sum.
func (s *Sum) Devices() int {
	seen := map[string]bool{}
	for i := range s.Windows {
		seen[s.Windows[i].Device] = true
	}
	return len(seen)
}

// Samples returns the number of samples per channel, of all windows together.
func (s *Sum) Samples() (n int64) {
	for i := range s.Windows {
		n += int64(s.Windows[i].Samples)
	}
	return n
}

// IDs returns the ids of the windows.
func (s *Sum) IDs() [][32]byte {
	ids := make([][32]byte, len(s.Windows))
	for i := range s.Windows {
		ids[i] = s.Windows[i].ID
	}
	return ids
}

// Join returns the sum that a window is to be added to, and the sums that it closed. Done
// must be called for the window. It fails with ErrLate or ErrTwice. parts makes Sum.Parts.
func (b *Book) Join(w Window, parts func() any) (s *Sum, ready []*Sum, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.closed, w.Number) {
		return nil, nil, fmt.Errorf("%w: device %s, interval %d", ErrLate, w.Device, w.Number)
	}
	e := b.open[w.Number]
	if e == nil {
		if len(b.open) >= max(b.Most, 1) {
			oldest := slices.MinFunc(b.inOrder(), func(x, y *entry) int { return x.first.Compare(y.first) })
			ready = b.close(oldest)
		}
		e = &entry{number: w.Number, first: w.At, samples: map[string]int{}, reported: map[string]bool{},
			sums: map[transport.KeyRef]*Sum{}}
		if b.open == nil {
			b.open = map[int64]*entry{}
		}
		b.open[w.Number] = e
	}
	if e.samples[w.Device]+w.Samples > w.Full {
		return nil, ready, fmt.Errorf("%w: device %s, interval %d", ErrTwice, w.Device, w.Number)
	}
	e.samples[w.Device] += w.Samples
	if e.samples[w.Device] == w.Full || !w.At.Before(b.end(e.number)) {
		e.reported[w.Device] = true
	}
	if s = e.sums[w.Key]; s == nil {
		s = &Sum{Key: w.Key, Number: w.Number, of: e, Parts: parts()}
		e.sums[w.Key] = s
	}
	s.pending++
	if len(s.Windows)+s.pending >= b.Capacity || b.Complete(e.reported) {
		ready = append(ready, b.close(e)...)
	}
	return s, ready, nil
}

// Done ends the adding of a window: it is in s now, or not. It returns the sums that are
// ready then.
func (b *Book) Done(s *Sum, w Window, added bool) []*Sum {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.pending--
	if added {
		s.Windows = append(s.Windows, w)
	}
	if !s.of.closing {
		return nil
	}
	return s.of.ready()
}

// Due closes the intervals that have waited long enough, and returns the sums that are ready.
func (b *Book) Due(now time.Time) (ready []*Sum) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.inOrder() {
		since := e.first
		if end := b.end(e.number); end.After(since) && end.Sub(since) <= b.Every {
			since = end
		}
		if now.Sub(since) >= b.Timeout || b.Complete(e.reported) { // devices may have gone
			ready = append(ready, b.close(e)...)
		}
	}
	return ready
}

// inOrder returns the open intervals by number. It needs the lock.
func (b *Book) inOrder() []*entry {
	var out []*entry
	for _, e := range b.open {
		out = append(out, e)
	}
	slices.SortFunc(out, func(x, y *entry) int { return cmp.Compare(x.number, y.number) })
	return out
}

// close closes an interval and returns the sums that are ready. It needs the lock.
func (b *Book) close(e *entry) []*Sum {
	delete(b.open, e.number)
	e.closing = true
	b.closed = append(b.closed, e.number)
	if most := 8*b.Most + 64; len(b.closed) > most {
		b.closed = slices.Clone(b.closed[len(b.closed)-most:])
	}
	return e.ready()
}

// ready returns the sums of a closed interval that nothing is being added to and that were not
// handed out. Empty ones are left out.
func (e *entry) ready() (out []*Sum) {
	for _, s := range e.sums {
		if s.pending == 0 && !s.over {
			if s.over = true; len(s.Windows) > 0 {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(x, y *Sum) int { return cmp.Compare(x.Key.Epoch, y.Key.Epoch) })
	return out
}

// end returns when an interval ends.
func (b *Book) end(number int64) time.Time { return time.Unix(0, (number+1)*int64(b.Every)) }
