package spool

import (
	"fmt"
	"slices"
	"time"
)

// Health returns nil when objects go to disk, and otherwise why they do not.
func (s *Spool) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return nil
	}
	return fmt.Errorf("the spool %s cannot be written (%s); %d windows wait in memory: %w", s.o.Dir, Cause(s.failure),
		s.inMem, s.failure)
}

// Cursor returns the position of the newest object of a stream that is or was on
// disk, or nil.
func (s *Spool) Cursor(stream string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.streams[stream]; q != nil {
		return slices.Clone(q.cursor)
	}
	return nil
}

// Last returns when an earlier process put in the newest object of a stream, or the zero
// time if that is not known. The object may have left since.
func (s *Spool) Last(stream string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.streams[stream]; q != nil && q.last != 0 {
		return time.Unix(0, q.last)
	}
	return time.Time{}
}

// Stats returns the counts so far.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Objects, out.Bytes, out.MemoryObjects, out.MemoryBytes = s.objects, s.bytes, s.inMem, s.memory
	if !s.Durable() {
		out.MemoryObjects, out.MemoryBytes = s.objects, s.bytes
	}
	for _, q := range s.streams {
		for _, e := range q.entries {
			if !e.gone {
				out.Oldest = max(out.Oldest, s.age(e))
				break
			}
		}
	}
	return out
}

// Streams returns the counts of every stream of which something waits.
func (s *Spool) Streams() map[string]StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]StreamStats{}
	for name, q := range s.streams {
		if i := slices.IndexFunc(q.entries, func(e *entry) bool { return !e.gone }); i >= 0 {
			out[name] = StreamStats{Objects: q.live, Bytes: q.bytes, Oldest: s.age(q.entries[i])}
		}
	}
	return out
}
