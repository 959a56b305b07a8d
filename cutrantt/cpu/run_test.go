package cpu

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestRunShares: a call has the workers that no other call has. One that finds none free runs
// on its own goroutine, and the next one has all of them again.
func TestRunShares(t *testing.T) {
	const workers = 4
	made, err := New().NewRing(10, testModuli(t, 10, 1), cutrantt.Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	r := made.(*ring)
	for round := range 3 {
		var started, ended sync.WaitGroup
		started.Add(workers)
		over := make(chan struct{})
		ended.Go(func() {
			r.run(workers, minParallel, func(int) { // returns only if each has a goroutine
				started.Done()
				<-over
			})
		})
		all := make(chan struct{})
		go func() { started.Wait(); close(all) }()
		select {
		case <-all:
		case <-time.After(time.Minute):
			t.Fatalf("round %d: a call alone does not have %d workers", round, workers)
		}
		var order []int // by one goroutine, as the race detector would see
		r.run(3*workers, minParallel, func(i int) { order = append(order, i) })
		for i, got := range order {
			if i != got {
				t.Errorf("round %d: %v by a call that finds no worker free", round, order)
				break
			}
		}
		if len(order) != 3*workers {
			t.Errorf("round %d: %d of %d parts", round, len(order), 3*workers)
		}
		close(over)
		ended.Wait()
		if n := r.busy.Load(); n != 0 {
			t.Fatalf("round %d: %d goroutines are still counted", round, n)
		}
	}
}

// TestResidues: what is written to the residues of a limb, also of a view, is what the batch
// holds, and no other batch gives any.
func TestResidues(t *testing.T) {
	moduli := testModuli(t, 10, 3)
	r, other := ringOf(t, nil, 10, moduli), ringOf(t, nil, 10, moduli)
	b, err := r.NewBatch(2, []int{0, 2}, cutrantt.NTT(16))
	if err != nil {
		t.Fatal(err)
	}
	view, err := b.Slice(1, 2, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint32, b.Len())
	for i := range want {
		want[i] = uint32(i)
	}
	for p := range 2 {
		for l := range 2 {
			of, poly, limb := b, p, l
			if p+l == 2 {
				of, poly, limb = view, 0, 0
			}
			x, err := r.Residues(of, poly, limb)
			if err != nil {
				t.Fatal(err)
			}
			if copy(x, want[(2*p+l)*r.n:]); len(x) != r.n || cap(x) != r.n {
				t.Errorf("%d residues with room for %d", len(x), cap(x))
			}
		}
	}
	got := make([]uint32, b.Len())
	if err := r.Download(got, b); err != nil || !slices.Equal(got, want) {
		t.Errorf("the batch does not hold what was written (%v)", err)
	}
	for _, at := range [][2]int{{-1, 0}, {2, 0}, {0, -1}, {0, 2}} {
		if x, err := r.Residues(b, at[0], at[1]); x != nil || !errors.Is(err, cutrantt.ErrShape) {
			t.Errorf("residues %v: %v", at, err)
		}
	}
	if x, err := other.Residues(b, 0, 0); x != nil || !errors.Is(err, cutrantt.ErrForeign) {
		t.Errorf("another ring gives residues (%v)", err)
	}
	r.Free(b)
	for _, freed := range []*cutrantt.Batch{b, view, nil} {
		if x, err := r.Residues(freed, 0, 0); x != nil || err == nil {
			t.Errorf("residues of a batch that was freed (%v)", err)
		}
	}
}
