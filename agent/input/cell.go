package input

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Cell holds the newest value of a quantity that is received in the background.
// It is a Sensor.
type Cell struct {
	maxAge time.Duration

	mu    sync.Mutex
	value float64
	at    time.Time     // with the monotonic reading; zero before the first value
	slept time.Duration // of the machine, when the value came
	err   error         // why there is no value
}

// asleep is how long the machine has been suspended since it was started; the
// monotonic clock stands still meanwhile.
var asleep = func() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}

// NewCell makes a cell whose values live for maxAge.
func NewCell(maxAge time.Duration) *Cell { return &Cell{maxAge: maxAge} }

// Set stores a value that was received now.
func (c *Cell) Set(v float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.at, c.slept, c.err = v, time.Now(), asleep(), nil
}

// Fail says that what was received now holds no usable value: the value is
// missing until the next Set.
func (c *Cell) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.err = time.Time{}, err
}

// Read returns the newest value and when it was received.
func (c *Cell) Read(ctx context.Context) (float64, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.at)
	if slept := asleep() - c.slept; slept >= time.Second { // less is the time between two readings of clocks
		age += slept
	}
	switch {
	case c.at.IsZero() && c.err != nil:
		return 0, time.Time{}, c.err
	case c.at.IsZero():
		return 0, time.Time{}, ErrNoValue
	case age > c.maxAge:
		return 0, time.Time{}, fmt.Errorf("%w: %s, more than max_age %s", ErrStale, age.Round(time.Millisecond),
			c.maxAge)
	}
	return c.value, c.at.Round(0), nil
}

var _ Sensor = (*Cell)(nil)
