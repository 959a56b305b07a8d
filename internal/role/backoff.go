package role

import (
	"math/rand/v2"
	"time"
)

// Backoff returns the waits after failures: First, then twice as long each time, at most
// Most. Half of each wait is random, so that many devices do not come back at the same
// instant.
type Backoff struct {
	First, Most time.Duration
	failures    int
}

// Next counts a failure and returns the wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	d := b.First
	for range b.failures {
		if d >= b.Most {
			break
		}
		d *= 2
	}
	b.failures++
	d = max(min(d, b.Most), 1)
	return d - rand.N(d/2+1)
}

// Good forgets the failures.
func (b *Backoff) Good() { b.failures = 0 }

// Failures returns how many failures there were in a row.
func (b *Backoff) Failures() int { return b.failures }
