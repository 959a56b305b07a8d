package spool

import (
	"errors"
	"io/fs"
	"slices"
)

// remove takes an object out: from the counts at once, from the disk as soon as
// that works. mu is held.
func (s *Spool) remove(q *queue, e *entry) {
	s.discount(q, e)
	e.leased = false
	if e.body == nil && s.Durable() && !s.erase(q, e) {
		return // Tick tries again
	}
	e.body, e.beside = nil, nil
	if i := slices.Index(q.entries, e); i >= 0 {
		q.entries = slices.Delete(q.entries, i, i+1)
	}
}

// erase removes the files of e, after its cursor is safe elsewhere. The caller holds mu.
func (s *Spool) erase(q *queue, e *entry) bool {
	if e.cursor && !s.safeCursor(q, e) {
		return false
	}
	for i, d := range s.dirs {
		name, gone := d.join(objectName(e.number)), d.fs.Remove
		if i == 0 && !e.cursor && e.number > q.left {
			// The newest one that left is kept, so that the next start knows until
			// when there are samples. It costs no more than removing it.
			gone = func(name string) error {
				h := Header{Stream: q.name, Topic: e.topic}
				last := d.join(q.name + lastSuffix)
				err := d.fs.Rename(name, last)
				if err == nil {
					_ = d.fs.Truncate(last, h.fileSize()-trailer, false) // its header is enough
				}
				return err
			}
		}
		if err := gone(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			if s.failure == nil {
				s.log.Warn("cannot remove a delivered window from the spool yet", "file", objectName(e.number),
					"cause", Cause(err), "error", err)
			}
			return false
		}
	}
	q.left = max(q.left, e.number)
	return true
}

// safeCursor makes sure that the disk knows a position at or after that of e
// without e's file. The caller holds mu.
func (s *Spool) safeCursor(q *queue, e *entry) bool {
	if q.mark >= e.number {
		return true
	}
	for _, o := range slices.Backward(q.entries) {
		if o.number <= e.number {
			break
		}
		if o.cursor && o.body == nil && !o.gone {
			return true
		}
	}
	h := Header{Number: e.number, Created: s.o.Now().UnixNano(), ID: emptyID, Stream: q.name, Cursor: q.cursor}
	content := pieces(&h, nil)
	for _, d := range s.dirs {
		if err := d.write(q.name+markSuffix, content); err != nil {
			return false
		}
		s.stats.Written += uint64(length(content))
		s.stats.Syncs += 2
	}
	q.mark = e.number
	return true
}
