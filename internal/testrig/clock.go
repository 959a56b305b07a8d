package testrig

import (
	"context"
	"sync"
	"time"
)

// Clock jumps to the end of every sleep at once. It is safe for concurrent use. The zero
// value has its monotonic time at 0.
type Clock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
	late time.Duration
}

// NewClock returns a clock that shows wall, or else noon of an arbitrary day, one hour
// after boot.
func NewClock(wall ...time.Time) *Clock {
	c := &Clock{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), mono: time.Hour}
	if len(wall) > 0 {
		c.wall = wall[0]
	}
	return c
}

// Now returns the wall clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Mono returns the monotonic clock's time.
func (c *Clock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// Sleep moves both clocks on by d, unless ctx has ended.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d = max(d, 0) + c.late
	c.late = 0
	c.wall, c.mono = c.wall.Add(d), c.mono+d
	return nil
}

// Step moves the wall clock alone, as setting the time does.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// Advance moves both clocks on by d, as time does between two sleeps.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// SetLate makes the next sleep end too late by d.
func (c *Clock) SetLate(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = d
}
