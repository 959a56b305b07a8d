package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
)

// An object that is replaced keeps its place, its cursor and its time; what is counted
// is what is there.
func TestReplace(t *testing.T) {
	for _, kind := range []string{"memory", "disk", "mirror"} {
		t.Run(kind, func(t *testing.T) {
			root := t.TempDir()
			o := Options{}
			if kind != "memory" {
				o.Dir = filepath.Join(root, "a")
			}
			if kind == "mirror" {
				o.Mirror = filepath.Join(root, "b")
			}
			s := open(t, o)
			for i := range 3 {
				it := item("in", i, 40)
				if kind != "memory" {
					it.Cursor = []byte{byte(i)}
				}
				put(t, s, it)
			}
			l := s.TryLease(Oldest, 0)
			other := bytes.Repeat([]byte("x"), 55)
			if err := l.Replace(other); err != nil {
				t.Fatal(err)
			}
			if l.ID != transport.ObjectID(other) || l.Size != 55 {
				t.Errorf("%+v", l)
			}
			if got, err := l.Sealed(); err != nil || !bytes.Equal(got, other) {
				t.Errorf("%q, %v", got, err)
			}
			for _, bad := range [][]byte{nil, make([]byte, MaxObject+1)} {
				if l.Replace(bad) == nil {
					t.Errorf("%d bytes were taken", len(bad))
				}
			}
			l.Return(0)
			if st := s.Stats(); st.Bytes != 135 || st.Objects != 3 {
				t.Errorf("%+v", st)
			}
			if kind != "memory" {
				s = open(t, o)
				if st := s.Stats(); st.Bytes != 135 || st.Objects != 3 || st.Damaged != 0 || s.Cursor("in")[0] != 2 {
					t.Errorf("after a start: %+v, cursor %v", st, s.Cursor("in"))
				}
			}
			l = s.TryLease(Oldest, 0)
			if got, err := l.Sealed(); err != nil || !bytes.Equal(got, other) || l.Attempts != 0 ||
				l.Recovered != (kind != "memory") {
				t.Errorf("%q, %+v, %v", got, l, err)
			}
			l.Done()
			want(t, drain(t, s), "1", "2")
			if kind != "memory" {
				if s = open(t, o); s.Cursor("in")[0] != 2 || s.Stats().Objects != 0 {
					t.Errorf("%+v, cursor %v", s.Stats(), s.Cursor("in"))
				}
			}
		})
	}
}

// A crash at any point leaves the old object or the new one, whole, and the rest of
// the spool as it was, with a mirror too.
func TestReplaceCrash(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "spool")
	before, after := bytes.Repeat([]byte("o"), 60), bytes.Repeat([]byte("n"), 70)
	for _, mirror := range []string{"", "mirror"} {
		var ops []op
		o := Options{Dir: filepath.Join(root, "a"+mirror), fs: recorder{ops: &ops}}
		if mirror != "" {
			o.Mirror = filepath.Join(root, "b"+mirror)
		}
		if err := os.MkdirAll(root, 0o700); err != nil {
			t.Fatal(err)
		}
		s := open(t, o)
		put(t, s, Item{Stream: "in", Topic: "0", Sealed: before})
		put(t, s, item("in", 1, 40))
		first := len(ops)
		if err := s.TryLease(Oldest, 0).Replace(after); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for n := first; n <= len(ops); n++ {
			for i, state := range crashes(ops[:n]) {
				dir := filepath.Join(t.TempDir(), "spool")
				lay(t, dir, root, state)
				again := Options{Dir: filepath.Join(dir, "a"+mirror)}
				if mirror != "" {
					again.Mirror = filepath.Join(dir, "b"+mirror)
				}
				s := open(t, again)
				where := fmt.Sprintf("mirror %q, after call %d, state %d", mirror, n, i)
				l := s.TryLease(Oldest, 0)
				if l == nil || l.Topic != "0" {
					t.Fatalf("%s: %+v", where, l)
				}
				got, err := l.Sealed()
				if err != nil || !bytes.Equal(got, before) && !bytes.Equal(got, after) || n == len(ops) &&
					!bytes.Equal(got, after) {
					t.Fatalf("%s: %q, %v", where, got, err)
				}
				seen[string(got[:1])]++
				l.Done()
				want(t, drain(t, s), "1")
			}
		}
		if seen["o"] == 0 || seen["n"] == 0 {
			t.Errorf("%d states with the old object, %d with the new", seen["o"], seen["n"])
		}
	}
}

// A disk that is full of objects that wait for this one does not hold it up.
func TestReplaceDiskFull(t *testing.T) {
	dir := testenv.Disk(t, "256k")
	s := open(t, Options{Dir: dir})
	for i := range 3 {
		put(t, s, item("a", i, 70<<10))
	}
	l := s.TryLease(Oldest, 0)
	other := bytes.Repeat([]byte("x"), 70<<10)
	if err := l.Replace(other); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Sealed(); err != nil || !bytes.Equal(got, other) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	l.Return(0)
	if s.Health() == nil {
		t.Error("nobody is told that the disk is full")
	}
	l = s.TryLease(Oldest, 0)
	if got, err := l.Sealed(); err != nil || !bytes.Equal(got, other) || l.Topic != "0" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	l.Done()
	l = s.TryLease(Oldest, 0)
	if err := l.Replace(other); err != nil { // there is room now
		t.Fatal(err)
	}
	l.Return(0)
	s = open(t, Options{Dir: dir})
	l = s.TryLease(Oldest, 0)
	if got, err := l.Sealed(); err != nil || !bytes.Equal(got, other) || l.Topic != "1" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	l.Done()
	want(t, drain(t, s), "2")
}
