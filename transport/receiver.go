package transport

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits bound what a Receiver keeps. A zero field means its default.
type Limits struct {
	MaxObject    int              // largest object, bytes; DefaultMaxObject
	MaxObjects   int              // incomplete objects in all; 256
	MaxBytes     int              // bytes of incomplete objects in all; 256 MiB
	TopicObjects int              // incomplete objects per topic; 16
	TopicBytes   int              // bytes of incomplete objects per topic; 2*MaxObject
	MaxAge       time.Duration    // an object without a new chunk for this long is dropped; 5 min
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
		l.MaxAge = 5 * time.Minute
	}
	if l.Now == nil {
		l.Now = time.Now
	}
	return l
}

// ErrHandler wraps an error of the object handler, so that it can be told from
// a refused chunk.
var ErrHandler = errors.New("object handler failed")

// Receiver puts chunks together and hands complete objects on. It is safe for
// concurrent use.
//
// Chunks arrive in any order and any number of times. Memory is bounded per
// topic (one topic is one sender's stream) and in all. When a new object does
// not fit, incomplete objects are dropped: within its own topic's bounds, the
// one of that topic that went longest without a new chunk; within the bounds of
// all, the longest idle one of the topic that holds the most bytes. So a topic
// that is flooded hurts itself first. Whatever is idle for MaxAge is dropped
// when a chunk arrives, or by Expire.
//
// A chunk that contradicts an earlier one of its object (other size, count, or
// other bytes at the same place) is refused and the earlier one kept. When an
// object is complete but its hash is wrong, all of it is dropped, and chunks
// sent again start over.
type Receiver struct {
	limits   Limits
	onObject func(topic string, sealed []byte) error
	counters *Counters

	mu     sync.Mutex
	parts  map[partKey]*partial
	topics map[string]*topicUse
	bytes  int
	done   map[partKey]*list.Element // of doneEntry
	order  *list.List                // finished objects, oldest first
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
}

type topicUse struct {
	idle  *list.List // of *partial, longest idle first
	bytes int
}

type doneEntry struct {
	key   partKey
	total int
	again []uint64 // bit i%64 of word i/64: chunk i came again since the object was finished
	count int      // of these
}

// NewReceiver makes a Receiver that calls onObject once per complete object.
// onObject runs on the goroutine that fed the last chunk, concurrently with
// other feeds; it should only stage the object and return. When it fails, the
// object is not remembered, so sending it again delivers it again.
func NewReceiver(limits Limits, onObject func(topic string, sealed []byte) error) *Receiver {
	return &Receiver{
		limits: limits.withDefaults(), onObject: onObject, counters: &Counters{},
		parts: make(map[partKey]*partial), topics: make(map[string]*topicUse),
		done: make(map[partKey]*list.Element), order: list.New(),
	}
}

// Counters count complete objects (Accepted), repeated chunks (Duplicates) and
// refusals by reason.
func (r *Receiver) Counters() *Counters { return r.counters }

// Handle feeds a delivery and acknowledges it, whatever becomes of it: a bad
// chunk would only come back. It is a handler for Client.Subscribe.
func (r *Receiver) Handle(d Delivery) {
	_ = r.Feed(d.Topic, d.Payload) // counted
	if d.Ack != nil {
		d.Ack()
	}
}

// Feed takes one chunk. It returns nil for a chunk that was kept, repeated, or
// completed its object; an error that wraps ErrHandler when the handler failed;
// and otherwise the refusal, which is counted.
func (r *Receiver) Feed(topic string, payload []byte) error {
	c, err := UnmarshalChunk(payload, r.limits.MaxObject)
	if err != nil {
		r.counters.Refuse(err)
		return err
	}
	key := partKey{topic, c.Object}
	p, err := r.add(key, c)
	if err != nil {
		r.counters.Refuse(err)
		return err
	}
	if p == nil {
		return nil
	}
	// The object is complete and remembered as finished; what is slow happens
	// outside the lock.
	sealed := p.join()
	if ObjectID(sealed) != key.id {
		r.forget(key)
		err := fmt.Errorf("%w: %d chunks do not make up object %x", ErrHash, p.total, key.id[:6])
		r.counters.Refuse(err)
		return err
	}
	if err := r.onObject(topic, sealed); err != nil {
		r.forget(key)
		return fmt.Errorf("%w: %w", ErrHandler, err)
	}
	r.counters.Accept()
	return nil
}

// join is the object that the pieces of a complete p make up.
func (p *partial) join() []byte {
	sealed := make([]byte, 0, p.size)
	for i := range p.total {
		sealed = append(sealed, p.pieces[i]...)
	}
	return sealed
}

