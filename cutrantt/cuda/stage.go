package cuda

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/pieces"
)

// stage is pinned memory for packed residues that wait for a load. Who brings some copies them there, beside the
// others who do, and a load has nothing to copy.
type stage struct {
	mu      sync.Mutex
	shelves []*shelf // at most mostShelves
	growing sync.Mutex
}

// shelf is a buffer, cut into places of one size.
type shelf struct {
	buffer *buffer
	size   int   // of a place, bytes
	places int   // all of them
	free   []int // where free ones begin; the last one, which the caches still have, is taken first
}

// mostShelves bounds the pinned memory of a stage, which holds more windows than wait while a load is under way.
const mostShelves = cutrantt.MostStaged / chunk

// stageLine is what places begin at multiples of.
const stageLine = 256

// placesOf returns how many places for n bytes a buffer is cut into, 2^k or 3*2^k, so that there are few sizes.
func placesOf(n int) int {
	places := uint(chunk / ((n + stageLine - 1) / stageLine * stageLine))
	drop := max(bits.Len(places)-2, 0)
	return int(places >> drop << drop)
}

// cut cuts a shelf on which nothing lies into so many places.
func (s *shelf) cut(places int) {
	s.places, s.size = places, chunk/places/stageLine*stageLine
	s.free = make([]int, places)
	for i := range s.free {
		s.free[i] = (places - 1 - i) * s.size
	}
}

// take returns a free place for n bytes; nil: there is none. more reports that there may be another shelf.
func (s *stage) take(n int) (on *shelf, at int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := placesOf(n)
	var idle *shelf
	for _, x := range s.shelves {
		if x.places == places && len(x.free) > 0 {
			on = x
			break
		}
		if len(x.free) == x.places {
			idle = x
		}
	}
	if on == nil {
		if len(s.shelves) < mostShelves {
			return nil, 0, true
		}
		if idle == nil {
			return nil, 0, false
		}
		on = idle
		on.cut(places)
	}
	last := len(on.free) - 1
	at, on.free = on.free[last], on.free[:last]
	return on, at, false
}

// put frees a place.
func (s *stage) put(on *shelf, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on.free = append(on.free, at)
}

// add adds a shelf.
func (s *stage) add(b *buffer, places int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &shelf{buffer: b}
	x.cut(places)
	s.shelves = append(s.shelves, x)
}

// holds reports for each piece whether it lies on a shelf.
func (s *stage) holds(all [][]byte) []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]bool, len(all))
	for i, p := range all {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
		out[i] = slices.ContainsFunc(s.shelves, func(x *shelf) bool {
			first := uintptr(unsafe.Pointer(&x.buffer.bytes[0]))
			return first <= at && at+uintptr(len(p)) <= first+chunk
		})
	}
	return out
}

func (r *ring) Stage(all [][]byte) (staged []byte, done func()) {
	n := pieces.Len(all)
	if n == 0 || n > chunk-foundBytes {
		return nil, nil
	}
	b := r.backend
	b.calls.Add(1) // the memory is the context's: it stays until done
	on, at := r.place(n)
	if on == nil {
		b.calls.Add(-1)
		return nil, nil
	}
	staged = on.buffer.bytes[at : at : at+n]
	for _, p := range all {
		staged = append(staged, p...)
	}
	return staged, func() {
		b.stage.put(on, at)
		b.calls.Add(-1)
	}
}

// place returns a place for n bytes; nil: there is none, or the GPU has failed.
func (r *ring) place(n int) (on *shelf, at int) {
	b := r.backend
	if b.err() != nil {
		return nil, 0
	}
	on, at, more := b.stage.take(n)
	if !more {
		return on, at
	}
	b.stage.growing.Lock() // others who find no place wait, and may find one on the new shelf
	defer b.stage.growing.Unlock()
	if on, at, more = b.stage.take(n); !more {
		return on, at
	}
	var x *buffer
	if err := b.locked(func() (err error) { x, err = b.staging.get(); return err }); err != nil {
		return nil, 0
	}
	b.stage.add(x, placesOf(n))
	on, at, _ = b.stage.take(n)
	return on, at
}
