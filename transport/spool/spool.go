package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// Errors of a spool.
var (
	// ErrFull: the object was dropped because it does not fit.
	ErrFull = errors.New("the queue is full")
	// ErrClosed: the spool takes nothing more.
	ErrClosed = errors.New("the queue is closed")
)

// Policy says what a full spool does to a new object.
type Policy string

// The policies.
const (
	DropOldest Policy = "drop_oldest"
	DropNewest Policy = "drop_newest"
	Block      Policy = "block" // Put waits
)

// Limit bounds one stream. A zero field is no bound; an empty policy is
// DropOldest.
type Limit struct {
	Objects int
	Bytes   int64
	Age     time.Duration // older objects are dropped, whatever the policy
	Full    Policy
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
	Strict  bool
	Streams map[string]Limit // by stream
	Default Limit            // of other streams

	KeepDamaged      int   // damaged files kept for inspection; 0: 16
	KeepDamagedBytes int64 // and their bytes; 0: 64 MiB

	Now    func() time.Time     // wall time; nil: time.Now
	Mono   func() time.Duration // never steps; nil: since Open
	Logger *slog.Logger         // nil: slog.Default

	fs fsys
}

// Item is an object to keep.
type Item struct {
	Stream string // transport.CheckName
	Topic  string
	Sealed []byte // the spool may keep it (see Unkept); the caller does not change it
	// Cursor is the position in an input that can be read again, after this
	// object; nil for inputs that cannot.
	Cursor []byte
	// Unkept, if not nil, is called before Put returns if the object is on disk and the
	// spool has not kept the memory of Sealed.
	Unkept func()
}

