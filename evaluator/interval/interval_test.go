package interval

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/transport"
)

const every = time.Minute

// start is the start of interval 0 of the tests.
var start = time.Unix(1_700_000_040, 0) // a multiple of a minute

func newBook(devices int) *Book {
	return &Book{Every: every, Timeout: 5 * time.Minute, Most: 4, Capacity: 100,
		Complete: func(reported map[string]bool) bool { return len(reported) >= devices }}
}

// window has all samples of interval n, and comes a second after its end.
func window(device string, n int64) Window {
	return Window{Device: device, Number: start.Unix()/60 + n, Samples: 60, Full: 60, ID: [32]byte{byte(n), device[0]},
		At: start.Add(time.Duration(n+1)*every + time.Second)}
}

func noParts() any { return nil }

// add joins a window and ends its adding.
func add(t *testing.T, b *Book, w Window) (ready []*Sum) {
	t.Helper()
	s, ready, err := b.Join(w, noParts)
	if err != nil {
		t.Fatal(err)
	}
	return append(ready, b.Done(s, w, true)...)
}

// one returns the only sum, which has so many windows of so many devices.
func one(t *testing.T, ready []*Sum, windows, devices int) *Sum {
	t.Helper()
	if len(ready) != 1 || len(ready[0].Windows) != windows || ready[0].Devices() != devices {
		t.Fatalf("%d sums are ready: %+v; want one of %d windows of %d devices", len(ready), ready, windows, devices)
	}
	return ready[0]
}

func none(t *testing.T, ready []*Sum) {
	t.Helper()
	if len(ready) != 0 {
		t.Fatalf("%d sums are ready", len(ready))
	}
}

func TestClosesWhenAllReported(t *testing.T) {
	b := newBook(3)
	none(t, add(t, b, window("a", 0)))
	none(t, add(t, b, window("b", 0)))
	none(t, add(t, b, window("b", 1)))
	s := one(t, add(t, b, window("c", 0)), 3, 3)
	if s.Samples() != 180 || len(s.IDs()) != 3 || s.IDs()[1] != window("b", 0).ID || s.Number != window("a", 0).Number {
		t.Errorf("%+v", s)
	}
	if _, _, err := b.Join(window("a", 0), noParts); !errors.Is(err, ErrLate) {
		t.Errorf("a late window: %v", err)
	}
	one(t, b.Due(start.Add(8*time.Minute)), 1, 1)
	none(t, b.Due(start.Add(time.Hour)))
}

// A window is in the result only if it was added, and the result waits for it.
func TestWaitsForAdding(t *testing.T) {
	b := newBook(2)
	first, second := window("a", 0), window("b", 0)
	s, _, err := b.Join(first, noParts)
	if err != nil {
		t.Fatal(err)
	}
	none(t, add(t, b, second))
	one(t, b.Done(s, first, false), 1, 1)
	alone, _, err := b.Join(window("a", 1), noParts)
	if err != nil {
		t.Fatal(err)
	}
	none(t, b.Due(start.Add(time.Hour)))
	none(t, b.Done(alone, window("a", 1), false)) // a sum of nothing has no result
}

func TestTimeout(t *testing.T) {
	b := newBook(2)
	add(t, b, window("a", 0))
	came := window("a", 0).At
	none(t, b.Due(came.Add(5*time.Minute-time.Second)))
	one(t, b.Due(came.Add(5*time.Minute)), 1, 1)
	// A window that was cut comes before the end of its interval, which does not shorten it.
	early := window("a", 2)
	early.Samples, early.At = 10, start.Add(2*every+10*time.Second)
	add(t, b, early)
	none(t, b.Due(early.At.Add(5*time.Minute)))
	one(t, b.Due(start.Add(3*every+5*time.Minute)), 1, 1)
	// A clock that is years ahead does not hold it up.
	ahead := window("a", 1<<20)
	ahead.At = start
	add(t, b, ahead)
	one(t, b.Due(start.Add(5*time.Minute)), 1, 1)
}

