package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/transport"
)

// Put keeps an object. After nil the object is safe on disk. If the disk takes nothing and
// the item has no cursor, it is in memory (see Health). When the stream or the spool is full,
// Put does what the stream's policy says. It fails when ctx ends or the item is not valid,
// with ErrClosed after Close, and with ErrFull when the object itself was dropped.
func (s *Spool) Put(ctx context.Context, it Item) error {
	_, err := s.Add(ctx, it)
	return err
}

// Add is Put, and returns the object's number.
func (s *Spool) Add(ctx context.Context, it Item) (number uint64, err error) {
	h := Header{Created: s.o.Now().UnixNano(), ID: transport.ObjectID(it.Sealed), Size: int64(len(it.Sealed)),
		Stream: it.Stream, Topic: it.Topic, Cursor: it.Cursor}
	if err := h.check(); err != nil {
		return 0, fmt.Errorf("spool: %w", err)
	}
	if h.Size == 0 {
		return 0, errors.New("spool: an empty object")
	}
	if err := s.reserve(ctx, &h); err != nil {
		return 0, err
	}
	e := &entry{number: h.Number, size: h.Size, id: h.ID, topic: it.Topic, cursor: len(it.Cursor) > 0,
		since: s.o.Mono()}
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

// mustWait reports whether an object that is too large for memory waits for the disk. It
// does if its stream drops nothing.
func (s *Spool) mustWait(h *Header) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.Size > s.o.Memory && s.queue(h.Stream).limit.Full == Block
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
