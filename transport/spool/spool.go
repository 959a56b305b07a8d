package spool

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Errors of a spool.
var (
	// ErrFull: the object was dropped because it does not fit.
	ErrFull = errors.New("the queue is full")
	// ErrClosed: the spool takes nothing more.
	ErrClosed = errors.New("the queue is closed")
)

// Spool keeps objects until they are delivered. It is safe for concurrent use;
// the order of a stream is the order of the calls of Put.
type Spool struct {
	o     Options
	log   *slog.Logger
	dirs  []directory // none: in memory only
	locks []io.Closer // of dirs
	start time.Time

	writing sync.Mutex // one file at a time

	mu      sync.Mutex
	changed chan struct{}
	streams map[string]*queue
	names   []string // sorted
	next    uint64
	objects int
	bytes   int64 // of all that waits, in files or memory
	memory  int64
	inMem   int
	pending int   // being written
	pbytes  int64 // theirs
	closed  bool
	stats   Stats

	mirrorless bool          // at the start: the mirror takes nothing
	failure    error         // of the last write; nil: the disk works
	retryAt    time.Duration // monotonic; when objects in memory are written again
	backoff    time.Duration
}

// Options of Open. The zero value is a queue in memory without bounds.
type Options struct {
	Dir    string // empty: in memory only
	Mirror string // second copy of every file, best on another disk; empty: none

	Objects int   // in all; 0: no bound
	Bytes   int64 // of objects on disk in all (in memory, without Dir); 0: no bound
	// Memory bounds the bytes of objects that wait in memory while the disk
	// takes nothing; 0: 64 MiB.
	Memory int64
	// Strict makes Put fail when the disk takes nothing, instead of keeping the
	// object in memory.
	Strict bool
	// Reserve leaves an eighth of the disk, at most 64 MiB, to what the owner writes before
	// it takes an object out. Without it a queue that has filled the disk could never be
	// emptied. Put fails with ErrFull when only that is left, whatever the policy.
	Reserve bool
	Streams map[string]Limit // by stream
	Default Limit            // of other streams

	KeepDamaged      int   // damaged files kept for inspection; 0: 16
	KeepDamagedBytes int64 // and their bytes; 0: 64 MiB

	Now    func() time.Time     // wall time; nil: time.Now
	Mono   func() time.Duration // never steps; nil: since Open
	Logger *slog.Logger         // nil: slog.Default

	fs fsys
}

// Limit bounds one stream. A zero field is no bound; an empty policy is
// DropOldest.
type Limit struct {
	Objects int
	Bytes   int64
	Age     time.Duration // older objects are dropped, whatever the policy
	Full    Policy
}

// Policy says what a full spool does to a new object.
type Policy string

// The policies.
const (
	DropOldest Policy = "drop_oldest"
	DropNewest Policy = "drop_newest"
	Block      Policy = "block" // Put waits
)

// Durable reports whether objects are kept on disk.
func (s *Spool) Durable() bool { return len(s.dirs) > 0 }

// Changed returns a channel that closes at the next change.
func (s *Spool) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// signal wakes all waiters. The caller holds mu.
func (s *Spool) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// queue finds or makes a stream; mu is held or s is not shared yet.
func (s *Spool) queue(name string) *queue {
	q := s.streams[name]
	if q == nil {
		limit, ok := s.o.Streams[name]
		if !ok {
			limit = s.o.Default
		}
		q = &queue{name: name, limit: limit}
		s.streams[name] = q
		i, _ := slices.BinarySearch(s.names, name)
		s.names = slices.Insert(s.names, i, name)
	}
	return q
}

// queue is one stream, oldest first.
type queue struct {
	name    string
	limit   Limit
	entries []*entry
	live    int // entries that are not gone
	bytes   int64
	mark    uint64 // number in the mark file
	cursor  []byte // newest on disk
	left    uint64 // number of the object in the file of the newest that left
	last    int64  // time of the newest object of earlier processes, unix nanoseconds
}

// entry is an object that waits.
type entry struct {
	number uint64
	size   int64 // of the object
	id     [32]byte
	topic  string
	cursor bool
	body   []byte // not nil: in memory only
	beside []byte // not nil: what counts instead of the file (see Replace)

	age0      time.Duration // age at since
	since     time.Duration // monotonic
	recovered bool          // from an earlier process: it may have been sent
	attempts  int
	leased    bool
	liveLane  bool          // leased from the live lane
	gone      bool          // delivered or dropped, its file could not be removed yet
	notBefore time.Duration // monotonic; before it the entry is not leased
	conflict  bool          // see Lease.Conflicts
	parked    bool          // until notBefore later ones may pass
}

// insert adds e in order. The caller holds mu.
func (s *Spool) insert(q *queue, e *entry) {
	i, _ := slices.BinarySearchFunc(q.entries, e.number, func(x *entry,
		n uint64) int {
		return cmp.Compare(x.number, n)
	})
	q.entries = slices.Insert(q.entries, i, e)
	q.live++
	q.bytes += e.size
	s.objects++
	s.bytes += e.size
	if e.body != nil && s.Durable() {
		s.inMem++
		s.memory += e.size
	}
}

// discount takes e out of the counts, once. The caller holds mu.
func (s *Spool) discount(q *queue, e *entry) {
	if e.gone {
		return
	}
	e.gone = true
	q.live--
	q.bytes -= e.size
	s.objects--
	s.bytes -= e.size
	if e.body != nil && s.Durable() {
		s.inMem--
		s.memory -= e.size
	}
}

// age returns the age of e. From the moment that this process met e it follows the monotonic
// clock, so a step of the wall clock expires nothing. The caller holds mu.
func (s *Spool) age(e *entry) time.Duration { return e.age0 + s.o.Mono() - e.since }

// Close refuses further objects. What was put stays and can be leased; Tick
// still writes what is in memory. It may be called twice.
func (s *Spool) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.signal()
	}
	s.mu.Unlock()
}
