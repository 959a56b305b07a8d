package agent

import (
	"context"
	"time"

	"github.com/hencedge/hencedge/agent/input"
)

// Clock is the time that an agent lives by.
type Clock interface {
	// Now is the wall time.
	Now() time.Time
	// Mono is a time that never steps, from an arbitrary start.
	Mono() time.Duration
	// Sleep waits for d, or until ctx ends and then returns its error.
	Sleep(ctx context.Context, d time.Duration) error
}

// both reads the two times of a clock as of one moment. A process that is held up between
// the two readings, on a busy machine, would take its delay for a step of the wall clock.
func both(c Clock) (mono time.Duration, now time.Time) {
	const near, tries = 10 * time.Millisecond, 5
	mono = c.Mono()
	for range tries {
		now = c.Now()
		after := c.Mono()
		if after-mono < near {
			break
		}
		mono = after
	}
	return mono, now
}

// systemClock is the machine's clock.
type systemClock struct{ start time.Time }

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{time.Now()} }

func (systemClock) Now() time.Time        { return wallClock().Round(0) }
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return input.Sleep(ctx, d) }
