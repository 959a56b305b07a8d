package spool

import (
	"context"
	"fmt"
)

// Tick does what waits for the disk: it writes objects that are in memory and
// removes files that could not be removed. Call it now and then.
func (s *Spool) Tick() {
	if !s.Durable() {
		return
	}
	s.mu.Lock()
	s.expire()
	for _, q := range s.streams {
		for _, e := range append([]*entry(nil), q.entries...) {
			if e.gone {
				s.remove(q, e)
			}
		}
	}
	due := s.inMem > 0 && s.o.Mono() >= s.retryAt
	s.mu.Unlock()
	if due {
		s.Flush()
	}
}

// toMemory keeps an object that the disk did not take. It waits or drops as the
// stream's policy says.
func (s *Spool) toMemory(ctx context.Context, h *Header, it Item, e *entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(h.Stream)
	if h.Size > s.o.Memory {
		s.stats.Dropped++
		return fmt.Errorf("%w: an object of %d bytes never fits into memory", ErrFull, h.Size)
	}
	for s.memory+h.Size > s.o.Memory {
		if s.closed {
			return ErrClosed
		}
		switch {
		case q.limit.Full == Block:
			if err := s.wait(ctx); err != nil {
				return err
			}
		case q.limit.Full == DropNewest || !s.dropMemory(q):
			s.stats.Dropped++
			return ErrFull
		}
	}
	e.body = it.Sealed
	return nil
}

// dropMemory drops the oldest object of q that is in memory. The caller holds mu.
func (s *Spool) dropMemory(q *queue) bool {
	for _, e := range q.entries {
		if e.body != nil && !e.leased && !e.gone {
			s.drop(q, e)
			s.stats.Dropped++
			return true
		}
	}
	return false
}

// Flush writes the objects that are in memory, oldest first, until the disk
// refuses one; those that are leased stay. Tick does it when it is time.
func (s *Spool) Flush() {
	for s.Durable() {
		s.mu.Lock()
		var e *entry
		var of *queue
		for _, q := range s.streams {
			for _, x := range q.entries {
				if x.body != nil && !x.gone && !x.leased && (e == nil || x.number < e.number) {
					e, of = x, q
				}
			}
		}
		if e == nil {
			s.mu.Unlock()
			return
		}
		body := e.body
		h := Header{Number: e.number, Created: s.o.Now().Add(-s.age(e)).UnixNano(), ID: e.id, Size: e.size,
			Stream: of.name, Topic: e.topic}
		s.mu.Unlock()
		if s.store(&h, body) != nil {
			return
		}
		s.mu.Lock()
		if e.gone || e.id != h.ID { // dropped, delivered or replaced meanwhile
			for _, d := range s.dirs {
				_ = d.fs.Remove(d.join(objectName(e.number)))
			}
		} else if e.body != nil {
			s.inMem--
			s.memory -= e.size
			e.body = nil
		}
		s.signal()
		s.mu.Unlock()
	}
}
