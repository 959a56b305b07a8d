package cuda

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
)

// TestPlaces: places hold what they are for and lie in the buffer, there are few sizes, and at most a third of a
// place stays empty but for the rounding.
func TestPlaces(t *testing.T) {
	sizes := map[int]bool{}
	for n := 1; n <= chunk; n += 1 + n/50 {
		s := &shelf{}
		s.cut(placesOf(n))
		sizes[s.places] = true
		if s.size < n || s.places*s.size > chunk || s.size%stageLine != 0 {
			t.Fatalf("%d bytes: %d places of %d", n, s.places, s.size)
		}
		if most := (n + stageLine) * 3 / 2; n < chunk/2 && s.size > most {
			t.Errorf("%d bytes: a place has %d, at most %d are expected", n, s.size, most)
		}
		for i, at := range s.free {
			if at%s.size != 0 || at+s.size > chunk || i > 0 && at >= s.free[i-1] {
				t.Fatalf("%d bytes: place %d of %d begins at %d", n, i, s.places, at)
			}
		}
	}
	if len(sizes) > 30 {
		t.Errorf("%d sizes", len(sizes))
	}
}

// TestShelves: a stage gives each place to one at a time, makes at most so many shelves, and cuts them anew where
// nothing lies.
func TestShelves(t *testing.T) {
	type taken struct {
		on *shelf
		at int
	}
	var s stage
	rng := rand.New(rand.NewPCG(5, 6))
	held := map[taken]int{} // their sizes
	fill := func(size func() int) {
		for {
			n := size()
			on, at, more := s.take(n)
			if more {
				s.add(&buffer{bytes: make([]byte, chunk)}, placesOf(n))
				continue
			}
			if on == nil {
				return
			}
			place := taken{on, at}
			if held[place] != 0 {
				t.Fatalf("the place at %d has %d bytes already", at, held[place])
			}
			if held[place] = n; n > on.size || at+n > chunk {
				t.Fatalf("%d bytes at %d of places of %d", n, at, on.size)
			}
		}
	}
	free := func(one func() bool) {
		for p := range held {
			if one() {
				s.put(p.on, p.at)
				delete(held, p)
			}
		}
	}
	always := func() bool { return true }
	fill(func() int { return 300 << 10 })
	if len(held) != mostShelves*12 || len(s.shelves) != mostShelves {
		t.Errorf("%d places for 300 KiB on %d shelves, want 12 on each of %d", len(held), len(s.shelves), mostShelves)
	}
	for range 5 {
		free(func() bool { return rng.IntN(3) > 0 })
		fill(func() int { return 300<<10 - rng.IntN(1000) })
		free(always)
		fill(func() int { return []int{29 << 10, 300 << 10, 1 << 20, 3 << 20}[rng.IntN(4)] })
		free(always)
	}
	fill(func() int { return chunk - foundBytes })
	if len(held) != mostShelves {
		t.Errorf("%d places for the largest, want %d", len(held), mostShelves)
	}
	free(always)
	for _, x := range s.shelves {
		if len(x.free) != x.places {
			t.Errorf("%d of %d places are free in the end", len(x.free), x.places)
		}
	}
}

// TestStageFails: without pinned memory nothing is staged, and the ring goes on. What is staged keeps its memory, also
// when the GPU has failed, until it is given back.
func TestStageFails(t *testing.T) {
	d := cudatest.New(t)
	b := faulty(t, d)
	r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := [][]byte{bytes.Repeat([]byte{7}, 100<<10), bytes.Repeat([]byte{8}, 10)}
	b.staging.free = nil
	d.Set("fail cuMemAllocHost_v2 2")
	if staged, done := r.Stage(src); staged != nil || done != nil || b.calls.Load() != 0 {
		t.Errorf("without memory: %d bytes staged, %d calls", len(staged), b.calls.Load())
	}
	d.Set()
	if err := loadNothing(r); err != nil {
		t.Errorf("after that: %v", err)
	}
	staged, done := r.Stage(src)
	if !bytes.Equal(staged, bytes.Join(src, nil)) {
		t.Fatalf("%d bytes staged", len(staged))
	}
	failure := fmt.Errorf("%w: in a test", cutrantt.ErrDevice)
	b.lost.Store(&failure)
	if more, _ := r.Stage(src); more != nil {
		t.Error("staged for a GPU that failed")
	}
	defer func(old time.Duration) { abandonTime = old }(abandonTime)
	abandonTime = 5 * time.Millisecond
	if b.abandon() == nil {
		t.Error("the context was given up under what is staged")
	}
	if !bytes.Equal(staged, bytes.Join(src, nil)) {
		t.Error("what is staged has changed")
	}
	done()
	if err := b.abandon(); err != nil {
		t.Error(err)
	}
}

// TestStageTogether: many who stage at once get places of their own, and no more shelves than they need.
func TestStageTogether(t *testing.T) {
	b := faulty(t, cudatest.New(t))
	r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const size, each, callers = 300 << 10, 30, 20
	var all sync.WaitGroup
	for k := range callers {
		all.Go(func() {
			for range each {
				src := bytes.Repeat([]byte{byte(k + 1)}, size)
				staged, done := r.Stage([][]byte{src})
				if done == nil {
					t.Error("there was no room")
					return
				}
				time.Sleep(time.Duration(k) * 10 * time.Microsecond)
				if !bytes.Equal(staged, src) {
					t.Errorf("the bytes of caller %d have changed", k)
				}
				done()
			}
		})
	}
	all.Wait()
	if most := (callers + 11) / 12; len(b.stage.shelves) > most {
		t.Errorf("%d shelves for %d callers, want at most %d", len(b.stage.shelves), callers, most)
	}
}
