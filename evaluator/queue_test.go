package evaluator

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
)

// queueRig is a queue with room for some jobs, and programs of a plan to fill it.
func queueRig(t *testing.T, room, programs int) (q *jobQueue, all []*runnable, next func(*runnable) *job) {
	t.Helper()
	plan, err := Check(testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"})))
	if err != nil {
		t.Fatal(err)
	}
	for range programs {
		all = append(all, &runnable{served: &served{planned: &plan.Programs[0]}})
	}
	number := map[*runnable]int64{}
	next = func(p *runnable) *job {
		number[p]++
		return &job{prog: p, place: place{n: number[p]}, inputs: map[program.Input]*window{{}: {}}}
	}
	return newJobQueue(int64(room) * next(all[0]).bytes()), all, next
}

// TestFlood: one device sends 100 times as much as each of 99 others. However far it is
// ahead, what the others send is done within the next turn, and in order.
func TestFlood(t *testing.T) {
	const others, flood = 99, 100 * 99
	q, programs, next := queueRig(t, flood+others, others+1)
	for range flood {
		q.push(t.Context(), next(programs[0]))
	}
	for turn := range 3 {
		for _, p := range programs[1:] {
			q.push(t.Context(), next(p))
		}
		if turn == 0 && !q.floods(programs[0].line()) || q.floods(programs[1].line()) {
			t.Errorf("floods: %v, %v", q.floods(programs[0].line()), q.floods(programs[1].line()))
		}
		got := map[*runnable]int{}
		for range others + 1 {
			j, _ := q.pop()
			if got[j.prog]++; j.place.n != int64(turn+1) && j.prog != programs[0] {
				t.Fatalf("turn %d: window %d", turn, j.place.n)
			}
		}
		for i, p := range programs {
			if got[p] != 1 {
				t.Fatalf("turn %d: %d jobs of program %d", turn, got[p], i)
			}
		}
	}
}

// TestQueueRoom: who finds the queue full waits until a job leaves, or its context ends.
// The last jobs are given out before the queue ends.
func TestQueueRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, programs, next := queueRig(t, 2, 2)
		p := programs[0]
		for range 2 {
			if !q.push(t.Context(), next(p)) {
				t.Fatal("no room for two")
			}
		}
		if q.floods(p.line()) {
			t.Error("a program that is alone floods")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if q.push(ctx, next(p)) {
			t.Fatal("room for three")
		}
		pushed := make(chan bool)
		go func() { pushed <- q.push(t.Context(), next(programs[1])) }()
		synctest.Wait()
		if j, ok := q.pop(); !ok || j.place.n != 2 { // the first was made to measure
			t.Fatalf("%+v", j)
		}
		if !<-pushed {
			t.Error("no room after a job has left")
		}
		q.close()
		for range 2 {
			if _, ok := q.pop(); !ok {
				t.Error("the queue ended before its jobs")
			}
		}
		if j, ok := q.pop(); ok {
			t.Errorf("%+v after the end", j)
		}
		if q.bytes != 0 || len(q.lines) != 0 || len(q.turns) != 0 {
			t.Errorf("left over: %+v", q)
		}
	})
}

// processorTime returns the time that this process has had on processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkQueue measures the processor time of a job in a queue that many workers wait at, as
// those of a GPU do.
func BenchmarkQueue(b *testing.B) {
	for _, workers := range []int{2, 512} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			plan, err := Check(testConfig(b, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"})))
			if err != nil {
				b.Fatal(err)
			}
			p := &runnable{served: &served{planned: &plan.Programs[0]}}
			j := &job{prog: p, inputs: map[program.Input]*window{{}: {}}}
			q := newJobQueue(8 * j.bytes())
			var all sync.WaitGroup
			popped := make(chan bool)
			for range workers {
				all.Go(func() {
					for {
						if _, more := q.pop(); !more {
							return
						}
						popped <- true
					}
				})
			}
			before, n := processorTime(b), 0
			for b.Loop() {
				q.push(b.Context(), j)
				<-popped
				time.Sleep(time.Millisecond) // until all who were woken sleep again
				n++
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(n), "cpu-us/op")
			q.close()
			all.Wait()
		})
	}
}
