package transport

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Feed takes one chunk, or a short object, which is whole. It returns nil for a chunk that was kept, came again, or
// completed its object. When the handler fails, the error wraps ErrHandler. After Close it is ErrClosed
// for a chunk that was not taken. Any other error is a refusal, which is counted. The Receiver
// keeps the payload, which the caller must not change afterwards.
func (r *Receiver) Feed(topic string, payload []byte) error {
	c, err := r.chunk(payload)
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
	s := p.complete(r.apart)
	s.done = sync.OnceFunc(func() { r.release(p) })
	if s.ID != key.id {
		r.forget(key)
		s.Done()
		err := fmt.Errorf("%w: %d chunks do not make up object %x", ErrHash, p.total, key.id[:6])
		r.counters.Refuse(err)
		return err
	}
	s.Took = p.took + time.Since(began)
	if err := r.onObject(s); err != nil {
		r.forget(key)
		s.Done()
		return fmt.Errorf("%w: %w", ErrHandler, err)
	}
	r.counters.Accept()
	return nil
}

// chunk returns what a message carries. A short object is one piece of itself.
func (r *Receiver) chunk(payload []byte) (*Chunk, error) {
	if !IsShort(payload) {
		return UnmarshalChunk(payload, r.limits.MaxObject)
	}
	if n := len(payload); n > min(MaxShort, r.limits.MaxObject) {
		return nil, fmt.Errorf("%w: short object of %d bytes", ErrTooLarge, n)
	}
	return &Chunk{Object: ObjectID(payload), Total: 1, Size: len(payload), Data: payload}, nil
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
	if p.sums != nil {
		p.sums.came(p.pieces)
	}
	p.last = r.limits.Now()
	p.took += time.Since(began)
	r.bytes += len(c.Data)
	t := r.topics[key.topic]
	t.bytes += len(c.Data)
	t.idle.MoveToBack(p.elem)
	if len(p.pieces) < p.total {
		go p.sums.work()
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
	if p.total > 1 {
		p.sums = &pieceSums{hash: newObjectHash(c.Size)}
	}
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
