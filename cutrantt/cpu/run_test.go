package cpu

import (
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
