package crew

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestDo: every item is done once, whatever else goes on, also of tasks within items and of more tasks than places.
func TestDo(t *testing.T) {
	for _, held := range []bool{false, true} {
		if held {
			defer Hold()()
		}
		var all sync.WaitGroup
		for range 3 * places {
			all.Go(func() {
				for _, count := range []int{0, 1, 2, 7, 300} {
					done := make([]atomic.Int32, count)
					Do(count, 5, func(i int) {
						done[i].Add(1)
						Do(2, 2, func(int) { done[i].Add(1) })
					})
					for i := range done {
						if n := done[i].Load(); n != 3 {
							t.Errorf("held %t, item %d of %d: %d times", held, i, count, n)
						}
					}
				}
			})
		}
		all.Wait()
	}
}

// TestMost: no more than so many processors do a task's items at a time.
func TestMost(t *testing.T) {
	defer Hold()()
	var now, top atomic.Int64
	Do(200, 3, func(int) {
		n := now.Add(1)
		for was := top.Load(); n > was && !top.CompareAndSwap(was, n); was = top.Load() {
		}
		runtime.Gosched()
		now.Add(-1)
	})
	if top.Load() > 3 {
		t.Errorf("%d at a time", top.Load())
	}
}

// TestReady: an item is not taken before it is ready.
func TestReady(t *testing.T) {
	const count = 1000
	var ready atomic.Int64
	var early atomic.Int64
	task := Prepare(count, 4, func(i int) {
		if int64(i) >= ready.Load() {
			early.Add(1)
		}
	})
	for end := 0; end < count; end += 37 {
		ready.Store(int64(end))
		task.Ready(end)
		if end%2 == 0 {
			task.Work(end)
		}
	}
	ready.Store(count)
	task.Finish()
	if task.known != count || early.Load() != 0 {
		t.Errorf("%d of %d done, %d early", task.known, count, early.Load())
	}
}

// TestHelpersEnd: without a call that holds them all helpers end.
func TestHelpersEnd(t *testing.T) {
	release := Hold()
	Do(100, 100, func(int) { runtime.Gosched() })
	release()
	for start := time.Now(); helpers.Load() > 0; runtime.Gosched() {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d helpers, %d looking", helpers.Load(), looking.Load())
		}
	}
	if looking.Load() != 0 || holders.Load() != 0 {
		t.Errorf("%d looking, %d holders", looking.Load(), holders.Load())
	}
	for i := range posted {
		if posted[i].Load() != nil {
			t.Errorf("task at place %d", i)
		}
	}
}

// TestThrough: what Through waits for is done, and what is behind it need not be.
func TestThrough(t *testing.T) {
	defer Hold()()
	const count = 300
	for range 20 {
		done := make([]atomic.Bool, count)
		task := Begin(count, 4, func(i int) {
			if i%3 == 0 {
				runtime.Gosched()
			}
			done[i].Store(true)
		})
		for end := 0; end <= count; end += 50 {
			task.Through(end)
			for i := range end {
				if !done[i].Load() {
					t.Fatalf("item %d of %d is not done", i, end)
				}
			}
		}
		task.Finish()
	}
}

// TestNewest: helpers leave a task for a newer one.
func TestNewest(t *testing.T) {
	defer Hold()()
	var end atomic.Bool
	old := Begin(1<<20, Most, func(int) {
		if !end.Load() {
			time.Sleep(time.Millisecond)
		}
	})
	var others atomic.Int64
	newer := Begin(1000, Most, func(int) { others.Add(1) })
	for start := time.Now(); others.Load() < 1000; runtime.Gosched() { // all by helpers
		if mostHelpers() < 1 {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%d items of the newer task", others.Load())
		}
	}
	end.Store(true)
	newer.Finish()
	old.Finish()
}
