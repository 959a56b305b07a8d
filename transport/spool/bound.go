package spool

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// maxReserve is the most that is left to others, in bytes (see Options.Reserve).
const maxReserve = 64 << 20

// Cramped says that the disk has only the reserve left for one more object like the largest
// that waits; nil if it has more, or if none is kept.
func (s *Spool) Cramped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(1)
	for _, q := range s.streams {
		for _, e := range q.entries {
			n = max(n, e.size)
		}
	}
	return s.cramped(n)
}

// cramped says that an object of n bytes would need the reserve. The caller holds mu.
func (s *Spool) cramped(n int64) error {
	if !s.o.Reserve {
		return nil
	}
	for _, d := range s.dirs {
		size, left := d.fs.Room(d.path)
		if keep := min(size/8, maxReserve); size > 0 && left-s.pbytes-n < keep {
			return fmt.Errorf("%w: the disk of %s has %d bytes left, and %d are kept for what empties the queue",
				unix.ENOSPC, d.path, left, keep)
		}
	}
	return nil
}

// reserve waits or makes room until h fits, and numbers it.
func (s *Spool) reserve(ctx context.Context, h *Header) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(h.Stream)
	if q.limit.Bytes > 0 && h.Size > q.limit.Bytes || s.o.Bytes > 0 && h.Size > s.o.Bytes {
		s.stats.Dropped++
		return fmt.Errorf("%w: an object of %d bytes never fits", ErrFull, h.Size)
	}
	for {
		if s.closed {
			return ErrClosed
		}
		s.expire()
		if err := s.cramped(h.Size); err != nil {
			s.stats.Dropped++
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		full := s.full(q, h.Size)
		if full == nil {
			h.Number = s.next
			s.next++
			s.pending++
			s.pbytes += h.Size
			return nil
		}
		switch q.limit.Full {
		case DropNewest:
			s.stats.Dropped++
			return fmt.Errorf("%w: %w", ErrFull, full)
		case Block:
			if err := s.wait(ctx); err != nil {
				return err
			}
		default:
			if !s.dropFor(q, h.Size) { // all that is there is being sent
				s.stats.Dropped++
				return fmt.Errorf("%w: %w", ErrFull, full)
			}
		}
	}
}

// Room reports whether an object of n bytes is within the bounds on all streams, and leaves
// the reserve of the disk.
func (s *Spool) Room(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.o.Objects <= 0 || s.objects+s.pending < s.o.Objects) &&
		(s.o.Bytes <= 0 || s.bytes+s.pbytes+n <= s.o.Bytes) && s.cramped(n) == nil
}

// full says which bound one more object of n bytes would break. The caller holds mu.
func (s *Spool) full(q *queue, n int64) error {
	if err := q.full(n); err != nil {
		return err
	}
	switch {
	case s.o.Objects > 0 && s.objects+s.pending >= s.o.Objects:
		return fmt.Errorf("%d objects wait", s.objects)
	case s.o.Bytes > 0 && s.bytes+s.pbytes+n > s.o.Bytes:
		return fmt.Errorf("%d bytes wait", s.bytes)
	}
	return nil
}

// full returns which bound of the stream itself is reached, or nil.
func (q *queue) full(n int64) error {
	switch {
	case q.limit.Objects > 0 && q.live >= q.limit.Objects:
		return fmt.Errorf("%d objects of stream %s wait", q.live, q.name)
	case q.limit.Bytes > 0 && q.bytes+n > q.limit.Bytes:
		return fmt.Errorf("%d bytes of stream %s wait", q.bytes, q.name)
	}
	return nil
}

// wait unlocks mu until something changes.
func (s *Spool) wait(ctx context.Context) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dropFor drops the oldest object of q to make room for n bytes. If q has none and the bound
// on all streams is reached, it drops one of another stream that drops its oldest. The
// caller holds mu.
func (s *Spool) dropFor(q *queue, n int64) bool {
	if e := oldest(q); e != nil {
		s.drop(q, e)
		s.stats.Dropped++
		return true
	}
	if q.full(n) != nil {
		return false
	}
	var victim *entry
	var of *queue
	for _, name := range s.names {
		o := s.streams[name]
		if o.limit.Full != DropOldest && o.limit.Full != "" {
			continue
		}
		if e := oldest(o); e != nil && (victim == nil || e.number < victim.number) {
			victim, of = e, o
		}
	}
	if victim == nil {
		return false
	}
	s.drop(of, victim)
	s.stats.Dropped++
	return true
}

// oldest returns the first object of q that nobody is sending.
func oldest(q *queue) *entry {
	for _, e := range q.entries {
		if !e.leased && !e.gone {
			return e
		}
	}
	return nil
}

// drop removes an object that was not delivered. The caller holds mu.
func (s *Spool) drop(q *queue, e *entry) {
	s.log.Warn("a window is dropped", "stream", q.name, "number", e.number, "age", s.age(e).Round(time.Second))
	s.remove(q, e)
	s.signal() // who waits for room
}

// expire drops what is too old. The caller holds mu.
func (s *Spool) expire() {
	for _, name := range s.names {
		q := s.streams[name]
		if q.limit.Age <= 0 {
			continue
		}
		for e := oldest(q); e != nil && s.age(e) > q.limit.Age; e = oldest(q) {
			s.stats.Expired++
			s.drop(q, e)
		}
	}
}
