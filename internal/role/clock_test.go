package role

import (
	"context"
	"testing"
	"time"
)

// heldUp is a clock whose reader is held up between two readings.
type heldUp struct {
	at    time.Duration
	waits []time.Duration // before each reading of the wall time
}

func (c *heldUp) Mono() time.Duration { return c.at }

func (c *heldUp) Now() time.Time {
	if len(c.waits) > 0 {
		c.at += c.waits[0]
		c.waits = c.waits[1:]
	}
	return time.Unix(1000, 0).Add(c.at)
}

func (c *heldUp) Sleep(context.Context, time.Duration) error { return nil }

// A process that is held up between its readings of the two clocks stamps no sample later
// than it was taken, and sees no step of the wall clock.
func TestBothClocks(t *testing.T) {
	c := &heldUp{waits: []time.Duration{1600 * time.Millisecond, 30 * time.Millisecond, time.Millisecond}}
	mono, now := Both(c)
	if d := now.Sub(time.Unix(1000, 0)) - mono; d < 0 || d >= 10*time.Millisecond {
		t.Errorf("the wall time is %v ahead of the monotonic one", d)
	}
}
