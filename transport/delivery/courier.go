package delivery

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// Level says when an object counts as delivered.
type Level string

// The levels.
const (
	Broker   Level = "broker"   // the broker has acknowledged it (PUBACK)
	Receiver Level = "receiver" // the receiver has signed that it has it on disk
)

// Options of a Courier. Spool, Client, Name and Key are required.
type Options struct {
	Spool     *spool.Spool
	Client    transport.Client
	ChunkSize int
	Prefix    string // of topics

	Name string                // of this sender
	Key  *transport.SigningKey // signs asks
	// Number gives the boot epoch and the next sequence number of an ask.
	Number func() (boot, sequence uint64, err error)

	Level  Level            // of streams that Levels does not name; empty: Broker
	Levels map[string]Level // by stream
	// Receivers are the public keys by name whose receipts count.
	Receivers map[string][]ed25519.PublicKey
	// Shared: each receiver has keys of its own, for some of the objects only. Then a
	// missing object key is not an error.
	Shared bool

	Objects int           // objects that are read and sent at a time, over all streams; 0: 4
	Receipt time.Duration // wait for a receipt before asking; 0: 30 s
	First   time.Duration // shortest delay after a failure; 0: 1 s
	Last    time.Duration // longest; 0: 1 min
	Held    time.Duration // delay after a refusal; 0: 5 min
	Rate    float64       // bytes a second of payloads; 0: no bound
	Burst   float64       // bytes; 0: what Rate gives in a second, at least a chunk
	Share   float64       // of bytes for live data while there is a backlog, 0 to 1
	Live    time.Duration // age below which data is live
	Hours   []Hours       // when to send; none: always

	// Before is called before an object leaves the spool because it was delivered or its
	// number was used before. If Before fails, the object stays and is tried again. It may
	// be nil.
	Before func(*spool.Lease) error
	// Renumber returns an object under the next free number. It is called when the receiver
	// already has another object under the number of one that was never sent: another
	// sender uses this identity, or this sender's state is an old copy. The returned object
	// takes the old one's place. nil: such objects are dropped.
	Renumber func(sealed []byte) ([]byte, error)
	// Topic is where an object is published; nil: where the spool says.
	Topic func(*spool.Lease) string
	// Notify is told of every attempt: nil, or why it failed. It may be nil.
	Notify func(error)

	Clock  Clock
	Logger *slog.Logger
}

// Stats are the counts of a courier.
type Stats struct {
	Delivered, DeliveredBytes uint64 // objects that left the spool
	Live                      uint64 // of these, from the live lane
	Chunks, ChunkBytes        uint64 // messages that the broker acknowledged
	Skipped                   uint64 // chunks that the receiver had already
	Asks, Receipts, Forged    uint64 // sent; that counted; that did not verify
	Retries                   uint64 // attempts after a failure or without a receipt
	Refused                   uint64 // refusals by the receiver
	Dropped                   uint64 // objects that can never be sent
	Renumbered                uint64 // objects whose number somebody else had used
	// Before counts objects of an earlier process that the receiver already had. Few are
	// normal, since of each stream few are under way at a time. Many mean that the spool is
	// an old copy.
	Before        uint64
	ChunkSize     int   // in use: below that of the options where larger chunks vanished
	LastDelivered int64 // unix nanoseconds
	Closed        bool  // outside the hours
	Throttled     time.Duration
	LastTrouble   string // why the last attempt failed; empty after a success
	Unreadable    string // why the last receipt of a receiver cannot be read; empty: it can
	// Refusing are the streams of which the receiver takes nothing, each with its reason.
	Refusing map[string]string
}

// Courier delivers what is in a spool. Make it with New and run it once.
type Courier struct {
	o        Options
	log      *slog.Logger
	sender   *transport.Sender
	bucket   *bucket
	verifier *transport.Verifier
	buffers  sync.Pool // of *[]byte
	reports  transport.LogLimit

	shrink shrink
	slots  chan struct{} // held while an object is sent

	mu      sync.Mutex
	waiting map[[32]byte]chan transport.ReceiptItem
	trouble string
	// unreadable says why the last signed receipt could not be read; empty: it could.
	unreadable string
	refusals   map[string]*refusing // by stream

	asking                  chan struct{} // held while an ask is published
	liveBytes, allBytes     float64
	delivered, bytes, live  atomic.Uint64
	skipped, asks, receipts atomic.Uint64
	forged, retries         atomic.Uint64
	refused, dropped        atomic.Uint64
	renumbered, before      atomic.Uint64
	last                    atomic.Int64
	closed                  atomic.Bool
}