// add keeps c and returns the object's pieces when c completes it.
func (r *Receiver) add(key partKey, c *Chunk) (*partial, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.limits.Now()
	r.expire(now)
	if e := r.done[key]; e != nil {
		return nil, r.repeated(e.Value.(*doneEntry), c)
	}
	p := r.parts[key]
	if p != nil {
		if p.size != c.Size || p.total != c.Total {
			return nil, fmt.Errorf("%w: object %x announced as %d bytes in %d chunks, before as %d in %d",
				ErrConflict, key.id[:6], c.Size, c.Total, p.size, p.total)
		}
		if old, ok := p.pieces[c.Index]; ok {
			if !bytes.Equal(old, c.Data) {
				return nil, fmt.Errorf("%w: chunk %d of object %x has other bytes than before", ErrConflict, c.Index, key.id[:6])
			}
			r.counters.Duplicate()
			return nil, nil
		}
	}
	if err := r.makeRoom(key, len(c.Data), p); err != nil {
		return nil, err
	}
	if p == nil {
		p = r.newPartial(key, c)
	}
	p.pieces[c.Index] = c.Data
	p.bytes += len(c.Data)
	p.last = now
	r.bytes += len(c.Data)
	t := r.topics[key.topic]
	t.bytes += len(c.Data)
	t.idle.MoveToBack(p.elem)
	if len(p.pieces) < p.total {
		return nil, nil
	}
	r.drop(p)
	r.remember(&doneEntry{key: key, total: p.total})
	return p, nil
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

func (r *Receiver) newPartial(key partKey, c *Chunk) *partial {
	t := r.topics[key.topic]
	if t == nil {
		t = &topicUse{idle: list.New()}
		r.topics[key.topic] = t
	}
	p := &partial{key: key, size: c.Size, total: c.Total, pieces: make(map[int][]byte)}
	p.elem = t.idle.PushBack(p)
	r.parts[key] = p
	return p
}

// drop forgets an incomplete object.
func (r *Receiver) drop(p *partial) {
	t := r.topics[p.key.topic]
	t.idle.Remove(p.elem)
	t.bytes -= p.bytes
	r.bytes -= p.bytes
	delete(r.parts, p.key)
	if t.idle.Len() == 0 {
		delete(r.topics, p.key.topic)
	}
}

func (r *Receiver) evict(p *partial, why string) {
	r.drop(p)
	r.counters.Refuse(fmt.Errorf("%w: object %x: %s", ErrEvicted, p.key.id[:6], why))
}

// makeRoom evicts until n more bytes fit, and one more object unless own is
// not nil. own itself is never evicted: when it alone fills its bounds, the
// chunk is refused.
func (r *Receiver) makeRoom(key partKey, n int, own *partial) error {
	more := 0
	if own == nil {
		more = 1
	}
	for {
		t := r.topics[key.topic]
		if t == nil || (t.bytes+n <= r.limits.TopicBytes && t.idle.Len()+more <= r.limits.TopicObjects) {
			break
		}
		p := longestIdle(t, own)
		if p == nil {
			return fmt.Errorf("%w: topic %q holds %d bytes", ErrLimit, key.topic, t.bytes)
		}
		r.evict(p, "its topic is full")
	}
	if n > r.limits.TopicBytes {
		return fmt.Errorf("%w: chunk of %d bytes, a topic may hold %d", ErrLimit, n, r.limits.TopicBytes)
	}
	for r.bytes+n > r.limits.MaxBytes || len(r.parts)+more > r.limits.MaxObjects {
		var worst *topicUse
		for _, t := range r.topics {
			if longestIdle(t, own) != nil && (worst == nil || t.bytes > worst.bytes) {
				worst = t
			}
		}
		if worst == nil {
			return fmt.Errorf("%w: %d incomplete objects hold %d bytes", ErrLimit, len(r.parts), r.bytes)
		}
		r.evict(longestIdle(worst, own), "all room is taken")
	}
	return nil
}

// longestIdle is the first of t's objects that is not own.
func longestIdle(t *topicUse, own *partial) *partial {
	for e := t.idle.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*partial); p != own {
			return p
		}
	}
	return nil
}

// Expire drops every object that is idle for MaxAge and returns how many. A
// service calls it now and then; Feed does it too.
func (r *Receiver) Expire() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expire(r.limits.Now())
}

func (r *Receiver) expire(now time.Time) (n int) {
	for _, t := range r.topics {
		for e := t.idle.Front(); e != nil; e = t.idle.Front() {
			p := e.Value.(*partial)
			if now.Sub(p.last) < r.limits.MaxAge {
				break
			}
			r.evict(p, "idle for too long")
			n++
		}
	}
	return n
}

// forget lets a finished object come again.
func (r *Receiver) forget(key partKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.done[key]; e != nil {
		r.order.Remove(e)
		delete(r.done, key)
	}
}

func (r *Receiver) remember(d *doneEntry) {
	r.done[d.key] = r.order.PushBack(d)
	for r.order.Len() > r.limits.Remember {
		e := r.order.Front()
		delete(r.done, e.Value.(*doneEntry).key)
		r.order.Remove(e)
	}
}

// Pending is the number of incomplete objects and the bytes that they hold.
func (r *Receiver) Pending() (objects, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.parts), r.bytes
}
