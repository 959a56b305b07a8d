package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/testrig"
)

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func item(stream string, n, size int) Item {
	b := make([]byte, size)
	copy(b, fmt.Sprintf("%s-%d", stream, n))
	return Item{Stream: stream, Topic: fmt.Sprint(n), Sealed: b}
}

// opened are the spools that hold a directory; opening it again stands for the next
// process, so the one before lets go of it as its end would.
var opened sync.Map // directory to *Spool

func open(t testing.TB, o Options) *Spool {
	t.Helper()
	if o.Logger == nil {
		o.Logger = testrig.Quiet()
	}
	if before, ok := opened.LoadAndDelete(o.Dir); ok {
		before.(*Spool).Release()
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	opened.Store(o.Dir, s)
	return s
}

func put(t testing.TB, s *Spool, it Item) {
	t.Helper()
	if err := s.Put(t.Context(), it); err != nil {
		t.Fatal(err)
	}
}

// drain takes everything out and gives the topics in order.
func drain(t testing.TB, s *Spool) (topics []string) {
	t.Helper()
	for l := s.TryLease(Oldest, 0); l != nil; l = s.TryLease(Oldest, 0) {
		if _, err := l.Sealed(); errors.Is(err, ErrDamaged) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		topics = append(topics, l.Topic)
		l.Done()
	}
	return topics
}

func want(t testing.TB, got []string, topics ...string) {
	t.Helper()
	if !slices.Equal(got, topics) {
		t.Errorf("got %q, want %q", got, topics)
	}
}

func TestOrderAcrossRestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	for i := range 5 {
		put(t, s, item("a", i, 100))
	}
	l := s.TryLease(Oldest, 0)
	if l == nil || l.Topic != "0" || l.Recovered {
		t.Fatalf("%+v", l)
	}
	if s.TryLease(Oldest, 0) != nil {
		t.Error("two objects of a stream are out at a time")
	}
	l.Done()
	if st := s.Stats(); st.Objects != 4 || st.Bytes != 400 || st.MemoryObjects != 0 {
		t.Errorf("%+v", st)
	}
	s = open(t, Options{Dir: dir})
	if st := s.Stats(); st.Objects != 4 || st.Bytes != 400 || st.Recovered != 4 || st.Damaged != 0 {
		t.Errorf("recount: %+v", st)
	}
	put(t, s, item("a", 5, 10))
	put(t, s, item("b", 6, 10))
	l = s.TryLease(Oldest, 0)
	if !l.Recovered || l.Topic != "1" {
		t.Errorf("%+v", l)
	}
	if b := s.TryLease(Oldest, 0); b == nil || b.Stream != "b" || b.Recovered {
		t.Errorf("another stream waits for the first: %+v", b)
	} else {
		b.Return(0)
	}
	l.Return(0)
	want(t, drain(t, s), "1", "2", "3", "4", "5", "6")
	left, _ := filepath.Glob(dir + "/*")
	if !slices.Equal(left, []string{dir + "/a.last", dir + "/b.last", dir + "/" + markerName}) {
		t.Errorf("files are left: %q", left)
	}
	s.Close()
	if err := s.Put(t.Context(), item("a", 7, 1)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestPolicies(t *testing.T) {
	for _, dir := range []bool{false, true} {
		for name, c := range map[string]struct {
			limit Limit
			want  []string
		}{
			"oldest by count": {Limit{Objects: 2, Full: DropOldest}, []string{"2", "3"}},
			"oldest by bytes": {Limit{Bytes: 25}, []string{"2", "3"}},
			"newest":          {Limit{Objects: 2, Full: DropNewest}, []string{"0", "1"}},
		} {
			t.Run(fmt.Sprint(name, dir), func(t *testing.T) {
				o := Options{Streams: map[string]Limit{"a": c.limit}}
				if dir {
					o.Dir = t.TempDir()
				}
				s := open(t, o)
				for i := range 4 {
					if err := s.Put(t.Context(), item("a", i, 10)); err != nil && !errors.Is(err, ErrFull) {
						t.Fatal(err)
					}
				}
				if st := s.Stats(); st.Dropped != 2 || st.Bytes != 20 {
					t.Errorf("%+v", st)
				}
				want(t, drain(t, s), c.want...)
			})
		}
	}
	s := open(t, Options{Bytes: 10})
	if err := s.Put(t.Context(), item("a", 0, 11)); !errors.Is(err, ErrFull) {
		t.Errorf("larger than the spool: %v", err)
	}
}

// A stream whose policy is not to drop loses nothing to others.
func TestBoundOfAll(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Bytes: 40, Streams: map[string]Limit{"keep": {Full: Block},
		"drop": {Full: DropOldest}}})
	put(t, s, item("keep", 0, 10))
	put(t, s, item("drop", 1, 10))
	put(t, s, item("drop", 2, 10))
	put(t, s, item("other", 3, 10))
	put(t, s, item("other", 4, 10)) // takes from itself
	put(t, s, item("drop", 5, 10))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, item("keep", 6, 10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a blocking stream: %v", err)
	}
	want(t, drain(t, s), "0", "2", "4", "5")
}

