package engine

import (
	"errors"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// reader reads ciphertexts onto a device. If the device can read many in one call, those
// that arrive during a call are read together by the next: the cost of a call is shared
// under load, and a lone ciphertext does not wait.
type reader struct {
	one  func(body []byte) (*henc.Ciphertext, error)
	many func(bodies [][]byte) ([]*henc.Ciphertext, []error) // nil: one by one

	calls   chan struct{} // holds a value for each running call
	mu      sync.Mutex
	waiting []*unread // in the order of arrival
}

// mostTogether bounds the ciphertexts of one call.
const mostTogether = 64

// callsAtOnce is the number of concurrent calls: one copies while the other waits for the
// device.
const callsAtOnce = 2

// unread is a ciphertext that is queued or being read.
type unread struct {
	body  []byte
	taken bool          // by a call; under the reader's lock
	done  chan struct{} // closed when ct or err is set
	ct    *henc.Ciphertext
	err   error
}

func newReader(ctx *henc.Context) *reader {
	r := &reader{one: ctx.UnmarshalCiphertext, calls: make(chan struct{}, callsAtOnce)}
	if _, ok := ctx.Ring().(cutrantt.Packed); ok {
		r.many = ctx.UnmarshalCiphertexts
	}
	return r
}

// read returns the ciphertext of body on the device.
func (r *reader) read(body []byte) (*henc.Ciphertext, error) {
	if r.many == nil {
		return r.one(body)
	}
	u := &unread{body: body, done: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, u)
	r.mu.Unlock()
	for {
		select {
		case <-u.done:
			return u.ct, u.err
		case r.calls <- struct{}{}:
		}
		r.readSome()
		<-r.calls
		r.mu.Lock()
		taken := u.taken
		r.mu.Unlock()
		if taken {
			<-u.done
			return u.ct, u.err
		}
	}
}

// readSome reads the oldest ciphertexts of the queue in one call.
func (r *reader) readSome() {
	r.mu.Lock()
	n := min(len(r.waiting), mostTogether)
	some := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	for _, u := range some {
		u.taken = true
	}
	r.mu.Unlock()
	if n == 0 {
		return
	}
	r.readTogether(some)
}

// readTogether reads ciphertexts in one call. Those for which the device has no memory are read
// again in two halves: fewer of them may fit.
func (r *reader) readTogether(some []*unread) {
	bodies := make([][]byte, len(some))
	for i, u := range some {
		bodies[i] = u.body
	}
	cts, errs := r.many(bodies)
	var full []*unread
	for i, u := range some {
		if len(some) > 1 && errors.Is(errs[i], cutrantt.ErrMemory) {
			full = append(full, u)
			continue
		}
		u.ct, u.err = cts[i], errs[i]
		close(u.done)
	}
	if half := (len(full) + 1) / 2; half > 0 {
		r.readTogether(full[:half])
		if half < len(full) {
			r.readTogether(full[half:])
		}
	}
}
