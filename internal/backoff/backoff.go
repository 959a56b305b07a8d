// Package backoff says how long to wait after failures in a row. The waits double, and
// half of each is random, so that many devices do not come back at the same instant.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Wait returns the wait before the next attempt after n earlier failures: first, then
// twice as long each time, at most most. The upper half of it is random, so it lies in
// [w/2, w] for w = min(first * 2^n, most), and is at least 1 ns.
func Wait(n int, first, most time.Duration) time.Duration {
	d := first
	for ; n > 0 && d < most; n-- {
		d *= 2
	}
	d = max(min(d, most), 1)
	return d - rand.N(d/2+1)
}

// Waits counts failures in a row and returns the wait after each.
type Waits struct {
	First, Most time.Duration
	failures    int
}

// Next counts a failure and returns the wait before the next attempt.
func (w *Waits) Next() time.Duration {
	d := Wait(w.failures, w.First, w.Most)
	w.failures++
	return d
}

// Good forgets the failures.
func (w *Waits) Good() { w.failures = 0 }

// Failures returns how many failures there were in a row.
func (w *Waits) Failures() int { return w.failures }
