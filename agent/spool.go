package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hencedge/hencedge/config"
)

// Item is a sealed object on its way to the broker.
type Item struct {
	Topic  string
	Sealed []byte
}

// Spool keeps sealed objects until the broker has them. The agent has one
// producer per stream and one consumer.
type Spool interface {
	// Put adds an item. When the spool is full it drops or waits, as it was
	// configured; it fails when ctx ends, after Close (ErrSpoolClosed), or with
	// ErrSpoolFull for an item that was itself dropped.
	Put(ctx context.Context, it Item) error
	// Next waits for the oldest item. After Close it gives what is left and then
	// ErrSpoolClosed. The item stays in the spool until Done.
	Next(ctx context.Context) (Item, error)
	// Done removes the item that Next gave last.
	Done()
	// Close refuses further items; it may be called twice.
	Close()
	Stats() SpoolStats
}

// Errors of a spool.
var (
	ErrSpoolFull   = errors.New("the queue is full")
	ErrSpoolClosed = errors.New("the queue is closed")
)

// memorySpool is a bounded queue in memory.
type memorySpool struct {
	limit config.Queue

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	items   []Item
	bytes   int64
	busy    bool // items[0] is out with the consumer
	closed  bool
	dropped uint64
}

// NewMemorySpool is a spool in memory, bounded in objects and bytes.
func NewMemorySpool(q config.Queue) Spool {
	return &memorySpool{limit: q, changed: make(chan struct{})}
}

// signal wakes everybody; mu is held.
func (s *memorySpool) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// fits reports whether n more bytes fit; mu is held.
func (s *memorySpool) fits(n int64) bool {
	return len(s.items) < s.limit.Objects && s.bytes+n <= int64(s.limit.Bytes)
}

func (s *memorySpool) Put(ctx context.Context, it Item) error {
	n := int64(len(it.Sealed))
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > int64(s.limit.Bytes) {
		s.dropped++
		return fmt.Errorf("%w: an object of %d bytes never fits into %s", ErrSpoolFull, n, s.limit.Bytes)
	}
	for {
		if s.closed {
			return ErrSpoolClosed
		}
		if s.fits(n) {
			s.items = append(s.items, it)
			s.bytes += n
			s.signal()
			return nil
		}
		switch s.limit.Full {
		case config.QueueDropNewest:
			s.dropped++
			return ErrSpoolFull
		case config.QueueBlock:
			if err := s.wait(ctx); err != nil {
				return err
			}
		default:
			if !s.dropOldest() { // all that is there is being sent
				s.dropped++
				return ErrSpoolFull
			}
		}
	}
}

// dropOldest drops the oldest item that the consumer does not hold; mu is held.
func (s *memorySpool) dropOldest() bool {
	first := 0
	if s.busy {
		first = 1
	}
	if len(s.items) <= first {
		return false
	}
	s.bytes -= int64(len(s.items[first].Sealed))
	s.items = append(s.items[:first], s.items[first+1:]...)
	s.dropped++
	return true
}

// wait lets go of mu until something changes.
func (s *memorySpool) wait(ctx context.Context) error {
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

func (s *memorySpool) Next(ctx context.Context) (Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return Item{}, err
		}
		if len(s.items) > 0 {
			s.busy = true
			return s.items[0], nil
		}
		if s.closed {
			return Item{}, ErrSpoolClosed
		}
		if err := s.wait(ctx); err != nil {
			return Item{}, err
		}
	}
}

func (s *memorySpool) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy {
		return
	}
	s.busy = false
	s.bytes -= int64(len(s.items[0].Sealed))
	s.items[0] = Item{}
	s.items = s.items[1:]
	s.signal()
}

func (s *memorySpool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.signal()
	}
}

func (s *memorySpool) Stats() SpoolStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SpoolStats{Objects: len(s.items), Bytes: s.bytes, Dropped: s.dropped}
}
