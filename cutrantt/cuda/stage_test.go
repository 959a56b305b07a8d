package cuda

import (
	"math/rand/v2"
	"testing"
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
				if !s.add(&buffer{bytes: make([]byte, chunk)}, placesOf(n)) {
					t.Fatal("there may be no more shelves")
				}
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
	if len(held) != mostShelves*12 {
		t.Errorf("%d places for 300 KiB, want 12 on each of %d shelves", len(held), mostShelves)
	}
	if s.add(&buffer{bytes: make([]byte, chunk)}, 12) {
		t.Error("one shelf more")
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
