package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/internal/durable"
)

// The ledger remembers, over restarts, what was taken and what was made of it:
//
//   - the content ids of the newest finished objects, of all streams together and of each:
//     a sender whose receipt was lost asks about one of its newest, even if others have
//     sent much since;
//   - for each signer's stream and boot epoch, which sequence numbers were used,
//     as intervals: what arrives in order takes one interval (spent.go);
//   - of which windows a result across devices is made: it counts once the result is there, and
//     until the window leaves;
//   - which results were made, by program and content ids of the inputs, as long
//     as an input may come up again.
//
// It is a log (durable.Log) of records of 64 bytes, which is compacted when it has
// become long.
//
//	0  kind   1: taken, 2: made, 3: interval, 4: among the newest of its stream,
//	          5: boot epochs of the series below this one are closed,
//	          6: claim
//	1  zeros  3 bytes
//	4  id     32 bytes: of the object; of the result; interval: last number in 8;
//	          claim: of the window, and the 24 bytes from 36 on name the result
//	36 series 8 bytes: start of the SHA-256 of signer, device and stream
//	44 boot   8 bytes
//	52 number 8 bytes: sequence number; interval: first number
//	60 CRC-32C of bytes 0 to 59
type ledger struct {
	limit int // ids and results remembered

	mu     sync.Mutex
	log    *durable.Log
	taken  idSet
	made   idSet
	latest latest
	series map[[8]byte]*spentNumbers
	claims map[[32]byte][][32]byte // results by window
}

// maxSeries bounds the series that are remembered. It is a variable for tests.
var maxSeries = 1 << 16

// openLedger reads the ledger, cuts a torn end off and compacts it. Damage before the
// end is an error: forgetting records silently would double results.
func openLedger(path string, limit int) (*ledger, error) {
	l := &ledger{limit: limit, taken: idSet{limit: limit}, made: idSet{limit: limit},
		series: map[[8]byte]*spentNumbers{}, claims: map[[32]byte][][32]byte{},
		latest: newLatest()}
	l.log = durable.NewLog(durable.LogOptions{Path: path, Width: recordSize, Contents: l.encode})
	durable.SweepTemporary(path)
	found, err := l.log.Read(func(payload []byte) bool {
		r, ok := parseRecord(payload)
		if ok {
			l.apply(&r)
		}
		return ok
	})
	if errors.Is(err, durable.ErrDamaged) {
		return nil, fmt.Errorf("%w: %s is %w; restore it, or move it away and accept that windows that come again are "+
			"computed again", ErrState, path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: ledger: %w", ErrState, err)
	}
	if err := l.log.Compact(); err != nil {
		// A full disk must not keep the evaluator from starting: the old file without
		// its torn end will do.
		if oerr := l.log.Open(found.Size); oerr != nil {
			return nil, fmt.Errorf("%w: ledger: %w", ErrState, errors.Join(err, oerr))
		}
	}
	return l, nil
}

// apply takes a record into memory; mu is held or l is not shared yet.
func (l *ledger) apply(r *record) {
	switch r.kind {
	case recTaken:
		l.taken.add(r.id)
		delete(l.claims, r.id)
		if r.series != noSeries {
			l.latest.add(r)
			l.use(seriesKey{r.series, r.boot}, r.number, r.number)
		}
	case recLatest:
		l.latest.add(r)
		l.use(seriesKey{r.series, r.boot}, r.number, r.number)
	case recMade:
		l.made.add(r.id)
	case recClaim:
		l.claims[r.id] = append(l.claims[r.id], r.claimed())
	case recInterval:
		l.use(seriesKey{r.series, r.boot}, r.number, r.last())
	case recFloor:
		if l.series[r.series] == nil {
			l.series[r.series] = &spentNumbers{}
		}
		l.series[r.series].raise(r.boot)
	}
}

// use marks lo to hi as used.
func (l *ledger) use(k seriesKey, lo, hi uint64) {
	n := l.series[k.series]
	if n == nil {
		n = &spentNumbers{}
		l.series[k.series] = n
	}
	n.use(k.boot, lo, hi, intervalShare(len(l.series)))
}

// reserve makes room for a series, or fails when too many are remembered: a window
// whose number cannot be remembered must not be taken.
func (l *ledger) reserve(series [8]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.series[series] != nil {
		return nil
	}
	if len(l.series) >= maxSeries {
		return fmt.Errorf("the ledger remembers %d numbered streams, the most that it may", len(l.series))
	}
	l.series[series] = &spentNumbers{}
	return nil
}

// full reports whether no further stream can be remembered.
func (l *ledger) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.series) >= maxSeries
}

// used reports whether a number was, or may have been.
func (l *ledger) used(k seriesKey, n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.series[k.series].used(k.boot, n)
}

// course returns where a stream stood: its newest boot epoch and the highest number of it.
func (l *ledger) course(series [8]byte) (boot, high uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.series[series]
	if n == nil || len(n.epochs) == 0 {
		return 0, 0, false
	}
	newest := n.epochs[len(n.epochs)-1]
	return newest.boot, newest.used[len(newest.used)-1].hi, true
}

func (l *ledger) hasTaken(id [32]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken.has(id) || l.latest.has(id)
}

func (l *ledger) hasMade(id [32]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made.has(id)
}

// claimsOf returns the results that are, or were to be, made of a window.
func (l *ledger) claimsOf(window [32]byte) [][32]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claims[window]
}

// add appends records and returns when they are on disk. When it fails, none of
// them counts.
func (l *ledger) add(records ...record) error {
	var b []byte
	for i := range records {
		b = records[i].append(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.log.Append(b); err != nil {
		return fmt.Errorf("%w: ledger: %w", ErrState, err)
	}
	for i := range records {
		l.apply(&records[i])
	}
	if l.log.Size() > 2*l.log.Least()+int64(recordSize*(8*l.limit+4096)) {
		_ = l.log.Compact() // a full disk must not keep windows from being worked off, which frees it
	}
	return nil
}

// encode returns the records of all that is remembered; mu is held or l is not shared yet.
func (l *ledger) encode() (b []byte) {
	for _, k := range slices.SortedFunc(maps.Keys(l.series), func(a, b [8]byte) int {
		return bytes.Compare(a[:], b[:])
	}) {
		b = l.series[k].append(b, k)
	}
	b = l.latest.append(b)
	for _, id := range l.taken.order {
		b = (&record{kind: recTaken, id: id, series: noSeries}).append(b)
	}
	for _, id := range l.made.order {
		b = (&record{kind: recMade, id: id}).append(b)
	}
	for id, results := range l.claims {
		for _, result := range results {
			r := claim(id, result)
			b = r.append(b)
		}
	}
	return b
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Close()
}

// idSet is a set of ids that forgets its oldest.
type idSet struct {
	limit int
	set   map[[32]byte]struct{}
	order [][32]byte
}

func (s *idSet) has(id [32]byte) bool { _, ok := s.set[id]; return ok }

func (s *idSet) add(id [32]byte) {
	if s.has(id) {
		return
	}
	if s.set == nil {
		s.set = map[[32]byte]struct{}{}
	}
	s.set[id] = struct{}{}
	s.order = append(s.order, id)
	if len(s.order) > 2*s.limit {
		for _, old := range s.order[:len(s.order)-s.limit] {
			delete(s.set, old)
		}
		s.order = slices.Clone(s.order[len(s.order)-s.limit:])
	}
}
