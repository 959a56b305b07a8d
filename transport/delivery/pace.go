package delivery

import (
	"context"
	"sync"
	"time"
)

// bucket is a token bucket in bytes: rate bytes a second on average, burst at
// once. A message larger than the burst goes when the bucket is full and leaves a
// debt, so that the average holds for every size of message.
type bucket struct {
	rate, burst float64
	clock       Clock

	mu     sync.Mutex
	tokens float64
	last   time.Duration
	waited time.Duration
}

// Clock is the time that a courier lives by.
type Clock interface {
	Now() time.Time
	Mono() time.Duration
	Sleep(ctx context.Context, d time.Duration) error
}

func newBucket(rate, burst float64, clock Clock) *bucket {
	return &bucket{rate: rate, burst: max(burst, 1), tokens: max(burst, 1), clock: clock, last: clock.Mono()}
}

// take waits until n bytes may go.
func (b *bucket) take(ctx context.Context, n int) error {
	for {
		b.mu.Lock()
		now := b.clock.Mono()
		b.tokens = min(b.tokens+b.rate*(now-b.last).Seconds(), b.burst)
		b.last = now
		need := min(float64(n), b.burst)
		if b.tokens >= need {
			b.tokens -= float64(n)
			b.mu.Unlock()
			return ctx.Err()
		}
		wait := time.Duration((need - b.tokens) / b.rate * float64(time.Second))
		wait = min(max(wait, time.Millisecond), time.Second)
		b.waited += wait
		b.mu.Unlock()
		if err := b.clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// open reports whether objects may be sent at t; without hours they always may.
func open(hours []Hours, t time.Time) bool {
	for i := range hours {
		if hours[i].open(t) {
			return true
		}
	}
	return len(hours) == 0
}

// OpenShare returns the part of a week in which the hours are open, to the minute.
func OpenShare(hours []Hours) float64 {
	const minutes = 7 * 24 * 60
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a week without a change of summer time
	n := 0
	for m := range minutes {
		if open(hours, start.Add(time.Duration(m)*time.Minute)) {
			n++
		}
	}
	return float64(n) / minutes
}

// Hours is a part of the day in which objects may be sent.
type Hours struct {
	From, To time.Duration // since midnight; To before From crosses midnight
	Days     [7]bool       // by time.Weekday on which it begins; all false: every day
	Zone     *time.Location
}

// open reports whether t lies in h: From is inside, To is not.
func (h *Hours) open(t time.Time) bool {
	t = t.In(h.Zone)
	day := t.Weekday()
	since := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute +
		time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
	on := func(d time.Weekday) bool { return h.Days == [7]bool{} || h.Days[(d+7)%7] }
	if h.From < h.To {
		return on(day) && since >= h.From && since < h.To
	}
	return on(day) && since >= h.From || on(day-1) && since < h.To
}