// New returns a Courier, or an error that names the option that is wrong.
func New(o Options) (*Courier, error) {
	o.Objects = cmp.Or(o.Objects, 4)
	o.Receipt = cmp.Or(o.Receipt, 30*time.Second)
	o.First, o.Last, o.Held = cmp.Or(o.First, time.Second), cmp.Or(o.Last, time.Minute), cmp.Or(o.Held, 5*time.Minute)
	o.Level, o.Prefix = cmp.Or(o.Level, Broker), cmp.Or(o.Prefix, transport.DefaultPrefix)
	o.ChunkSize = cmp.Or(o.ChunkSize, transport.DefaultChunkSize)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	c := &Courier{o: o, log: o.Logger, waiting: map[[32]byte]chan transport.ReceiptItem{},
		refusals: map[string]*refusing{}, asking: make(chan struct{}, 1), slots: make(chan struct{}, o.Objects)}
	c.shrink = shrink{full: o.ChunkSize, size: o.ChunkSize, sent: map[[32]byte]int{}}
	window := transport.Window{}
	if o.Rate > 0 {
		c.bucket = newBucket(o.Rate, cmp.Or(o.Burst, max(o.Rate, float64(o.ChunkSize))), o.Clock)
		window.Pace = c.bucket.take
	}
	var err error
	if c.sender, err = transport.NewSender(o.Client, o.ChunkSize, window); err != nil {
		return nil, err
	}
	trust := transport.NewTrustStore()
	for name, keys := range o.Receivers {
		for _, pub := range keys {
			if err := trust.AddDevice(name, pub); err != nil {
				return nil, fmt.Errorf("receiver: %w", err)
			}
		}
	}
	c.verifier, err = transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds: []transport.Kind{transport.KindReceipt}, NoReplay: true, MaxObject: 2 << 20})
	return c, err
}

func (c *Courier) level(stream string) Level { return cmp.Or(c.o.Levels[stream], c.o.Level) }

// needsReceipts reports whether any stream waits for them.
func (c *Courier) needsReceipts() bool {
	need := c.o.Level == Receiver
	for _, l := range c.o.Levels {
		need = need || l == Receiver
	}
	return need
}

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
				func(d transport.Delivery) { c.handle(ctx, d) }); err != nil && ctx.Err() == nil {
				stop(fmt.Errorf("subscribe to receipts: %w", err))
			}
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

// turn is a right to read and send an object. There are few of them. Waiting for an answer
// takes none, so that streams with a silent receiver do not hold the others up.
type turn struct {
	c    *Courier
	held bool
}

func (t *turn) take(ctx context.Context) error {
	if t.held {
		return nil
	}
	select {
	case t.c.slots <- struct{}{}:
		t.held = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) rest() {
	if t.held {
		<-t.c.slots
		t.held = false
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

// backoff returns the delay after n failures in a row: doubling, the upper half of it
// random, so that a fleet does not come back all at once.
func (c *Courier) backoff(n int) time.Duration {
	d := c.o.First << min(n, 20)
	if d <= 0 || d > c.o.Last {
		d = c.o.Last
	}
	return d/2 + mathrand.N(d/2+1)
}

// Stats returns the counts so far.
func (c *Courier) Stats() Stats {
	c.mu.Lock()
	trouble, unreadable, refusing := c.trouble, c.unreadable, c.allRefused()
	c.mu.Unlock()
	sent := c.sender.Stats()
	out := Stats{
		Delivered: c.delivered.Load(), DeliveredBytes: c.bytes.Load(), Live: c.live.Load(),
		Chunks: sent.Chunks, ChunkBytes: sent.Bytes, Skipped: c.skipped.Load(), Asks: c.asks.Load(),
		Receipts: c.receipts.Load(),
		Forged:   c.forged.Load(), Retries: c.retries.Load(), Refused: c.refused.Load(), Dropped: c.dropped.Load(),
		Renumbered: c.renumbered.Load(), Before: c.before.Load(), ChunkSize: c.shrink.now(),
		LastDelivered: c.last.Load(), Closed: c.closed.Load(),
		LastTrouble: trouble, Unreadable: unreadable, Refusing: refusing,
	}
	if c.bucket != nil {
		c.bucket.mu.Lock()
		out.Throttled = c.bucket.waited
		c.bucket.mu.Unlock()
	}
	return out
}
