package spool

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

var emptyID = sha256.Sum256(nil)

// sane is earlier than any time that a board with a working clock can have written.
var sane = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// load reads the directories and rebuilds the index. Headers and lengths are
// checked here, bodies when they are read for sending.
func (s *Spool) load() error {
	objects := map[uint64]*found{}
	for i, d := range s.dirs {
		list, err := d.fs.ReadDir(d.path)
		if err != nil {
			return err
		}
		for _, f := range list {
			name := f.Name()
			switch {
			case strings.HasSuffix(name, tempSuffix) && ours(strings.TrimSuffix(name, tempSuffix)):
				if name = s.finish(d, name); name == "" {
					continue
				}
			case f.IsDir():
				continue
			}
			if stream, ok := streamOf(name, markSuffix); ok {
				s.loadMark(d, name, stream)
			} else if stream, ok := streamOf(name, lastSuffix); ok {
				s.loadLast(d, name, stream)
			} else if number, ok := numberOf(name, objectSuffix); ok {
				s.next = max(s.next, number+1)
				o := objects[number]
				if o == nil {
					o = &found{bad: make([]error, len(s.dirs))}
					for j := range o.bad {
						o.bad[j] = fs.ErrNotExist
					}
					objects[number] = o
				}
				h, err := s.inspect(d, name, number)
				// Where the copies differ, a crash cut Replace short: the first is newer.
				if o.bad[i] = err; err == nil && (i == 0 || o.bad[0] != nil) {
					o.h = h
				}
			}
		}
	}
	numbers := make([]uint64, 0, len(objects))
	for n := range objects {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		s.adopt(n, objects[n])
	}
	if s.stats.Recovered > 0 {
		s.log.Info("the spool holds windows of an earlier run", "dir", s.o.Dir, "objects", s.objects, "bytes", s.bytes)
	}
	return nil
}

// found is an object file as the directories have it.
type found struct {
	h   Header
	bad []error // per directory: nil where the file is sound
}

func makeDir(d directory) error {
	if err := d.fs.Mkdir(d.path); err != nil {
		return fmt.Errorf("%w; make its parent directory first", err)
	}
	return nil
}

// finish completes a temporary file that is whole, whose rename was lost, and
// removes any other. It returns the name that the file has now, or "".
func (s *Spool) finish(d directory, temp string) string {
	name := strings.TrimSuffix(temp, tempSuffix)
	number, isObject := numberOf(name, objectSuffix)
	b, err := d.read(temp, maxHeader+MaxObject+trailer+1, nil)
	if err == nil {
		var h Header
		if h, _, _, err = Decode(b); err == nil && isObject && h.Number == number {
			if _, _, err := d.header(name); errors.Is(err, fs.ErrNotExist) &&
				d.fs.Rename(d.join(temp), d.join(name)) == nil && d.fs.SyncDir(d.path) == nil {
				s.stats.Repaired++
				return name
			}
		}
	}
	if isObject {
		s.next = max(s.next, number+1)
	}
	if err := d.fs.Remove(d.join(temp)); err != nil {
		s.log.Warn("cannot remove an unfinished file", "file", d.join(temp), "error", err)
	}
	return ""
}

// inspect checks the header and the length of an object file and cuts off what
// is too much.
func (s *Spool) inspect(d directory, name string, number uint64) (Header, error) {
	h, extra, err := d.header(name)
	switch {
	case err != nil:
		return h, err
	case h.Number != number:
		return h, fmt.Errorf("%w: it holds number %016x", ErrFormat, h.Number)
	case h.Size == 0:
		return h, fmt.Errorf("%w: an empty object", ErrFormat)
	case extra > 0:
		if err := d.fs.Truncate(d.join(name), h.fileSize(), true); err == nil {
			s.stats.Repaired++
		}
	}
	return h, nil
}

