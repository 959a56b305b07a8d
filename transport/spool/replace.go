package spool

import (
	"fmt"

	"github.com/hencedge/hencedge/transport"
)

// Replace puts another object in the place of the leased one, with the same number, stream,
// topic, time and cursor. It is for the same content under another header, for example. A
// crash leaves the old object or the new one.
//
// A full disk does not hold it up, since it may be full of objects that wait for this one.
// The new object is then in memory beside the old one's file, which is removed when the new
// one is delivered.
//
// The lease goes on. When the new object is leased again, it counts as never sent.
func (l *Lease) Replace(sealed []byte) error {
	s, e := l.s, l.e
	if len(sealed) == 0 || len(sealed) > MaxObject {
		return fmt.Errorf("spool: replace an object by one of %d bytes, want 1 to %d", len(sealed), MaxObject)
	}
	id := transport.ObjectID(sealed)
	s.mu.Lock()
	if e.body != nil { // a file that Flush is writing now will not count
		defer s.mu.Unlock()
		l.become(id, sealed)
		e.body = sealed
		return nil
	}
	s.mu.Unlock()
	var beside []byte
	there, err := s.rewrite(e, id, sealed)
	switch {
	case there:
	case damage(err):
		return fmt.Errorf("spool: %w", err)
	default:
		beside = sealed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.become(id, sealed)
	e.beside = beside
	return nil
}

// become counts the new object in the place of the old one. The caller holds mu.
func (l *Lease) become(id [32]byte, sealed []byte) {
	s, e := l.s, l.e
	grown := int64(len(sealed)) - e.size
	l.q.bytes += grown
	s.bytes += grown
	if e.body != nil && s.Durable() {
		s.memory += grown
	}
	e.id, e.size, e.attempts, e.recovered, e.conflict = id, int64(len(sealed)), 0, false, false
	l.ID, l.Size = e.id, e.size
}

// rewrite puts another object into the files of e, and reports whether it is there. The
// first copy decides, as in store.
func (s *Spool) rewrite(e *entry, id [32]byte, sealed []byte) (there bool, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	name := objectName(e.number)
	var h Header
	for _, d := range s.dirs {
		if h, _, err = d.header(name); err == nil {
			break
		}
	}
	if err != nil {
		return false, err
	}
	h.ID, h.Size = id, int64(len(sealed))
	content := pieces(&h, sealed)
	there, err = s.dirs[0].replace(name, content)
	s.outcome(err, length(content))
	if !there {
		return false, err
	}
	for _, d := range s.dirs[1:] {
		if _, merr := d.replace(name, content); merr != nil {
			s.note(merr, "mirror")
		}
	}
	return true, nil
}