// Stats are the counts of a spool.
type Stats struct {
	Objects, MemoryObjects int   // that wait; of these, in memory
	Bytes, MemoryBytes     int64 // theirs
	Oldest                 time.Duration
	Dropped                uint64 // lost to a full spool
	Expired                uint64 // lost to age
	Damaged                uint64 // lost to damage: their files were quarantined
	Repaired               uint64 // files that were completed, cut to their length, or restored from the mirror
	Recovered              uint64 // objects that were there at the start
	WriteErrors            uint64
	Written                uint64 // bytes written into files, both copies
	Syncs                  uint64 // flushes of files and directories
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

// Open locks the directory until Release, reads it and recounts what is there. Files
// that are damaged are quarantined, never an error; a directory that cannot be read or
// made is one, and so is one that is in use (ErrLocked).
func Open(o Options) (*Spool, error) {
	if o.fs == nil {
		o.fs = disk{}
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.KeepDamaged <= 0 {
		o.KeepDamaged = 16
	}
	if o.KeepDamagedBytes <= 0 {
		o.KeepDamagedBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Spool{o: o, log: o.Logger, changed: make(chan struct{}), streams: map[string]*queue{}, start: time.Now(), next: 1}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Mono == nil {
		s.o.Mono = func() time.Duration { return time.Since(s.start) }
	}
	for _, path := range []string{o.Dir, o.Mirror} {
		if path != "" {
			s.dirs = append(s.dirs, directory{o.fs, path, new(claimed)})
		}
	}
	if o.Dir == "" {
		s.dirs = nil
		return s, nil
	}
	err := s.lock()
	if err == nil {
		err = s.load()
	}
	if err != nil {
		s.Release()
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	return s, nil
}

// Durable reports whether objects are kept on disk.
func (s *Spool) Durable() bool { return len(s.dirs) > 0 }

// signal wakes everybody; mu is held.
func (s *Spool) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed at the next change.
func (s *Spool) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
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

// insert adds e in order; mu is held.
func (s *Spool) insert(q *queue, e *entry) {
	i, _ := slices.BinarySearchFunc(q.entries, e.number, func(x *entry, n uint64) int { return cmp.Compare(x.number, n) })
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

// discount takes e out of the counts, once; mu is held.
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

// age of e; mu is held. It follows the monotonic clock from the moment that
// this process met e, so a step of the wall clock expires nothing.
func (s *Spool) age(e *entry) time.Duration { return e.age0 + s.o.Mono() - e.since }

// Put keeps an object. When it returns nil, the object is safe on disk, or, when
// the disk takes nothing and the item has no cursor, in memory (see Health).
// When the stream or the spool is full it does what the stream's policy says. It
// fails when ctx ends, with ErrClosed after Close, with ErrFull for an object
// that was itself dropped, or because the item is not valid.
func (s *Spool) Put(ctx context.Context, it Item) error {
	_, err := s.Add(ctx, it)
	return err
}

// Add is Put that gives the object's number.
func (s *Spool) Add(ctx context.Context, it Item) (number uint64, err error) {
	h := Header{Created: s.o.Now().UnixNano(), ID: transport.ObjectID(it.Sealed), Size: int64(len(it.Sealed)), Stream: it.Stream, Topic: it.Topic, Cursor: it.Cursor}
	if err := h.check(); err != nil {
		return 0, fmt.Errorf("spool: %w", err)
	}
	if h.Size == 0 {
		return 0, errors.New("spool: an empty object")
	}
	if err := s.reserve(ctx, &h); err != nil {
		return 0, err
	}
	e := &entry{number: h.Number, size: h.Size, id: h.ID, topic: it.Topic, cursor: len(it.Cursor) > 0, since: s.o.Mono()}
	err = s.place(ctx, &h, it, e)
	if err == nil && e.body == nil && it.Unkept != nil {
		it.Unkept()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	s.pbytes -= h.Size
	if err != nil {
		s.signal()
		return 0, err
	}
	q := s.queue(it.Stream)
	s.insert(q, e)
	if e.body == nil && e.cursor {
		q.cursor = slices.Clone(it.Cursor)
	}
	s.signal()
	return h.Number, nil
}

// place writes the object, or keeps it in memory, or waits for the disk.
func (s *Spool) place(ctx context.Context, h *Header, it Item, e *entry) error {
	if !s.Durable() {
		e.body = it.Sealed
		return nil
	}
	for {
		err := s.store(h, it.Sealed)
		if err == nil {
			return nil
		}
		if s.o.Strict {
			return fmt.Errorf("write the spool: %w", err)
		}
		if !e.cursor && !s.mustWait(h) {
			return s.toMemory(ctx, h, it, e)
		}
		if err := s.sleep(ctx, s.delay()); err != nil {
			return fmt.Errorf("wait for the disk: %w", err)
		}
	}
}

// mustWait reports whether an object that memory has no room for at all waits for the
// disk, since its stream drops nothing.
func (s *Spool) mustWait(h *Header) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.Size > s.o.Memory && s.queue(h.Stream).limit.Full == Block
}

// store writes both copies. The first one decides; a mirror that fails is
// counted and made up for at the next start.
func (s *Spool) store(h *Header, object []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	content := pieces(h, object)
	name := objectName(h.Number)
	err := s.dirs[0].write(name, content)
	if err == nil && len(s.dirs) > 1 {
		if merr := s.dirs[1].write(name, content); merr != nil {
			s.note(merr, "mirror")
		}
	}
	s.outcome(err, length(content))
	return err
}

// outcome counts a write and remembers whether the disk works.
func (s *Spool) outcome(err error, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.stats.Written += uint64(n * len(s.dirs))
		s.stats.Syncs += uint64(2 * len(s.dirs))
		if s.failure != nil {
			s.log.Info("the spool is written again", "dir", s.o.Dir)
		}
		s.failure, s.backoff = nil, 0
		return
	}
	s.stats.WriteErrors++
	if s.failure == nil || Cause(s.failure) != Cause(err) {
		s.log.Error("the spool cannot be written; windows stay in memory, inputs that can wait do", "dir", s.o.Dir, "cause", Cause(err), "error", err)
	}
	s.failure = err
	s.backoff = min(max(2*s.backoff, firstRetry), lastRetry)
	s.retryAt = s.o.Mono() + s.backoff
}

// Delays between attempts to write to a disk that fails.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

func (s *Spool) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backoff
}

func (s *Spool) note(err error, where string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.WriteErrors++
	s.log.Warn("a copy could not be written", "where", where, "cause", Cause(err), "error", err)
}

// sleep waits for d of real time: the disk does not live by the agent's clock.
func (s *Spool) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Health is nil when objects go to disk, or why they do not.
func (s *Spool) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return nil
	}
	return fmt.Errorf("the spool %s cannot be written (%s); %d windows wait in memory: %w", s.o.Dir, Cause(s.failure), s.inMem, s.failure)
}

// Cursor is the position of the newest object of a stream that is or was on
// disk, or nil.
func (s *Spool) Cursor(stream string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.streams[stream]; q != nil {
		return slices.Clone(q.cursor)
	}
	return nil
}

// Last is when an earlier process put the newest object of a stream in, whether
// it waits still or has left; zero when that is not known.
func (s *Spool) Last(stream string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.streams[stream]; q != nil && q.last != 0 {
		return time.Unix(0, q.last)
	}
	return time.Time{}
}

// Stats gives the counts so far.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Objects, out.Bytes, out.MemoryObjects, out.MemoryBytes = s.objects, s.bytes, s.inMem, s.memory
	if !s.Durable() {
		out.MemoryObjects, out.MemoryBytes = s.objects, s.bytes
	}
	for _, q := range s.streams {
		for _, e := range q.entries {
			if !e.gone {
				out.Oldest = max(out.Oldest, s.age(e))
				break
			}
		}
	}
	return out
}

// StreamStats are the counts of what waits of one stream.
type StreamStats struct {
	Objects int
	Bytes   int64
	Oldest  time.Duration // age of the oldest
}

// Streams returns the counts of every stream of which something waits.
func (s *Spool) Streams() map[string]StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]StreamStats{}
	for name, q := range s.streams {
		if i := slices.IndexFunc(q.entries, func(e *entry) bool { return !e.gone }); i >= 0 {
			out[name] = StreamStats{Objects: q.live, Bytes: q.bytes, Oldest: s.age(q.entries[i])}
		}
	}
	return out
}

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
