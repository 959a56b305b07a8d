package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// mustWait reports whether an object that is too large for memory waits for the disk. It
// does if its stream drops nothing.
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
		s.log.Error("the spool cannot be written; windows stay in memory, inputs that can wait do", "dir", s.o.Dir,
			"cause", Cause(err), "error", err)
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
