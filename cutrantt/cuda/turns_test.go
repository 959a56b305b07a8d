package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/testrig"
)

// TestTurnsAlone: however many goroutines call, one call works at a time, each works once, and
// each gets its own error. The race detector sees a counter without a lock.
func TestTurnsAlone(t *testing.T) {
	const callers, calls = 24, 200
	var turns turns
	counter := 0
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for k := range calls {
				want := fmt.Errorf("call %d of %d", k, c)
				err := turns.do(func() error {
					before := counter
					if (c+k)%7 == 0 {
						runtime.Gosched()
					}
					counter = before + 1
					if k%2 == 0 {
						return nil
					}
					return want
				})
				if k%2 == 0 && err != nil || k%2 == 1 && !errors.Is(err, want) {
					t.Errorf("call %d of %d got the error %v", k, c, err)
				}
			}
		})
	}
	all.Wait()
	if counter != callers*calls || turns.busy || len(turns.waiting) != 0 {
		t.Errorf("%d of %d calls, busy %v, %d waiting", counter, callers*calls, turns.busy, len(turns.waiting))
	}
}

// TestTurnsInOrder: calls that wait work in the order in which they came, and a goroutine that
// does the work of others returns after mostTurns of them.
func TestTurnsInOrder(t *testing.T) {
	const count = 2*mostTurns + 5
	var turns turns
	started, release := make(chan struct{}), make(chan struct{})
	first := make(chan struct{})
	var order []int
	gate := make(chan struct{})
	go func() {
		_ = turns.do(func() error {
			close(started)
			<-release
			return nil
		})
		close(first)
	}()
	<-started
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			_ = turns.do(func() error {
				order = append(order, i)
				if i == mostTurns {
					<-gate // by another goroutine than the first: that one has returned
				}
				return nil
			})
		})
		testrig.Eventually(t, "the call waits", func() bool {
			turns.mu.Lock()
			defer turns.mu.Unlock()
			return len(turns.waiting) == i+1
		})
	}
	close(release)
	select {
	case <-first:
	case <-time.After(time.Minute):
		t.Error("the first call does the work of all others")
	}
	close(gate)
	all.Wait()
	for i, got := range order {
		if got != i {
			t.Fatalf("order %v", order)
		}
	}
	if len(order) != count {
		t.Errorf("%d calls of %d", len(order), count)
	}
}

// TestNewResultReuses: memory that came back is handed out again, to one batch at a time, counts
// against the pool's limit, and is not handed out by a backend whose GPU has failed.
func TestNewResultReuses(t *testing.T) {
	_, b := working(t)
	r, err := b.newRing(12, benchModuli(t, 12, 3), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	result := func() *cutrantt.Batch {
		t.Helper()
		x, err := r.NewResult(2, upTo(3), cutrantt.NTT(16))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	at := func(x *cutrantt.Batch) pointer { return x.Mem().(*memory).at }
	first := result()
	was, out := at(first), r.pool.out
	r.Free(first)
	second, third := result(), result()
	if at(second) != was || at(third) == was {
		t.Errorf("a block at %x, then %x and %x", was, at(second), at(third))
	}
	r.Free(third)
	if r.pool.out != out {
		t.Errorf("%d bytes are handed out, want %d", r.pool.out, out)
	}
	r.pool.limit = r.pool.out
	if m := r.reuse(2*3*r.n, false); m != nil {
		t.Error("a block beyond the limit, without a collection")
	}
	r.pool.limit = r.pool.least
	failed := errors.New("failed")
	b.lost.Store(&failed)
	if x, err := r.NewResult(2, upTo(3), cutrantt.NTT(16)); !errors.Is(err, cutrantt.ErrDevice) {
		t.Errorf("%v, %v from a GPU that has failed", x, err)
	}
	r.Free(second)
}
