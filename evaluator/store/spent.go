package store

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// spentNumbers are the used sequence numbers of one series, by boot epoch. Their number is
// bounded: without room the oldest gap is closed, so that unused numbers in it count as
// used. A used number is never forgotten.
type spentNumbers struct {
	floor  uint64       // boot epochs below this are closed
	epochs []spentEpoch // ascending
	count  int          // intervals in all
}

// spentEpoch are the used numbers of one boot epoch: sorted, disjoint, not adjacent.
type spentEpoch struct {
	boot uint64
	used []interval
}

type interval struct{ lo, hi uint64 }

// Bounds on the intervals of a series. A stream that arrives in order takes one for each
// boot epoch.
const (
	allIntervals  = 1 << 22 // of all series, about
	mostIntervals = 4096
	minIntervals  = 64
)

// intervalShare returns how many intervals each of so many series may take. No sender can
// fill the part of another.
func intervalShare(series int) int {
	return max(minIntervals, min(mostIntervals, allIntervals/max(series, 1)))
}

// use marks lo to hi of a boot epoch as used, and closes what is oldest while there are
// more than limit intervals.
func (n *spentNumbers) use(boot, lo, hi uint64, limit int) {
	if boot < n.floor {
		return
	}
	i, found := n.find(boot)
	if !found {
		n.epochs = slices.Insert(n.epochs, i, spentEpoch{boot: boot})
	}
	e := &n.epochs[i]
	before := len(e.used)
	e.use(lo, hi)
	n.count += len(e.used) - before
	for n.count > limit {
		n.close()
	}
}

// used reports whether a number was, or is closed.
func (n *spentNumbers) used(boot, number uint64) bool {
	if n == nil {
		return false
	}
	if boot < n.floor {
		return true
	}
	i, found := n.find(boot)
	return found && n.epochs[i].has(number)
}

func (n *spentNumbers) find(boot uint64) (int, bool) {
	return slices.BinarySearchFunc(n.epochs, boot, func(e spentEpoch, b uint64) int { return cmp.Compare(e.boot, b) })
}

// close frees one interval: the oldest gap of the oldest boot epoch, or that boot epoch
// when it has none.
func (n *spentNumbers) close() {
	e := &n.epochs[0]
	if len(e.used) > 1 {
		e.used[1].lo = e.used[0].lo
		e.used = e.used[1:]
		n.count--
		return
	}
	// There are further ones: a single interval is within every limit.
	n.raise(e.boot + 1)
}

// raise closes the boot epochs below floor.
func (n *spentNumbers) raise(floor uint64) {
	if floor <= n.floor {
		return
	}
	n.floor = floor
	i, _ := n.find(floor)
	for _, e := range n.epochs[:i] {
		n.count -= len(e.used)
	}
	n.epochs = n.epochs[i:]
}

// append encodes the numbers of a series as records of the ledger.
func (n *spentNumbers) append(b []byte, series [8]byte) []byte {
	if n.floor > 0 {
		b = (&record{kind: recFloor, series: series, boot: n.floor}).append(b)
	}
	for _, e := range n.epochs {
		for _, v := range e.used {
			r := record{kind: recInterval, series: series, boot: e.boot, number: v.lo}
			binary.BigEndian.PutUint64(r.id[:], v.hi)
			b = r.append(b)
		}
	}
	return b
}

// use marks lo to hi.
func (e *spentEpoch) use(lo, hi uint64) {
	// The first interval that ends at or after lo-1, and the first that begins
	// after hi+1, bound what merges.
	i, _ := slices.BinarySearchFunc(e.used, lo, func(v interval, lo uint64) int {
		if v.hi < lo && v.hi+1 < lo {
			return -1
		}
		return 1
	})
	j := i
	for j < len(e.used) && (e.used[j].lo <= hi || e.used[j].lo == hi+1) {
		lo, hi = min(lo, e.used[j].lo), max(hi, e.used[j].hi)
		j++
	}
	e.used = slices.Replace(e.used, i, j, interval{lo, hi})
}

func (e *spentEpoch) has(number uint64) bool {
	_, ok := slices.BinarySearchFunc(e.used, number, func(v interval, n uint64) int {
		switch {
		case v.hi < n:
			return -1
		case v.lo > n:
			return 1
		}
		return 0
	})
	return ok
}
