package shelves

import (
	"errors"
	"math/rand/v2"
	"testing"
)

const size, most = 4 << 20, 8

// TestPlaces: places hold what they are for and lie in the buffer, there are few sizes, and at most a third of a
// place stays empty but for the rounding.
func TestPlaces(t *testing.T) {
	sizes := map[int]bool{}
	s := New(size, most)
	for n := 1; n <= size; n += 1 + n/50 {
		x := &shelf{buffer: make([]byte, size)}
		x.cut(s.placesOf(n))
		sizes[x.places] = true
		if x.size < n || x.places*x.size > size || x.size%line != 0 {
			t.Fatalf("%d bytes: %d places of %d", n, x.places, x.size)
		}
		if most := (n + line) * 3 / 2; n < size/2 && x.size > most {
			t.Errorf("%d bytes: a place has %d, at most %d are expected", n, x.size, most)
		}
		for i, at := range x.free {
			if at%x.size != 0 || at+x.size > size || i > 0 && at >= x.free[i-1] {
				t.Fatalf("%d bytes: place %d of %d begins at %d", n, i, x.places, at)
			}
		}
	}
	if len(sizes) > 30 {
		t.Errorf("%d sizes", len(sizes))
	}
}

// TestShelves: each place is given to one at a time, there are at most so many buffers, and they are cut anew where
// nothing lies.
func TestShelves(t *testing.T) {
	s, made := New(size, most), 0
	buffer := func() ([]byte, error) { made++; return make([]byte, size), nil }
	rng := rand.New(rand.NewPCG(5, 6))
	type taken struct {
		place []byte
		mark  byte
		done  func()
	}
	var held []taken
	fill := func(bytes func() int) {
		for {
			n := bytes()
			place, done := s.Take(n, buffer)
			if done == nil {
				return
			}
			if len(place) != n || cap(place) != n {
				t.Fatalf("%d bytes with room for %d, want %d", len(place), cap(place), n)
			}
			mark := byte(rng.Uint32())
			for i := range place {
				place[i] = mark
			}
			held = append(held, taken{place, mark, done})
		}
	}
	free := func(one func() bool) {
		var left []taken
		for _, h := range held {
			for i, b := range h.place {
				if b != h.mark {
					t.Fatalf("byte %d of %d has changed", i, len(h.place))
				}
			}
			if one() {
				h.done()
			} else {
				left = append(left, h)
			}
		}
		held = left
	}
	always := func() bool { return true }
	fill(func() int { return 300 << 10 })
	if len(held) != most*12 || made != most {
		t.Errorf("%d places for 300 KiB in %d buffers, want 12 in each of %d", len(held), made, most)
	}
	if in := s.Hold([][]byte{held[0].place, held[5].place[7:9], {1, 2}, nil}); !in[0] || !in[1] || in[2] || in[3] {
		t.Errorf("what lies there: %v", in)
	}
	for range 3 {
		free(func() bool { return rng.IntN(3) > 0 })
		fill(func() int { return 300<<10 - rng.IntN(1000) })
		free(always)
		fill(func() int { return []int{29 << 10, 300 << 10, 1 << 20, 3 << 20}[rng.IntN(4)] })
		free(always)
	}
	fill(func() int { return size })
	if len(held) != most || made != most {
		t.Errorf("%d places for the largest in %d buffers, want %d", len(held), made, most)
	}
	free(always)
	for _, x := range s.all {
		if len(x.free) != x.places {
			t.Errorf("%d of %d places are free in the end", len(x.free), x.places)
		}
	}
}

// TestRefuses: there is no place for nothing, for more than a buffer has, and without a buffer.
func TestRefuses(t *testing.T) {
	s := New(size, most)
	fails := func() ([]byte, error) { return nil, errors.New("no memory") }
	for _, n := range []int{0, -1, size + 1, 100} {
		if place, done := s.Take(n, fails); place != nil || done != nil {
			t.Errorf("%d bytes: a place of %d", n, len(place))
		}
	}
}
