package agent

import (
	"context"
	"time"
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

// systemClock is the machine's clock.
type systemClock struct{ start time.Time }

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{time.Now()} }

func (systemClock) Now() time.Time        { return wallClock().Round(0) }
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
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
