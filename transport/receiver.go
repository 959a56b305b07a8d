package transport

import (
	"bytes"
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/pieces"
)

// Receiver puts chunks together and hands complete objects on. It is safe for
// concurrent use.
//
// Chunks arrive in any order and any number of times. Memory is bounded per topic (one topic
// is one sender's stream) and in all. When a new object does not fit, an incomplete one is
// dropped. If the topic's bound is reached, it is the longest idle object of that topic. If
// the bound on all topics is reached, it is the longest idle object of the topic that holds
// the most bytes, or the most objects where their number is the bound. So a flooded topic
// hurts itself first. Objects that are idle for MaxAge are dropped when a chunk arrives, or
// by Expire.
//
// A complete object counts against the same bounds until it is worked off (Staged.Done). A
// chunk that will fit then waits for it.
//
// A chunk that contradicts an earlier one of its object (other size, count, or
// other bytes at the same place) is refused and the earlier one kept. When an
// object is complete but its hash is wrong, all of it is dropped, and chunks
// sent again start over.
type Receiver struct {
	limits   Limits
	apart    bool // objects are handed on in pieces
	onObject func(Staged) error
	counters *Counters

	mu         sync.Mutex
	room       sync.Cond // a staged object was worked off, or the receiver closed
	closed     bool
	parts      map[partKey]*partial
	topics     map[string]*topicUse
	bytes      int                       // of incomplete and staged objects
	staged     use                       // complete objects that are not worked off
	done       map[partKey]*list.Element // of doneEntry
	remembered int                       // finished objects so far
	most       mostDone                  // topics by their finished objects
	nextExpiry time.Time                 // no object is idle for MaxAge before
}

// NewReceiver returns a Receiver that calls onObject once per complete object. onObject
// runs on the goroutine that fed the last chunk, concurrently with other feeds. It may
// queue the object; whoever works it off calls Done. When onObject fails, the object is
// done and is not remembered, so sending it again delivers it again.
func NewReceiver(limits Limits, onObject func(Staged) error) *Receiver {
	r := &Receiver{
		limits: limits.withDefaults(), onObject: onObject, counters: &Counters{},
		parts: make(map[partKey]*partial), topics: make(map[string]*topicUse), done: make(map[partKey]*list.Element),
	}
	r.room.L = &r.mu
	return r
}

// Apart makes r hand objects on in the pieces in which they came, which saves a copy of each: Staged.Pieces has them.
// It is called before the first Feed.
func (r *Receiver) Apart() { r.apart = true }

// Limits bound what a Receiver keeps: incomplete objects, and complete ones until they
// are worked off. A zero field means its default.
type Limits struct {
	MaxObject    int              // largest object, bytes; DefaultMaxObject
	MaxObjects   int              // objects in all; 256
	MaxBytes     int              // bytes of objects in all; 256 MiB
	TopicObjects int              // objects per topic; 16
	TopicBytes   int              // bytes of objects per topic; 2*MaxObject
	MaxAge       time.Duration    // an object without a new chunk for this long is dropped; 2 min
	Remember     int              // finished objects remembered against repetition; 4096
	Now          func() time.Time // the clock; time.Now
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.MaxObject, DefaultMaxObject)
	set(&l.MaxObjects, 256)
	set(&l.MaxBytes, max(256<<20, l.MaxObject))
	set(&l.TopicObjects, 16)
	set(&l.TopicBytes, 2*l.MaxObject)
	set(&l.Remember, 4096)
	if l.MaxAge <= 0 {
		l.MaxAge = 2 * time.Minute
	}
	if l.Now == nil {
		l.Now = time.Now
	}
	return l
}

// Close ends the waits for room; later chunks that would have to wait fail with
// ErrClosed too.
func (r *Receiver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.room.Broadcast()
}

// Counters returns the counts of complete objects, repeated chunks and refusals by reason.
func (r *Receiver) Counters() *Counters { return r.counters }

type partKey struct {
	topic string
	id    [32]byte
}

type partial struct {
	key    partKey
	size   int
	total  int
	bytes  int
	pieces map[int][]byte
	elem   *list.Element // in its topic's idle list
	last   time.Time
	took   time.Duration // to take its chunks, without waiting for room
	sums   *pieceSums    // of several pieces
}

