package spool

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/testrig"
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

// gatedDisk takes a file when the gate opens; until failures is 0 it takes none.
type gatedDisk struct {
	disk
	failures *atomic.Int64
	gate     chan struct{}
	at       chan struct{}
}

func (g gatedDisk) Create(name string) (file, error) {
	if g.failures.Add(-1) >= 0 {
		return nil, unix.ENOSPC
	}
	if g.gate != nil {
		g.at <- struct{}{}
		<-g.gate
	}
	return g.disk.Create(name)
}

// An object that is replaced while it is on its way from memory to disk is on disk as
// what it became, and the counts hold.
func TestReplaceWhileFlushed(t *testing.T) {
	dir := t.TempDir()
	own(t, dir)
	g := gatedDisk{failures: new(atomic.Int64), gate: make(chan struct{}), at: make(chan struct{})}
	g.failures.Store(1)
	s := open(t, Options{Dir: dir, fs: g})
	put(t, s, item("a", 0, 100)) // stays in memory
	flushed := make(chan struct{})
	go func() { s.Flush(); close(flushed) }()
	<-g.at // the old one is being written
	l := s.TryLease(Oldest, 0)
	became := bytes.Repeat([]byte("x"), 300)
	if err := l.Replace(became); err != nil {
		t.Fatal(err)
	}
	l.Return(0)
	g.gate <- struct{}{}
	<-g.at // and now the new one
	g.gate <- struct{}{}
	<-flushed
	if st := s.Stats(); st.MemoryObjects != 0 || st.MemoryBytes != 0 || st.Objects != 1 || st.Bytes != 300 {
		t.Errorf("%+v", st)
	}
	s = open(t, Options{Dir: dir})
	l = s.TryLease(Oldest, 0)
	if b, err := l.Sealed(); err != nil || !bytes.Equal(b, became) {
		t.Errorf("%q, %v", b, err)
	}
	if l.Done(); len(files(t, dir)) != 0 {
		t.Errorf("left: %q", files(t, dir))
	}
}

// An object that is larger than the bound on memory waits for the disk or is dropped;
// it does not wait for room in memory that can never be, nor drop what is there.
func TestLargerThanMemory(t *testing.T) {
	g := gatedDisk{failures: new(atomic.Int64)}
	g.failures.Store(2)
	s := open(t, Options{Dir: t.TempDir(), fs: g, Memory: 100, Streams: map[string]Limit{"block": {Full: Block}}})
	ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
	defer cancel()
	if err := s.Put(ctx, item("block", 0, 200)); err != nil {
		t.Errorf("a stream that blocks: %v", err)
	}
	g.failures.Store(1 << 30)
	put(t, s, item("drop", 1, 60))
	if err := s.Put(ctx, item("drop", 2, 200)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if st := s.Stats(); st.MemoryObjects != 1 || st.Dropped != 1 {
		t.Errorf("%+v", st)
	}
}
