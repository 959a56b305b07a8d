package spool

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hencedge/hencedge/internal/durable"
)

// ErrLocked: another process, or another spool of this process, uses the directory. Two
// spools would use the same numbers and overwrite each other's files.
var ErrLocked = errors.New("the spool is in use")

// Lock takes the directory for this spool until the closer is closed or the process
// ends. The lock belongs to the directory itself, so there is no file that could stay
// behind. A file system without such locks gives nil: nothing is refused there.
func (disk) Lock(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	switch err := durable.TryLock(int(f.Fd())); {
	case err == nil:
		return f, nil
	case errors.Is(err, durable.ErrLocked):
		f.Close()
		return nil, fmt.Errorf("%w: %s: stop the other process, or give each its own directory", ErrLocked, name)
	}
	f.Close()
	return nil, nil
}

// lock takes every directory and makes it the spool's own, or none.
func (s *Spool) lock() error {
	for _, d := range s.dirs {
		if err := s.take(d); err != nil {
			s.Release()
			return err
		}
	}
	return nil
}

func (s *Spool) take(d directory) error {
	if err := CheckPlace(d.path); err != nil {
		return err
	}
	if err := makeDir(d); err != nil {
		return err
	}
	owned, err := d.owned()
	if err != nil {
		return err
	}
	held, err := d.fs.Lock(d.path)
	if err != nil {
		return err
	}
	if held == nil {
		s.log.Warn("this file system has no locks: make sure that no other process uses the spool", "dir", d.path)
	} else {
		s.locks = append(s.locks, held)
	}
	if d.claimed.done = owned; !owned {
		_ = d.claim() // a disk that takes nothing now gets the marker with the first file
	}
	return nil
}

// Release unlocks the directories, so that another spool can open them. Call it last, when
// no lease is left. It may be called twice.
func (s *Spool) Release() {
	for _, l := range s.locks {
		_ = l.Close()
	}
	s.locks = nil
}
