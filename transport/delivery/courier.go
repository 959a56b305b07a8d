package delivery

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/transport"
)

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
	ready  chan struct{} // closed when the subscription to receipts is made

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

// refusing is how the receiver answers for one stream.
type refusing struct {
	taken bool          // something, at any time
	n     int           // refusals since the last object that was taken
	since time.Duration // of the first of them, monotonic
	why   string        // of the last of them
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
		refusals: map[string]*refusing{}, asking: make(chan struct{}, 1), slots: make(chan struct{}, o.Objects),
		ready: make(chan struct{})}
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
