// Package crew shares work among processors. Its helpers are goroutines that take items from any task; while a call
// holds them they stay awake between its steps. On a virtual machine a goroutine that sleeps starts 20 to 100 us
// after it is woken, several of them one after the other, which is longer than most steps.
//
// Invariants: there are at most mostHelpers helpers. A helper that finds no item ends, unless a call holds the crew or
// did so just now; then it looks again, and lets other goroutines run between. It ends too where these take long: on a
// busy machine nobody stays awake for nothing. Helpers take items of the newest task. An item is done once, by a helper
// or by the task's owner, who has all of them done before Finish returns.
package crew

import (
	"runtime"
	"sync/atomic"
	"time"
)

// places is how many tasks helpers can find at a time. Owners of more do their items alone.
const places = 16

var (
	posted  [places]atomic.Pointer[Task]
	holders atomic.Int64 // calls that hold the crew
	news    atomic.Int64 // counts items that became ready
	helpers atomic.Int64
	looking atomic.Int64 // helpers without an item
)

// Task is count items, of which those before ready may be taken.
type Task struct {
	f     func(i int)
	count int64
	place int // in posted; negative: none

	ready atomic.Int64
	next  atomic.Int64  // item
	room  atomic.Int64  // for further helpers at a time
	done  []atomic.Bool // items
	known int           // items before it are done, as the owner knows
}

// Most is how many processors share a step of an encryption, if there are so many. Twelve or sixteen measured no
// better, and leave fewer to other callers.
const Most = 8

// mostHelpers is how many helpers there may be: two threads of one core would share its paths to memory.
func mostHelpers() int64 { return int64(min(runtime.GOMAXPROCS(0)-1, Most-1)) }

// Worth is the least bytes that go through a call for which helpers stay awake. Where fewer go at a time, as in an
// evaluator under load, the processors have other work.
const Worth = 16 << 20

// Hold keeps helpers awake between tasks until the function that it returns is called.
func Hold() (release func()) {
	holders.Add(1)
	return func() { holders.Add(-1) }
}

// Do calls f for 0, 1, ..., count-1 on at most most processors, this one included.
func Do(count, most int, f func(i int)) {
	if count < 2 || most < 2 {
		for i := range count {
			f(i)
		}
		return
	}
	t := Begin(count, most, f)
	t.Finish()
}

// Begin makes a task of all items, which helpers take at once. Its owner calls Finish.
func Begin(count, most int, f func(i int)) *Task {
	t := Prepare(count, most, f)
	t.Ready(count)
	return t
}

// Prepare makes a task without items that may be taken: Ready says which. Its owner calls Finish.
func Prepare(count, most int, f func(i int)) *Task {
	t := &Task{f: f, count: int64(count), place: -1, done: make([]atomic.Bool, count)}
	t.room.Store(int64(most) - 1)
	for i := range posted {
		if posted[i].CompareAndSwap(nil, t) {
			t.place = i
			break
		}
	}
	return t
}

// Ready has the items before end taken too. Ends grow.
func (t *Task) Ready(end int) {
	t.ready.Store(int64(end))
	if t.place < 0 {
		return
	}
	news.Add(1)
	wanted := min(int64(end)-t.next.Load(), t.room.Load()) - looking.Load()
	for most := mostHelpers(); wanted > 0; wanted-- {
		if helpers.Add(1) > most {
			helpers.Add(-1)
			return
		}
		go help()
	}
}

// Work does items before end, which must be ready, until none of them is left to take.
func (t *Task) Work(end int) {
	for t.one(int64(end)) {
	}
}

// Through is Work, and returns when all items before end are done.
func (t *Task) Through(end int) {
	t.Work(end)
	for ; t.known < end; t.known++ {
		for look := 1; !t.done[t.known].Load(); look++ {
			pause(look)
		}
	}
}

// Finish makes all items ready and returns when all are done.
func (t *Task) Finish() {
	t.Ready(int(t.count))
	t.Through(int(t.count))
	if t.place >= 0 {
		posted[t.place].Store(nil)
	}
}

// one does an item before end and reports whether there was one.
func (t *Task) one(end int64) bool {
	for {
		i := t.next.Load()
		if i >= min(end, t.ready.Load()) {
			return false
		}
		if t.next.CompareAndSwap(i, i+1) {
			t.f(int(i))
			t.done[i].Store(true)
			return true
		}
	}
}

// join does items of a task that has room for a helper, until others are ready, and reports whether there was one.
func (t *Task) join() (some bool) {
	if t.next.Load() >= t.ready.Load() || t.room.Load() < 1 {
		return false
	}
	if t.room.Add(-1) >= 0 {
		looking.Add(-1)
		for was := news.Load(); t.one(t.count); {
			if some = true; news.Load() != was {
				break
			}
		}
		looking.Add(1)
	}
	t.room.Add(1)
	return some
}

// help is a helper.
func help() {
	defer helpers.Add(-1)
	looking.Add(1)
	defer looking.Add(-1)
	for look := 1; ; look++ {
		for i := places - 1; i >= 0; i-- {
			if t := posted[i].Load(); t != nil && t.join() {
				look, i = 0, places
			}
		}
		if look > lingering && holders.Load() == 0 {
			return
		}
		relax()
		if look%looks == 0 && busy() {
			return
		}
	}
}

// busy lets other goroutines run and reports whether they took long.
func busy() bool {
	start := time.Now()
	runtime.Gosched()
	return time.Since(start) > others
}

// others is what goroutines may take that run while a helper looks for items: less than it would take to wake.
const others = 20 * time.Microsecond

// looks is how often a goroutine looks, some 50 ns each time, before it lets others run: each time takes a lock of the
// scheduler. lingering is how often a helper looks after a call, which may be followed by one with what it gave.
const (
	looks     = 256
	lingering = 1000
)

// pause spends some 50 ns or, now and then, lets other goroutines run.
func pause(look int) {
	if relax(); look%looks == 0 {
		runtime.Gosched()
	}
}
