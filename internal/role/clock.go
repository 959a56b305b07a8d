package role

import (
	"context"
	"time"
)

// Both reads the two times of a clock as of one moment. A process that is held up between
// the two readings, on a busy machine, would take its delay for a step of the wall clock.
func Both(c Clock) (mono time.Duration, now time.Time) {
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

// Clock is the time that a role lives by.
type Clock interface {
	// Now returns the wall time.
	Now() time.Time
	// Mono returns a time that never steps, from an arbitrary start.
	Mono() time.Duration
	// Sleep waits for d. If ctx ends first, it returns its error.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock returns the machine's clock.
func SystemClock() Clock {
	return ClockShowing(func() time.Time { return wallClock().Round(0) })
}

// ClockShowing returns the machine's clock with another wall time.
func ClockShowing(now func() time.Time) Clock { return systemClock{now, time.Now()} }

// systemClock is the machine's clock; start is where its monotonic time begins.
type systemClock struct {
	now   func() time.Time
	start time.Time
}

func (c systemClock) Now() time.Time      { return c.now() }
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return Sleep(ctx, d) }

// Sleep waits for d. If ctx ends first, it returns its error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
