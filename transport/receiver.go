package transport

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"
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

// Feed takes one chunk. It returns nil for a chunk that was kept, came again, or completed
// its object. When the handler fails, the error wraps ErrHandler. After Close it is ErrClosed
// for a chunk that was not taken. Any other error is a refusal, which is counted. The Receiver
// keeps the payload, which the caller must not change afterwards.
func (r *Receiver) Feed(topic string, payload []byte) error {
	c, err := UnmarshalChunk(payload, r.limits.MaxObject)
	if err != nil {
		r.counters.Refuse(err)
		return err
	}
	key := partKey{topic, c.Object}
	if c.Total > 1 && cap(payload)-len(c.Data) > chunkOverhead+len(c.Data)/8 {
		c.Data = bytes.Clone(c.Data) // what is kept would be much larger than what is counted
	}
	p, err := r.add(key, c)
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err != nil {
		r.counters.Refuse(err)
		return err
	}
	if p == nil {
		return nil
	}
	began := time.Now()
	// The object is complete and remembered as finished; what is slow happens
	// outside the lock.
	whole := p.join()
	sealed := whole[len(whole)-p.size:]
	release := sync.OnceFunc(func() { r.release(p) })
	if ObjectID(sealed) != key.id {
		r.forget(key)
		release()
		err := fmt.Errorf("%w: %d chunks do not make up object %x", ErrHash, p.total, key.id[:6])
		r.counters.Refuse(err)
		return err
	}
	if err := r.onObject(Staged{topic, sealed, key.id, p.took + time.Since(began), true, whole, release}); err != nil {
		r.forget(key)
		release()
		return fmt.Errorf("%w: %w", ErrHandler, err)
	}
	r.counters.Accept()
	return nil
}

// ErrHandler wraps an error of the object handler, so that it can be told from
// a refused chunk.
var ErrHandler = errors.New("object handler failed")

// add keeps c and returns the object, which is staged then, when c completes it.
func (r *Receiver) add(key partKey, c *Chunk) (*partial, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := time.Now()
	var p *partial
	for {
		r.expire(r.limits.Now())
		if e := r.done[key]; e != nil {
			return nil, r.repeated(e.Value.(*doneEntry), c)
		}
		p = r.parts[key]
		if p != nil {
			if known, err := p.compare(c); err != nil {
				return nil, err
			} else if known {
				r.counters.Duplicate()
				return nil, nil
			}
		}
		wait, err := r.makeRoom(key, len(c.Data), p)
		if err != nil {
			return nil, err
		}
		if !wait {
			break
		}
		if r.closed {
			return nil, fmt.Errorf("object %x: %w", key.id[:6], ErrClosed)
		}
		r.room.Wait()
		began = time.Now() // what came before was waiting
	}
	if p == nil {
		p = r.newPartial(key, c)
	}
	p.pieces[c.Index] = c.Data
	p.bytes += len(c.Data)
	p.last = r.limits.Now()
	p.took += time.Since(began)
	r.bytes += len(c.Data)
	t := r.topics[key.topic]
	t.bytes += len(c.Data)
	t.idle.MoveToBack(p.elem)
	if len(p.pieces) < p.total {
		return nil, nil
	}
	t.idle.Remove(p.elem)
	delete(r.parts, key)
	for _, u := range []*use{&t.staged, &r.staged} {
		u.objects, u.bytes = u.objects+1, u.bytes+p.bytes
	}
	r.remember(&doneEntry{key: key, total: p.total})
	return p, nil
}

func (r *Receiver) newPartial(key partKey, c *Chunk) *partial {
	t := r.topics[key.topic]
	if t == nil {
		t = &topicUse{idle: list.New(), done: list.New()}
		r.topics[key.topic] = t
	}
	p := &partial{key: key, size: c.Size, total: c.Total, pieces: make(map[int][]byte)}
	p.elem = t.idle.PushBack(p)
	r.parts[key] = p
	return p
}

// repeated counts a chunk of an object that is finished. Single repetitions are
// what QoS 1 does; an object that comes again as a whole is a replay.
func (r *Receiver) repeated(d *doneEntry, c *Chunk) error {
	if c.Total == d.total {
		if d.again == nil {
			d.again = make([]uint64, (d.total+63)/64)
		}
		if word, bit := &d.again[c.Index/64], uint64(1)<<(c.Index%64); *word&bit == 0 {
			*word |= bit
			d.count++
		}
		if d.count == d.total {
			d.again, d.count = nil, 0
			return fmt.Errorf("%w: object %x came again as a whole", ErrReplayed, d.key.id[:6])
		}
	}
	r.counters.Duplicate()
	return nil
}

// release gives the room of a staged object back.
func (r *Receiver) release(p *partial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[p.key.topic]
	for _, u := range []*use{&t.staged, &r.staged} {
		u.objects, u.bytes = u.objects-1, u.bytes-p.bytes
	}
	t.bytes -= p.bytes
	r.bytes -= p.bytes
	r.tidy(p.key.topic)
	r.room.Broadcast()
}

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

// join returns the object that the pieces of a complete p make up, and lets go of them. If
// the pieces were several, the object is a copy, with signedRoom bytes before it.
func (p *partial) join() []byte {
	whole := p.pieces[0]
	if p.total > 1 {
		whole = make([]byte, signedRoom, signedRoom+p.size)
		for i := range p.total {
			whole = append(whole, p.pieces[i]...)
		}
	}
	p.pieces = nil
	return whole
}

type topicUse struct {
	idle   *list.List // of *partial, longest idle first
	bytes  int        // of incomplete and staged objects
	staged use
	done   *list.List // of *doneEntry, oldest first
}

func (t *topicUse) objects() int { return t.idle.Len() + t.staged.objects }

type doneEntry struct {
	key    partKey
	number int // of finished objects before it
	total  int
	again  []uint64 // bit i%64 of word i/64: chunk i came again since the object was finished
	count  int      // of these
}

// Staged is a complete object. It counts against the bounds of its Receiver until Done.
type Staged struct {
	Topic  string
	Sealed []byte
	ID     [32]byte // ObjectID of Sealed
	// Took is how long the Receiver worked on the object; waiting for room does not count.
	Took   time.Duration
	hashed bool   // ID was compared with Sealed
	whole  []byte // ends with Sealed; what lies before is the Receiver's own
	done   func()
}

// Done says that the object was worked off. It may be called twice.
func (s Staged) Done() { s.done() }

// use is how much is held.
type use struct{ objects, bytes int }
