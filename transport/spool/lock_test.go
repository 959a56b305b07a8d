package spool

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// A directory belongs to one spool at a time, the mirror too; it is free again after
// Release, and after a start that failed.
func TestLock(t *testing.T) {
	dir, mirror, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "c")
	s, err := Open(Options{Dir: dir, Mirror: mirror, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, item("a", 0, 10))
	for _, o := range []Options{{Dir: dir}, {Dir: mirror}, {Dir: other, Mirror: dir}, {Dir: other, Mirror: mirror}} {
		o.Logger = quiet()
		if _, err := Open(o); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), filepath.Dir(dir)) && !strings.Contains(err.Error(), filepath.Dir(mirror)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	free, err := Open(Options{Dir: other, Logger: quiet()}) // the failures held on to nothing
	if err != nil {
		t.Fatal(err)
	}
	free.Release()
	s.Release()
	s.Release()
	again, err := Open(Options{Dir: dir, Mirror: mirror, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	want(t, drain(t, again), "0")
}

// lockless is a file system without locks.
type lockless struct{ disk }

func (lockless) Lock(string) (io.Closer, error) { return nil, nil }

// Where there are no locks, the spool works and says so.
func TestNoLocks(t *testing.T) {
	var out strings.Builder
	s, err := Open(Options{Dir: t.TempDir(), Logger: textLogger(&out), fs: lockless{}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, item("a", 0, 10))
	want(t, drain(t, s), "0")
	if !strings.Contains(out.String(), "no locks") {
		t.Errorf("log: %s", &out)
	}
}
