package cuda

import (
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestKeptTables: more tables than stay on the device, in turn and by turns, are those that were asked for. One that is
// there is not copied again.
func TestKeptTables(t *testing.T) {
	w := newTwin(t, 10, 2)
	d := cutrantt.NTT(1)
	x, sum := w.batch(2, []int{0, 1}, d), w.batch(2, []int{0, 1}, d)
	add := func(i int) {
		by := []uint32{uint32(i), uint32(2 * i)}
		w.same("a combination", sum, func(r cutrantt.Ring, k int) error {
			return cutrantt.Combine(r, sum[k:k+1], []cutrantt.Term{{Of: x[k : k+1], By: by}}, nil, true)
		})
	}
	r := w.ring[0].(*ring)
	for i := range keptTables + 5 {
		add(i)
		add(i / 2)
	}
	if r.backend.mapped {
		return // the GPU reads host memory
	}
	if n := len(r.kept.places); n != keptTables {
		t.Errorf("%d tables are kept, want %d", n, keptTables)
	}
	next := r.kept.next
	add(keptTables + 4)
	if r.kept.next != next {
		t.Error("a table that is there was copied again")
	}
	for place, content := range r.kept.content {
		if at, ok := r.kept.places[content]; !ok || at != place {
			t.Fatalf("place %d is said to be %d", place, at)
		}
	}
}