// A stream that is at its own bound takes nothing from others: it would not help.
func TestOwnBound(t *testing.T) {
	s := open(t, Options{Bytes: 1000, Streams: map[string]Limit{"small": {Bytes: 15}}})
	put(t, s, item("other", 0, 10))
	put(t, s, item("small", 1, 10))
	s.Take("small", 2) // it is being sent
	if err := s.Put(t.Context(), item("small", 2, 10)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if st := s.Stats(); st.Dropped != 1 || st.Objects != 2 {
		t.Errorf("%+v", st)
	}
}

// What waits for room learns of it also when room comes of age.
func TestBlockUntilExpired(t *testing.T) {
	var mono atomic.Int64
	s := open(t, Options{Dir: t.TempDir(), Default: Limit{Objects: 1, Full: Block, Age: time.Hour},
		Mono: func() time.Duration { return time.Duration(mono.Load()) }})
	put(t, s, item("a", 0, 1))
	done := make(chan error, 1)
	go func() { done <- s.Put(t.Context(), item("a", 1, 1)) }()
	time.Sleep(50 * time.Millisecond) // until it waits
	mono.Store(int64(2 * time.Hour))
	s.Tick()
	if err := testrig.Receive(t, "the end of Put", done); err != nil {
		t.Error(err)
	}
}

// The bounds on all streams hold to the object and to the byte, and Room tells.
func TestRoom(t *testing.T) {
	for name, o := range map[string]Options{"objects": {Objects: 3}, "bytes": {Bytes: 30}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, o)
			for i := range 3 {
				if !s.Room(10) {
					t.Fatalf("no room for object %d", i)
				}
				put(t, s, item(fmt.Sprint("s", i%2), i, 10))
			}
			if s.Room(10) || s.Room(1) {
				t.Error("room beyond the bound")
			}
			if st := s.Stats(); st.Objects != 3 || st.Dropped != 0 {
				t.Fatalf("%+v", st)
			}
			put(t, s, item("s1", 3, 10))
			if st := s.Stats(); st.Objects != 3 || st.Dropped != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// What is being sent is never dropped under the sender's hands.
func TestLeasedStays(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Streams: map[string]Limit{"a": {Objects: 2}}})
	put(t, s, item("a", 0, 1))
	put(t, s, item("a", 1, 1))
	l := s.TryLease(Oldest, 0)
	put(t, s, item("a", 2, 1))
	l.Done()
	want(t, drain(t, s), "2")
	one := open(t, Options{Streams: map[string]Limit{"a": {Objects: 1}}})
	put(t, one, item("a", 0, 1))
	one.TryLease(Oldest, 0)
	if err := one.Put(t.Context(), item("a", 1, 1)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

func TestBlock(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Streams: map[string]Limit{"a": {Objects: 1, Full: Block}}})
	put(t, s, item("a", 0, 1))
	done := make(chan error, 1)
	go func() { done <- s.Put(t.Context(), item("a", 1, 1)) }()
	l := s.TryLease(Oldest, 0)
	l.Done()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	go func() { done <- s.Put(t.Context(), item("a", 2, 1)) }()
	s.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	want(t, drain(t, s), "1")
}

