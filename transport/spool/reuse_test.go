package spool

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// fullDisk takes no file.
type fullDisk struct{ disk }

func (fullDisk) Create(string) (file, error) { return nil, unix.ENOSPC }

// TestUnkept: the memory of an object is the caller's again once it is on disk, and
// the spool's where it has nothing else.
func TestUnkept(t *testing.T) {
	for name, tt := range map[string]struct {
		o    Options
		want int
	}{
		"disk":      {Options{Dir: t.TempDir()}, 1},
		"mirror":    {Options{Dir: t.TempDir(), Mirror: t.TempDir()}, 1},
		"memory":    {Options{}, 0},
		"full disk": {Options{Dir: t.TempDir(), fs: fullDisk{}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, tt.o)
			it := item("a", 1, 1000)
			content := bytes.Clone(it.Sealed)
			calls := 0
			it.Unkept = func() { calls++; clear(it.Sealed) }
			if put(t, s, it); calls != tt.want {
				t.Fatalf("%d calls, want %d", calls, tt.want)
			}
			l := s.TryLease(Oldest, 0)
			b, err := l.Sealed()
			if err != nil || !bytes.Equal(b, content) {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
		})
	}
}

// TestSealedIn: an object is read into memory that has room, and is whole where the
// memory has none.
func TestSealedIn(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	it := item("a", 1, 1000)
	put(t, s, it)
	l := s.TryLease(Oldest, 0)
	for _, room := range []int{0, 1000, 1000 + ReadRoom} {
		buf := make([]byte, room)
		b, err := l.SealedIn(buf)
		if err != nil || !bytes.Equal(b, it.Sealed) {
			t.Fatalf("room for %d: %d bytes, %v", room, len(b), err)
		}
		if used := bytes.Contains(buf, it.Sealed); used != (room > 1000) {
			t.Errorf("room for %d: used is %v", room, used)
		}
	}
}
