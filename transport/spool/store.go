package spool

import (
	"context"
	"time"
)

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