// pieceSums hashes the pieces of an object in their order while others are still to come.
type pieceSums struct {
	mu   sync.Mutex
	line [][]byte // pieces whose turn has come
	next int      // the piece after these

	hashing sync.Mutex // guards hash; nobody waits for it with mu
	hash    *objectHash
}

// came notes the pieces whose turn has come. The caller holds the receiver's lock.
func (s *pieceSums) came(pieces map[int][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b, there := pieces[s.next]; there; b, there = pieces[s.next] {
		s.line = append(s.line, b)
		s.next++
	}
}

// work hashes what is in line. When it returns, everything that was in line before is hashed.
func (s *pieceSums) work() {
	s.hashing.Lock()
	defer s.hashing.Unlock()
	for {
		s.mu.Lock()
		line := s.line
		s.line = nil
		s.mu.Unlock()
		if len(line) == 0 {
			return
		}
		for _, b := range line {
			s.hash.write(b)
		}
	}
}

// compare reports whether p has c already, or fails when they contradict each other.
func (p *partial) compare(c *Chunk) (known bool, err error) {
	if p.size != c.Size || p.total != c.Total {
		return false, fmt.Errorf("%w: object %x announced as %d bytes in %d chunks, before as %d in %d",
			ErrConflict, c.Object[:6], c.Size, c.Total, p.size, p.total)
	}
	old, known := p.pieces[c.Index]
	if known && !bytes.Equal(old, c.Data) {
		return false, fmt.Errorf("%w: chunk %d of object %x has other bytes than before", ErrConflict, c.Index,
			c.Object[:6])
	}
	return known, nil
}

// complete returns the object that the pieces of a complete p make up, and lets go of them. If these were several, the
// object stays in pieces where it is handed on apart. Else it is a copy, and made while the last ones are hashed.
func (p *partial) complete(apart bool) (s Staged) {
	s.Topic, s.hashed = p.key.topic, true
	defer func() { p.pieces, p.sums = nil, nil }()
	if p.total == 1 {
		s.Sealed = p.pieces[0]
		s.ID, s.digest = hashObject(s.Sealed)
		return s
	}
	all := make([][]byte, p.total)
	for i := range all {
		all[i] = p.pieces[i]
	}
	if apart {
		s.Pieces = all
	} else {
		go p.sums.work()
		s.Sealed = pieces.Join(all)
	}
	p.sums.work()
	s.ID, s.digest = p.sums.hash.sums()
	return s
}

type topicUse struct {
	idle   *list.List // of *partial, longest idle first
	bytes  int        // of incomplete and staged objects
	staged use
	done   *list.List // of *doneEntry, oldest first
	place  int        // in Receiver.most, from 1; 0: it is not there
}

// oldest returns the oldest finished object of a topic that has one.
func (t *topicUse) oldest() *doneEntry { return t.done.Front().Value.(*doneEntry) }

func (t *topicUse) objects() int { return t.idle.Len() + t.staged.objects }

type doneEntry struct {
	key    partKey
	number int // of finished objects before it
	total  int
	again  []uint64 // bit i%64 of word i/64: chunk i came again since the object was finished
	count  int      // of these
}

// Staged is a complete object. It counts against the bounds of its Receiver until Done. Its bytes are those of the
// payloads that were fed, or a copy. They stay as they are, also after Done.
type Staged struct {
	Topic  string
	Sealed []byte   // nil where there are Pieces
	Pieces [][]byte // of an object that came in several chunks, after Receiver.Apart
	ID     [32]byte // ObjectID of the object
	// Took is how long the Receiver worked on the object; waiting for room does not count.
	Took   time.Duration
	hashed bool     // ID was compared with Sealed, and digest comes from there
	digest [32]byte // of the front of Sealed
	done   func()
}

// Size returns the bytes of the object.
func (s *Staged) Size() int { return len(s.Sealed) + pieces.Len(s.Pieces) }

// Whole returns the sealed object, a copy of its pieces if it has several.
func (s *Staged) Whole() []byte {
	if s.Pieces == nil {
		return s.Sealed
	}
	return pieces.Join(s.Pieces)
}

// Begin returns bytes with which the object begins: the first chunk, or all.
func (s *Staged) Begin() []byte {
	if s.Pieces == nil {
		return s.Sealed
	}
	return s.Pieces[0]
}

// Done says that the object was worked off. It may be called twice.
func (s Staged) Done() { s.done() }

// use is how much is held.
type use struct{ objects, bytes int }