// Age follows the monotonic clock, so that neither a step of the wall clock nor
// a board that starts in 1970 expires anything.
func TestAge(t *testing.T) {
	dir := t.TempDir()
	wall, mono := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Duration(0)
	o := Options{Dir: dir, Default: Limit{Age: time.Hour, Full: Block}, Now: func() time.Time { return wall },
		Mono: func() time.Duration { return mono }}
	s := open(t, o)
	put(t, s, item("a", 0, 1))
	mono += 30 * time.Minute
	put(t, s, item("a", 1, 1))
	wall = wall.AddDate(50, 0, 0)
	s.Tick()
	if st := s.Stats(); st.Objects != 2 || st.Oldest != 30*time.Minute {
		t.Errorf("a clock step: %+v", st)
	}
	mono += 31 * time.Minute
	s.Tick()
	if st := s.Stats(); st.Expired != 1 || st.Objects != 1 {
		t.Errorf("%+v", st)
	}
	wall = time.Unix(100, 0) // a board without a clock
	s = open(t, o)
	want(t, drain(t, s), "1")
	wall = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	put(t, s, item("a", 2, 1))
	wall = wall.Add(2 * time.Hour)
	s = open(t, o)
	want(t, drain(t, s))
	if st := s.Stats(); st.Expired != 1 {
		t.Errorf("%+v", st)
	}
}

func TestReturnAndPark(t *testing.T) {
	mono := time.Duration(0)
	s := open(t, Options{Mono: func() time.Duration { return mono }})
	for i := range 3 {
		put(t, s, item("a", i, 1))
	}
	s.TryLease(Oldest, 0).Return(time.Second)
	if l := s.TryLease(Oldest, 0); l != nil {
		t.Errorf("an object passes one that is delayed: %+v", l)
	}
	if waiting, next := s.Waiting(); !waiting || next != time.Second {
		t.Error(waiting, next)
	}
	mono += time.Second
	l := s.TryLease(Oldest, 0)
	if l.Topic != "0" || l.Attempts != 1 {
		t.Errorf("%+v", l)
	}
	l.Park(time.Minute)
	l = s.TryLease(Oldest, 0)
	if l.Topic != "1" {
		t.Errorf("%+v", l)
	}
	l.Done()
	mono += time.Minute
	want(t, drain(t, s), "0", "2")
}

// The live lane takes young objects while older ones wait, each lane in order.
func TestLiveLane(t *testing.T) {
	mono := time.Duration(0)
	s := open(t, Options{Mono: func() time.Duration { return mono }})
	put(t, s, item("a", 0, 1))
	put(t, s, item("a", 1, 1))
	if l := s.TryLease(Live, time.Minute); l != nil {
		t.Errorf("no backlog, and yet %+v", l)
	}
	mono += time.Hour
	put(t, s, item("a", 2, 1))
	put(t, s, item("a", 3, 1))
	live := s.TryLease(Live, time.Minute)
	if live == nil || live.Topic != "2" || !live.Live {
		t.Fatalf("%+v", live)
	}
	if l := s.TryLease(Live, time.Minute); l != nil {
		t.Errorf("two of the live lane: %+v", l)
	}
	old := s.TryLease(Oldest, 0)
	if old.Topic != "0" {
		t.Errorf("%+v", old)
	}
	live.Done()
	old.Done()
	if l := s.TryLease(Live, time.Minute); l.Topic != "3" {
		t.Errorf("%+v", l)
	} else {
		l.Done()
	}
	want(t, drain(t, s), "1")
}

