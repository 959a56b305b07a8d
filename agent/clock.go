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

// systemClock is the machine's clock.
type systemClock struct{ start time.Time }

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{time.Now()} }

func (systemClock) Now() time.Time        { return wallClock().Round(0) }
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return input.Sleep(ctx, d) }
