package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Lease is an object that is being delivered. Exactly one of Done, Return and
// Park ends it.
type Lease struct {
	Stream   string
	Topic    string
	Number   uint64
	ID       [32]byte
	Size     int64
	Live     bool // taken from the live lane
	Attempts int  // earlier leases of this object by this process
	// Recovered says that an earlier process put it in and may have sent it.
	Recovered bool
	Conflict  bool // see Conflicts

	s *Spool
	q *queue
	e *entry
}

// TryLease returns the next object of a lane, or nil. Of each stream one object is
// out at a time, and one more from the live lane, so that a stream arrives in
// order within its lane. live is the age below which objects are live.
func (s *Spool) TryLease(lane Lane, live time.Duration) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	now := s.o.Mono()
	var best *entry
	var of *queue
	for _, name := range s.names {
		q := s.streams[name]
		e := s.candidate(q, lane, live, now)
		if e != nil && (best == nil || e.number < best.number) {
			best, of = e, q
		}
	}
	if best == nil {
		return nil
	}
	return s.lease(of, best, lane == Live)
}

// Lane says which objects a lease may be of.
type Lane int

// The lanes.
const (
	// Oldest first, over all streams: the backlog.
	Oldest Lane = iota
	// Live: objects younger than the age given, oldest of these first, of a
	// stream that has older ones waiting too.
	Live
)