// The cursor survives the delivery of the newest object, and never runs ahead.
func TestCursor(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	for i := range 3 {
		it := item("in", i, 10)
		it.Cursor = []byte{byte(i)}
		put(t, s, it)
	}
	check := func(want byte) {
		t.Helper()
		again := open(t, Options{Dir: dir})
		if c := again.Cursor("in"); len(c) != 1 || c[0] != want {
			t.Errorf("cursor %v, want %d", c, want)
		}
	}
	check(2)
	if c := s.Cursor("in"); len(c) != 1 || c[0] != 2 {
		t.Errorf("cursor %v", c)
	}
	for range 2 {
		s.TryLease(Oldest, 0).Done()
		check(2)
	}
	if _, err := os.Stat(dir + "/in.mark"); !errors.Is(err, os.ErrNotExist) {
		t.Error("a mark is written while files say the same")
	}
	s.TryLease(Oldest, 0).Done()
	check(2)
	if got := s.Cursor("other"); got != nil {
		t.Error(got)
	}
	s = open(t, Options{Dir: dir})
	put(t, s, item("in", 3, 10)) // without a cursor
	if n := s.TryLease(Oldest, 0).Number; n != 4 {
		t.Errorf("number %d: numbers must not repeat", n)
	}
}

// The time of the newest object is known after a restart, whether it waits, was
// delivered, or was delivered before an older one.
func TestLast(t *testing.T) {
	dir := t.TempDir()
	wall := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	o := Options{Dir: dir, Now: func() time.Time { return wall }}
	check := func(want time.Time) *Spool {
		t.Helper()
		s := open(t, o)
		if got := s.Last("a"); !got.Equal(want) {
			t.Errorf("last %v, want %v", got, want)
		}
		return s
	}
	s := check(time.Time{})
	start := wall
	for i := range 3 {
		wall = start.Add(time.Duration(i) * time.Minute)
		put(t, s, item("a", i, 10))
	}
	if !s.Last("a").IsZero() {
		t.Error("of this process")
	}
	check(start.Add(2 * time.Minute))
	s.TryLease(Oldest, 0).Done()
	check(start.Add(2 * time.Minute))
	s.Take("a", 3).Done() // the newest before the one between
	check(start.Add(2 * time.Minute))
	s.TryLease(Oldest, 0).Done()
	s = check(start.Add(2 * time.Minute))
	if s.Stats().Objects != 0 {
		t.Error("what left is there again")
	}
	if err := os.WriteFile(dir+"/a.last", []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(time.Time{})
}

// Several producers and a consumer: whatever was accepted and not dropped
// arrives, each producer's objects in order.
func TestConcurrently(t *testing.T) {
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		full := rapid.SampledFrom([]Policy{DropOldest, DropNewest, Block}).Draw(t, "policy")
		o := Options{Bytes: 40, Logger: testrig.Quiet(), Default: Limit{Objects: rapid.IntRange(1, 5).Draw(t,
			"objects"), Full: full}}
		if rapid.Bool().Draw(t, "disk") {
			o.Dir = filepath.Join(root, fmt.Sprint(runs))
		}
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		const producers, each = 3, 8
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				for i := range each {
					if err := s.Put(t.Context(), item(fmt.Sprint("s", p), i, 1+i%7)); err != nil &&
						!errors.Is(err, ErrFull) {
						t.Errorf("put: %v", err)
					}
				}
			})
		}
		go func() { wg.Wait(); s.Close() }()
		last, got := map[string]int{}, 0
		for {
			changed := s.Changed()
			closed := s.Closed()
			l := s.TryLease(Oldest, 0)
			if l == nil {
				if closed {
					break
				}
				<-changed
				continue
			}
			var n int
			fmt.Sscan(l.Topic, &n)
			if before, ok := last[l.Stream]; ok && n <= before {
				t.Fatalf("%s: %d after %d", l.Stream, n, before)
			}
			last[l.Stream] = n
			got++
			l.Done()
		}
		st := s.Stats()
		if got+int(st.Dropped) != producers*each || st.Objects != 0 || st.Bytes != 0 {
			t.Fatalf("%d arrived, %+v", got, st)
		}
		if full == Block && st.Dropped != 0 && o.Bytes == 0 {
			t.Fatalf("blocking dropped %d", st.Dropped)
		}
	})
}