// loadMark takes over the position of a stream's input.
func (s *Spool) loadMark(d directory, name, stream string) {
	b, err := d.read(name, maxHeader+trailer+1, nil)
	var h Header
	if err == nil {
		h, _, _, err = Decode(b)
	}
	if err == nil && (h.Stream != stream || h.Size != 0) {
		err = ErrFormat
	}
	if err != nil {
		s.stats.Damaged++
		s.log.Error("the position of an input is lost; the input continues after the newest window in the spool",
			"stream", stream, "error", err)
		_ = d.quarantine(name, s.o.KeepDamaged, s.o.KeepDamagedBytes)
		return
	}
	s.next = max(s.next, h.Number+1)
	if q := s.queue(stream); h.Number > q.mark {
		q.mark, q.cursor = h.Number, h.Cursor
	}
}

// loadLast takes over the time of the newest object that left. An unreadable file stays until
// the next one replaces it, since nothing but a time is lost.
func (s *Spool) loadLast(d directory, name, stream string) {
	var h Header
	b, err := d.read(name, maxHeader, nil)
	if err == nil {
		h, _, err = DecodeHeader(b)
	}
	if err != nil || h.Stream != stream {
		return
	}
	s.next = max(s.next, h.Number+1)
	q := s.queue(h.Stream)
	q.left, q.last = max(q.left, h.Number), max(q.last, h.Created)
}

// adopt puts an object of an earlier process into the index, restores what only
// the mirror has, and quarantines what nobody has.
func (s *Spool) adopt(number uint64, o *found) {
	good := slices.Index(o.bad, nil)
	name := objectName(number)
	if good > 0 && !s.restore(number, o) {
		good = -1
	}
	if good < 0 {
		why := o.bad[0]
		for i, d := range s.dirs {
			if errors.Is(why, fs.ErrNotExist) {
				why = o.bad[i]
			}
			_ = d.quarantine(name, s.o.KeepDamaged, s.o.KeepDamagedBytes)
		}
		if errors.Is(why, io.ErrUnexpectedEOF) || errors.Is(why, io.EOF) {
			why = ErrTorn
		}
		s.stats.Damaged++
		s.log.Error("a window is lost: its file is damaged", "file", name, "error", why)
		return
	}
	if good == 0 && len(s.dirs) > 1 && o.bad[1] != nil {
		s.remirror(number, o)
	}
	h := &o.h
	q := s.queue(h.Stream)
	e := &entry{number: number, size: h.Size, id: h.ID, topic: h.Topic, cursor: len(h.Cursor) > 0, since: s.o.Mono(),
		recovered: true}
	if now, then := s.o.Now(), time.Unix(0, h.Created); now.After(sane) && then.After(sane) {
		e.age0 = max(now.Sub(then), 0)
	}
	s.stats.Recovered++
	q.last = max(q.last, h.Created)
	s.insert(q, e)
	if e.cursor && number > q.mark { // numbers ascend: the newest wins
		q.cursor = h.Cursor
	}
}

// remirror writes missing and damaged copies to the mirror until it takes nothing more. On a
// new disk all copies are missing.
func (s *Spool) remirror(number uint64, o *found) {
	if s.mirrorless {
		return
	}
	h, object, err := s.dirs[0].object(number, nil)
	if err != nil {
		return // it shows when the object is read
	}
	if !errors.Is(o.bad[1], fs.ErrNotExist) {
		_ = s.dirs[1].quarantine(objectName(number), s.o.KeepDamaged, s.o.KeepDamagedBytes)
	}
	if err := s.dirs[1].write(objectName(number), pieces(&h, object)); err != nil {
		s.mirrorless = true
		s.note(err, "mirror")
		return
	}
	s.stats.Repaired++
}

// restore writes the first copy from the mirror.
func (s *Spool) restore(number uint64, o *found) bool {
	h, object, err := s.dirs[1].object(number, nil)
	if err != nil {
		o.bad[1] = err
		return false
	}
	if !errors.Is(o.bad[0], fs.ErrNotExist) {
		_ = s.dirs[0].quarantine(objectName(number), s.o.KeepDamaged, s.o.KeepDamagedBytes)
	}
	if err := s.dirs[0].write(objectName(number), pieces(&h, object)); err != nil {
		s.log.Warn("cannot restore a file from the mirror yet", "file", objectName(number), "error", err)
	}
	s.stats.Repaired++
	return true
}
