package spool

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A directory belongs to one spool at a time, the mirror too; it is free again after
// Release, and after a start that failed.
func TestLock(t *testing.T) {
	dir, mirror, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"),
		filepath.Join(t.TempDir(), "c")
	s, err := Open(Options{Dir: dir, Mirror: mirror, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, item("a", 0, 10))
	for _, o := range []Options{{Dir: dir}, {Dir: mirror}, {Dir: other, Mirror: dir}, {Dir: other, Mirror: mirror}} {
		o.Logger = testrig.Quiet()
		if _, err := Open(o); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), filepath.Dir(dir)) &&
			!strings.Contains(err.Error(), filepath.Dir(mirror)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	free, err := Open(Options{Dir: other, Logger: testrig.Quiet()}) // the failures held on to nothing
	if err != nil {
		t.Fatal(err)
	}
	free.Release()
	s.Release()
	s.Release()
	again, err := Open(Options{Dir: dir, Mirror: mirror, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	want(t, drain(t, again), "0")
}

// FuzzOpen: whatever lies in the directory, a spool opens, gives what is sound, takes
// more, and finds all of it again after a restart.
func FuzzOpen(f *testing.F) {
	h, object := sample()
	file := encode(h, object)
	mark := encode(&Header{Number: 9, ID: emptyID, Stream: "env", Cursor: []byte("c")}, nil)
	for kind := range uint8(6) {
		f.Add(kind, file)
		f.Add(kind+132, file)
		f.Add(kind, file[:len(file)/2])
		f.Add(kind, mark)
		f.Add(kind, []byte{})
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		dir := testenv.QuickDir(t)
		name := objectName(h.Number) + []string{"", tempSuffix, ".x", "", "", ""}[kind%6]
		switch kind % 6 {
		case 3:
			name = "env" + markSuffix
		case 4:
			name = "env" + lastSuffix
		case 5:
			name = "env" + markSuffix + tempSuffix
		}
		if kind >= 128 { // beyond the checksums
			data = summed(data)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		own(t, dir)
		s := open(t, Options{Dir: dir})
		there := s.Stats().Objects
		put(t, s, item("env", 1, 10))
		s = open(t, Options{Dir: dir})
		defer s.Release()
		if st := s.Stats(); st.Objects != there+1 || st.Bytes < 10 {
			t.Fatalf("%d objects after %d: %+v", st.Objects, there, st)
		}
		if got := drain(t, s); len(got) < 1 || got[len(got)-1] != "1" {
			t.Fatalf("%q", got)
		}
	})
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
