package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// Run delivers until ctx ends, or until the spool is closed and empty. It fails when
// nothing can be delivered any more.
func (c *Courier) Run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer func() {
		stop(nil)
		work.Wait()
	}()
	if c.needsReceipts() {
		// In the background: without a connection Subscribe waits for one.
		work.Go(func() {
			if err := c.o.Client.Subscribe(ctx, transport.ReceiptTopic(c.o.Prefix, c.o.Name),
				func(d transport.Delivery) { c.handle(ctx, d) }); err != nil {
				if ctx.Err() == nil {
					stop(fmt.Errorf("subscribe to receipts: %w", err))
				}
				return
			}
			close(c.ready)
		})
	}
	work.Go(func() { c.tick(ctx) })
	for {
		t := &turn{c: c}
		if t.take(ctx) != nil {
			return c.end(ctx)
		}
		l := c.next(ctx, t)
		if l == nil {
			if ctx.Err() == nil { // drained
				return nil
			}
			return c.end(ctx)
		}
		work.Go(func() {
			defer t.rest()
			if err := c.deliver(ctx, l, t); err != nil {
				stop(err)
			}
		})
	}
}

// end returns why delivery failed, or nil if it just ended.
func (c *Courier) end(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// tick lets the spool do what waits for the disk, in real time.
func (c *Courier) tick(ctx context.Context) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.o.Spool.Tick()
		case <-ctx.Done():
			return
		}
	}
}

// next waits for an object to deliver; nil when ctx ends or the spool is closed
// and empty.
func (c *Courier) next(ctx context.Context, t *turn) *spool.Lease {
	for {
		changed, closed := c.o.Spool.Changed(), c.o.Spool.Closed()
		// Taken before a lease is tried, so that no change in between is missed.
		waiting, delayed := c.o.Spool.Waiting()
		wait := time.Minute // until the hours are looked at again
		if c.mayDeliver() {
			wait = 0 // until something changes
			lanes := []spool.Lane{spool.Oldest, spool.Live}
			if c.o.Share > 0 && c.liveBytes <= c.o.Share*c.allBytes {
				lanes = []spool.Lane{spool.Live, spool.Oldest}
			}
			for _, lane := range lanes {
				if lane == spool.Live && c.o.Share == 0 {
					continue
				}
				if l := c.o.Spool.TryLease(lane, c.o.Live); l != nil {
					c.account(l)
					return l
				}
			}
		}
		if closed && !waiting || ctx.Err() != nil {
			return nil
		}
		if wait == 0 {
			wait = delayed
		}
		t.rest()
		if !c.pause(ctx, changed, wait) || t.take(ctx) != nil {
			return nil
		}
	}
}

// mayDeliver reports whether the hours allow sending now.
func (c *Courier) mayDeliver() bool {
	closed := !open(c.o.Hours, c.o.Clock.Now())
	if c.closed.Swap(closed) != closed {
		c.log.Info("sending only within the configured hours", "open", !closed)
	}
	return !closed
}

// account keeps the balance of the bytes that each lane has sent since a backlog began.
func (c *Courier) account(l *spool.Lease) {
	if c.o.Share == 0 {
		return
	}
	// The balance forgets, so that a long quiet time gives no credit.
	c.liveBytes, c.allBytes = c.liveBytes*0.98, c.allBytes*0.98
	c.allBytes += float64(l.Size)
	if l.Live {
		c.liveBytes += float64(l.Size)
	}
}

// pause waits for a change, or, unless d is 0, for d by the courier's clock.
func (c *Courier) pause(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	if d == 0 {
		select {
		case <-changed:
		case <-ctx.Done():
		}
		return ctx.Err() == nil
	}
	sleep, stop := context.WithCancel(ctx)
	defer stop()
	due := make(chan struct{})
	go func() {
		_ = c.o.Clock.Sleep(sleep, d)
		close(due)
	}()
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil
}
