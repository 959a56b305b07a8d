// Package shelves hands out places in a bounded number of buffers, which it never gives back: for pinned memory, of
// which many goroutines take a place each for a while.
package shelves

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"
)

// Shelves is places in buffers. It is safe for concurrent use.
type Shelves struct {
	size, most int
	mu         sync.Mutex
	all        []*shelf // at most so many
	growing    sync.Mutex
}

// New returns places in at most most buffers of size bytes.
func New(size, most int) *Shelves { return &Shelves{size: size, most: most} }

// shelf is a buffer, cut into places of one size.
type shelf struct {
	buffer []byte
	size   int   // of a place, bytes
	places int   // all of them
	free   []int // where free ones begin; the last one, which the caches still have, is taken first
}

// line is what places begin at multiples of, bytes.
const line = 256

// placesOf returns how many places for n bytes a buffer is cut into, 2^k or 3*2^k, so that there are few sizes.
func (s *Shelves) placesOf(n int) int {
	places := uint(s.size / ((n + line - 1) / line * line))
	drop := max(bits.Len(places)-2, 0)
	return int(places >> drop << drop)
}

// cut cuts a shelf on which nothing lies into so many places.
func (x *shelf) cut(places int) {
	x.places, x.size = places, len(x.buffer)/places/line*line
	x.free = make([]int, places)
	for i := range x.free {
		x.free[i] = (places - 1 - i) * x.size
	}
}

// next takes a free place of a shelf.
func (x *shelf) next() int {
	last := len(x.free) - 1
	at := x.free[last]
	x.free = x.free[:last]
	return at
}

// Take returns n bytes, which are the caller's until it calls done, once. Where no place is free, buffer makes another
// buffer; nil, nil: there are as many as may be, it failed, or n is less than 1 or more than a buffer has.
func (s *Shelves) Take(n int, buffer func() ([]byte, error)) (place []byte, done func()) {
	if n < 1 || (n+line-1)/line*line > s.size {
		return nil, nil
	}
	on, at, more := s.take(n)
	if more {
		if on, at = s.grow(n, buffer); on == nil {
			return nil, nil
		}
	}
	if on == nil {
		return nil, nil
	}
	return on.buffer[at : at+n : at+n], func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		on.free = append(on.free, at)
	}
}

// take returns a free place for n bytes; nil: there is none. more reports that there may be another shelf.
func (s *Shelves) take(n int) (on *shelf, at int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := s.placesOf(n)
	var idle *shelf
	for _, x := range s.all {
		if x.places == places && len(x.free) > 0 {
			return x, x.next(), false
		}
		if len(x.free) == x.places {
			idle = x
		}
	}
	if len(s.all) < s.most || idle == nil {
		return nil, 0, len(s.all) < s.most
	}
	idle.cut(places)
	return idle, idle.next(), false
}

// grow is take with one more shelf. Others who find no place wait, and may find one there.
func (s *Shelves) grow(n int, buffer func() ([]byte, error)) (on *shelf, at int) {
	s.growing.Lock()
	defer s.growing.Unlock()
	on, at, more := s.take(n)
	if !more {
		return on, at
	}
	b, err := buffer()
	if err != nil {
		return nil, 0
	}
	on = &shelf{buffer: b}
	on.cut(s.placesOf(n))
	at = on.next()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, on)
	return on, at
}

// Hold reports for each piece of memory whether it lies in one of the buffers.
func (s *Shelves) Hold(pieces [][]byte) []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]bool, len(pieces))
	for i, p := range pieces {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
		out[i] = slices.ContainsFunc(s.all, func(x *shelf) bool {
			first := uintptr(unsafe.Pointer(&x.buffer[0]))
			return first <= at && at+uintptr(len(p)) <= first+uintptr(len(x.buffer))
		})
	}
	return out
}
