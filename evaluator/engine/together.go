package engine

import (
	"errors"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
)

// together asks a device for what many callers want in few calls. What they ask for during a
// call goes into the next one: the cost of a call is shared under load, and a lone caller does
// not wait.
type together[A, B any] struct {
	one  func(A) (B, error)       // for devices that gain nothing
	many func([]A) ([]B, []error) // one answer or error for each; nil: one by one

	calls   chan struct{} // holds a value for each running call
	mu      sync.Mutex
	waiting []*asked[A, B] // in the order of arrival
}

// mostTogether bounds the items of one call.
const mostTogether = 64

// callsAtOnce is the number of concurrent calls: one copies while the other waits for the
// device.
const callsAtOnce = 2

// asked is an item that is queued or in a call.
type asked[A, B any] struct {
	item   A
	taken  bool          // by a call; under the lock of together
	done   chan struct{} // closed when answer or err is set
	answer B
	err    error
}

func newTogether[A, B any](one func(A) (B, error), many func([]A) ([]B, []error)) *together[A, B] {
	return &together[A, B]{one: one, many: many, calls: make(chan struct{}, callsAtOnce)}
}

// ask returns the answers to items, and an error if one has failed.
func (q *together[A, B]) ask(items ...A) ([]B, error) {
	answers, errs := make([]B, len(items)), make([]error, len(items))
	if q.many == nil {
		for i, item := range items {
			answers[i], errs[i] = q.one(item)
		}
		return answers, errors.Join(errs...)
	}
	mine := make([]*asked[A, B], len(items))
	for i, item := range items {
		mine[i] = &asked[A, B]{item: item, done: make(chan struct{})}
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, mine...)
	q.mu.Unlock()
	for i, a := range mine {
		q.await(a)
		answers[i], errs[i] = a.answer, a.err
	}
	return answers, errors.Join(errs...)
}

// await returns when a is done. It makes calls itself until one has taken a.
func (q *together[A, B]) await(a *asked[A, B]) {
	for {
		select {
		case <-a.done:
			return
		case q.calls <- struct{}{}:
		}
		q.callSome()
		<-q.calls
		q.mu.Lock()
		taken := a.taken
		q.mu.Unlock()
		if taken {
			<-a.done
			return
		}
	}
}

// callSome makes one call for the oldest items of the queue.
func (q *together[A, B]) callSome() {
	q.mu.Lock()
	n := min(len(q.waiting), mostTogether)
	some := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	for _, a := range some {
		a.taken = true
	}
	q.mu.Unlock()
	if n > 0 {
		q.call(some)
	}
}

// call makes one call. Items for which the device has no memory are asked for again in two
// halves: fewer of them may fit.
func (q *together[A, B]) call(some []*asked[A, B]) {
	items := make([]A, len(some))
	for i, a := range some {
		items[i] = a.item
	}
	answers, errs := q.many(items)
	var full []*asked[A, B]
	for i, a := range some {
		if len(some) > 1 && errors.Is(errs[i], cutrantt.ErrMemory) {
			full = append(full, a)
			continue
		}
		a.answer, a.err = answers[i], errs[i]
		close(a.done)
	}
	if half := (len(full) + 1) / 2; half > 0 {
		q.call(full[:half])
		if half < len(full) {
			q.call(full[half:])
		}
	}
}
