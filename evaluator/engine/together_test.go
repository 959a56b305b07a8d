package engine

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// TestTogether: what comes while a device reads is read together, every caller gets its own,
// and no call has more than the bound.
func TestTogether(t *testing.T) {
	const count = 3*mostTogether + 5
	odd := errors.New("an odd one")
	var mu sync.Mutex
	var calls, most, read int
	begun, goOn := make(chan struct{}, callsAtOnce), make(chan struct{})
	r := newTogether(nil, func(bodies [][]byte) ([]*henc.Ciphertext, []error) {
		mu.Lock()
		calls, read, most = calls+1, read+len(bodies), max(most, len(bodies))
		first := calls <= callsAtOnce
		mu.Unlock()
		if first {
			begun <- struct{}{}
			<-goOn
		}
		cts, errs := make([]*henc.Ciphertext, len(bodies)), make([]error, len(bodies))
		for i, b := range bodies {
			if b[0]%2 == 1 {
				errs[i] = fmt.Errorf("%w: %d", odd, b[0])
			} else {
				cts[i] = &henc.Ciphertext{Level: int(b[0])}
			}
		}
		return cts, errs
	})
	var all sync.WaitGroup
	ask := func(i byte) {
		all.Go(func() {
			cts, err := r.ask([]byte{i})
			switch {
			case i%2 == 1 && (!errors.Is(err, odd) || err.Error() != fmt.Sprint(odd, ": ", i)):
				t.Errorf("%d: %v", i, err)
			case i%2 == 0 && (err != nil || cts[0].Level != int(i)):
				t.Errorf("%d: %v, %v", i, cts, err)
			}
		})
	}
	for i := range callsAtOnce { // one each, before the others come
		ask(byte(i))
		<-begun
	}
	for i := callsAtOnce; i < count; i++ {
		ask(byte(i))
	}
	waiting := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.waiting)
	}
	for waiting() < count-callsAtOnce {
		runtime.Gosched()
	}
	close(goOn)
	all.Wait()
	if want := callsAtOnce + 4; read != count || calls != want || most != mostTogether {
		t.Errorf("%d read in %d calls, want %d; most in one %d", read, calls, want, most)
	}
	if waiting() != 0 || len(r.calls) != 0 {
		t.Errorf("%d wait, %d calls are under way", waiting(), len(r.calls))
	}
}

// TestTogetherExhaustedMemory: of ciphertexts that do not fit into memory together, each is read
// that fits alone.
func TestTogetherExhaustedMemory(t *testing.T) {
	const odd = 5 // fits never
	var calls [][]byte
	r := newTogether(nil, func(bodies [][]byte) ([]*henc.Ciphertext, []error) {
		var all []byte
		cts, errs := make([]*henc.Ciphertext, len(bodies)), make([]error, len(bodies))
		for i, b := range bodies {
			all = append(all, b[0])
			cts[i] = &henc.Ciphertext{Level: int(b[0])}
			if b[0] != 0 && (len(bodies) > 2 || b[0] == odd) { // 0 is of another shape
				cts[i], errs[i] = nil, fmt.Errorf("full: %w", cutrantt.ErrMemory)
			}
		}
		calls = append(calls, all)
		return cts, errs
	})
	var some []*asked[[]byte, *henc.Ciphertext]
	for i := range 9 {
		some = append(some, &asked[[]byte, *henc.Ciphertext]{item: []byte{byte(i)}, done: make(chan struct{})})
	}
	r.call(some)
	for i, u := range some {
		<-u.done
		if full := errors.Is(u.err, cutrantt.ErrMemory); full != (i == odd) || !full && u.answer.Level != i {
			t.Errorf("%d: %v, %v", i, u.answer, u.err)
		}
	}
	want := [][]byte{{0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4}, {1, 2}, {3, 4}, {5, 6, 7, 8}, {5, 6}, {5}, {7, 8}}
	if !slices.EqualFunc(calls, want, slices.Equal) {
		t.Errorf("calls %v, want %v", calls, want)
	}
}

// TestTogetherOneByOne: a device that reads one at a time is called by every caller.
func TestTogetherOneByOne(t *testing.T) {
	var got []byte
	r := newTogether(func(body []byte) (*henc.Ciphertext, error) {
		got = append(got, body...)
		return &henc.Ciphertext{}, nil
	}, nil)
	for i := range 3 {
		if _, err := r.ask([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []byte{0, 1, 2}) {
		t.Errorf("read %v", got)
	}
}