// A device whose window was cut has not reported before the interval's end.
func TestCutWindows(t *testing.T) {
	b := newBook(2)
	cut := window("a", 0)
	cut.Samples, cut.At = 20, start.Add(20*time.Second)
	none(t, add(t, b, cut))
	none(t, add(t, b, window("b", 0)))
	rest := window("a", 0)
	rest.Samples, rest.ID = 39, [32]byte{7}
	if s := one(t, add(t, b, rest), 3, 2); s.Samples() != 119 {
		t.Errorf("%d samples", s.Samples())
	}
	b = newBook(2)
	add(t, b, cut)
	twice := window("a", 0)
	twice.Samples = 41
	if _, _, err := b.Join(twice, noParts); !errors.Is(err, ErrTwice) {
		t.Errorf("samples that were there: %v", err)
	}
	twice.Samples = 40
	none(t, add(t, b, twice))
}

// What is under different keys is added up apart, and the interval is complete with both.
func TestKeys(t *testing.T) {
	b := newBook(3)
	add(t, b, window("a", 0))
	add(t, b, window("b", 0))
	rotated := window("c", 0)
	rotated.Key = transport.KeyRef{Epoch: 2}
	ready := add(t, b, rotated)
	if len(ready) != 2 || len(ready[0].Windows) != 2 || len(ready[1].Windows) != 1 || ready[1].Key.Epoch != 2 {
		t.Errorf("%+v", ready)
	}
}

// The open intervals and the windows of a sum are bounded, and so is what is known of closed ones.
func TestBounds(t *testing.T) {
	b := newBook(2)
	for n := range int64(4) {
		none(t, add(t, b, window("a", 3-n)))
	}
	if s := one(t, add(t, b, window("a", 9)), 1, 1); s.Number != window("a", 0).Number {
		t.Errorf("interval %d was closed", s.Number)
	}
	for n := range int64(1000) {
		add(t, b, window("a", 10+n))
	}
	if len(b.open) != 4 || len(b.closed) > 8*4+64 {
		t.Errorf("%d open, %d closed", len(b.open), len(b.closed))
	}
	b = newBook(1000)
	b.Capacity = 3
	none(t, add(t, b, window("a", 0)))
	none(t, add(t, b, window("b", 0)))
	one(t, add(t, b, window("c", 0)), 3, 3)
}

// A device that goes completes the interval.
func TestDeviceGoes(t *testing.T) {
	devices := 2
	b := newBook(0)
	b.Complete = func(reported map[string]bool) bool { return len(reported) >= devices }
	none(t, add(t, b, window("a", 0)))
	none(t, b.Due(start.Add(2*time.Minute)))
	devices = 1
	one(t, b.Due(start.Add(2*time.Minute)), 1, 1)
}

// Whatever the order, each window is in exactly one sum, and each sum is handed out once.
func TestEachOnce(t *testing.T) {
	const devices, intervals = 20, 12
	b := newBook(devices)
	b.Most = intervals
	var mu sync.Mutex
	seen := map[[32]byte]int{}
	sums := 0
	take := func(ready []*Sum) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range ready {
			sums++
			for _, id := range s.IDs() {
				seen[id]++
			}
		}
	}
	var all sync.WaitGroup
	for d := range devices {
		all.Go(func() {
			for n := range int64(intervals) {
				w := window(fmt.Sprintf("%c", 'a'+d), n)
				s, ready, err := b.Join(w, noParts)
				if err != nil {
					t.Error(err)
					return
				}
				take(ready)
				take(b.Done(s, w, true))
			}
		})
	}
	all.Wait()
	if sums != intervals || len(seen) != devices*intervals {
		t.Errorf("%d sums with %d windows", sums, len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("window %x is in %d sums", id, n)
		}
	}
}