// Entries returns the objects that wait, oldest first.
func (s *Spool) Entries() (out []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.streams {
		for _, e := range q.entries {
			if !e.gone {
				out = append(out, Entry{q.name, e.topic, e.number, e.id, e.size})
			}
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// Entry is an object that waits.
type Entry struct {
	Stream, Topic string
	Number        uint64
	ID            [32]byte
	Size          int64
}

// Take leases a certain object, whatever its place, or gives nil when it is not
// there or leased already.
func (s *Spool) Take(stream string, number uint64) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.streams[stream]
	if q == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(q.entries, number, func(e *entry,
		n uint64) int {
		return cmp.Compare(e.number, n)
	})
	if !ok || q.entries[i].gone || q.entries[i].leased {
		return nil
	}
	return s.lease(q, q.entries[i], false)
}

// Find leases the object with a content id, whatever its place, or returns nil when it is
// not there or leased already.
func (s *Spool) Find(id [32]byte) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.streams {
		for _, e := range q.entries {
			if e.id == id && !e.gone && !e.leased {
				return s.lease(q, e, false)
			}
		}
	}
	return nil
}

// Read takes an object that waits and returns its bytes. A disk that fails to read is asked
// again, until the object counts as damaged: one bad block must not end every start.
func (s *Spool) Read(e Entry) (l *Lease, sealed []byte, err error) {
	for {
		if l = s.Take(e.Stream, e.Number); l == nil {
			return nil, nil, fmt.Errorf("object %016x of %s is not there", e.Number, e.Stream)
		}
		if sealed, err = l.Sealed(); !errors.Is(err, unix.EIO) || errors.Is(err, ErrDamaged) {
			return l, sealed, err
		}
		l.Return(0)
	}
}

// lease makes the lease of e. The caller holds mu.
func (s *Spool) lease(q *queue, e *entry, live bool) *Lease {
	e.leased, e.liveLane = true, live
	l := &Lease{Stream: q.name, Topic: e.topic, Number: e.number, ID: e.id, Size: e.size, Live: live,
		Attempts: e.attempts, Recovered: e.recovered, Conflict: e.conflict, s: s, q: q, e: e}
	e.attempts++
	return l
}

// candidate returns the object of q that lane would take. The caller holds mu.
func (s *Spool) candidate(q *queue, lane Lane, live, now time.Duration) *entry {
	older := false // something waits that is not live
	for _, e := range q.entries {
		switch {
		case e.gone, e.parked && !e.leased && now < e.notBefore:
			continue
		case lane == Oldest && e.leased && e.liveLane:
			continue
		case lane == Live && s.age(e) >= live:
			older = true
			continue
		case lane == Live && !older, e.leased, now < e.notBefore:
			return nil
		}
		return e
	}
	return nil
}

// Waiting reports whether anything waits, leased or not, and after how long the
// next delayed object may be leased (0: none is delayed).
func (s *Spool) Waiting() (waiting bool, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Mono()
	for _, q := range s.streams {
		for _, e := range q.entries {
			if e.gone {
				continue
			}
			waiting = true
			if d := e.notBefore - now; d > 0 && !e.leased && (next == 0 || d < next) {
				next = d
			}
		}
	}
	return waiting, next
}

// Closed reports whether Close was called.
func (s *Spool) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Sealed reads and verifies the object. A file that is damaged is replaced by
// its mirror; without one it is quarantined, counted, the lease is over, and the
// error wraps ErrDamaged, ErrTorn or ErrFormat. Other errors are of the disk: the
// lease goes on.
func (l *Lease) Sealed() ([]byte, error) { return l.SealedIn(nil) }

// ReadRoom is how much more room than Size SealedIn wants.
const ReadRoom = maxHeader + trailer

// SealedIn is Sealed into the memory of b, if that has capacity for Size + ReadRoom
// bytes; objects that are in memory are not copied.
func (l *Lease) SealedIn(b []byte) ([]byte, error) {
	l.s.mu.Lock()
	body := l.e.body
	if body == nil {
		body = l.e.beside
	}
	l.s.mu.Unlock()
	if body != nil {
		return body, nil
	}
	var first error
	for i, d := range l.s.dirs {
		h, object, err := d.object(l.Number, b)
		if err == nil && h.ID != l.ID {
			err = ErrDamaged
		}
		if err == nil {
			if i > 0 {
				l.s.heal(&h, object, first)
			}
			return object, nil
		}
		if first == nil {
			first = err
		}
	}
	if !damage(first) && !(errors.Is(first, unix.EIO) && l.Attempts >= badReads) {
		return nil, first
	}
	l.s.lose(l.q, l.e, first)
	return nil, errors.Join(ErrDamaged, first)
}

// badReads is after how many attempts a file that the disk fails to read counts
// as damaged, so that it does not hold its stream up for ever.
const badReads = 5

// damage tells an unreadable object from a disk that does not answer.
func damage(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrTorn) || errors.Is(err, ErrFormat) ||
		errors.Is(err, ErrVersion) ||
		errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// heal writes the first copy again from the second.
func (s *Spool) heal(h *Header, object []byte, why error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	name := objectName(h.Number)
	if !errors.Is(why, fs.ErrNotExist) {
		_ = s.dirs[0].quarantine(name, s.o.KeepDamaged, s.o.KeepDamagedBytes)
	}
	err := s.dirs[0].write(name, pieces(h, object))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Repaired++
	s.log.Warn("a damaged file was restored from the mirror", "file", name, "damage", why, "error", err)
}

// lose quarantines an object that no copy has any more.
func (s *Spool) lose(q *queue, e *entry, why error) {
	s.writing.Lock()
	for _, d := range s.dirs {
		_ = d.quarantine(objectName(e.number), s.o.KeepDamaged, s.o.KeepDamagedBytes)
	}
	s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Damaged++
	s.log.Error("a window is lost: its file is damaged", "stream", q.name, "file", objectName(e.number), "error", why)
	s.remove(q, e)
	s.signal()
}

// Conflicts notes, for later leases, that the receiver has another object under this
// one's name or number; Replace ends that.
func (l *Lease) Conflicts() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.e.conflict, l.Conflict = true, true
}

// Done removes the object: it is delivered.
func (l *Lease) Done() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.e.leased = false
	l.s.remove(l.q, l.e)
	l.s.signal()
}

// Return gives the object back, to be leased again after d. Its stream waits
// with it.
func (l *Lease) Return(d time.Duration) { l.giveBack(d, false) }

// Park gives the object back, to be leased again after d. Later objects of its
// stream may pass.
func (l *Lease) Park(d time.Duration) { l.giveBack(d, true) }

func (l *Lease) giveBack(d time.Duration, parked bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.e.leased, l.e.parked, l.e.notBefore = false, parked, l.s.o.Mono()+d
	l.s.signal()
}
