package evaluator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// TestTurns: objects of one topic end in the order in which they were queued, whichever
// intake is done with its own first, and nothing is left over.
func TestTurns(t *testing.T) {
	const topics, each, intakes = 3, 200, 8
	waiting, quit := make(chan staged, 4), make(chan struct{})
	var q turns
	var all sync.WaitGroup
	var mu sync.Mutex
	ended := map[string][]int{}
	for range intakes {
		all.Go(func() {
			for {
				o, ok := next(waiting, quit)
				if !ok {
					return
				}
				if rand.IntN(4) == 0 {
					time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
				}
				o.turn.wait()
				mu.Lock()
				ended[o.Topic] = append(ended[o.Topic], int(o.ID[0]))
				mu.Unlock()
				o.turn.end()
			}
		})
	}
	var want []int
	for i := range each {
		want = append(want, i)
		for k := range topics {
			o := staged{Staged: transport.Staged{Topic: fmt.Sprint(k), ID: [32]byte{byte(i)}}}
			if !q.give(waiting, o, quit) {
				t.Error("an object was not queued")
			}
		}
	}
	close(quit) // what is staged is given out before the intakes end
	all.Wait()
	for k := range topics {
		if got := ended[fmt.Sprint(k)]; !slices.Equal(got, want) {
			t.Errorf("topic %d: %v", k, got)
		}
	}
	if len(q.last) != 0 {
		t.Errorf("%d topics remembered", len(q.last))
	}
}

// TestTurnsOfOthers: an object that takes long holds up those of its own topic only.
func TestTurnsOfOthers(t *testing.T) {
	waiting, quit := make(chan staged, 3), make(chan struct{})
	var q turns
	for _, topic := range []string{"slow", "slow", "other"} {
		q.give(waiting, staged{Staged: transport.Staged{Topic: topic}}, quit)
	}
	var given [3]turn
	for i := range given {
		o, _ := next(waiting, quit)
		given[i] = o.turn
	}
	first, second, other := given[0], given[1], given[2]
	other.wait()
	other.end()
	passed := make(chan struct{})
	go func() {
		second.wait()
		close(passed)
	}()
	select {
	case <-passed:
		t.Error("the second object did not wait for the first")
	case <-time.After(50 * time.Millisecond):
	}
	first.wait()
	first.end()
	<-passed
	second.end()
}

// TestTurnsAtTheEnd: who waits for room learns that the service stops, and leaves nothing behind.
func TestTurnsAtTheEnd(t *testing.T) {
	queue, quit := make(chan staged), make(chan struct{}) // nobody takes
	var q turns
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if q.give(queue, staged{Staged: transport.Staged{Topic: fmt.Sprint(i % 2)}}, quit) {
				t.Error("an object was queued where there is no room")
			}
		})
	}
	close(quit)
	all.Wait()
	if len(q.last) != 0 {
		t.Errorf("%d topics remembered", len(q.last))
	}
}
