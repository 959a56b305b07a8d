package mqtt

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"golang.org/x/sync/semaphore"

	"github.com/hencedge/hencedge/transport"
)

// client is a Client over paho.mqtt.golang. It relies on the library only for the protocol
// and the reconnect loop. outbox decides what counts as delivered, router where messages
// go, and guardedConn what may come in.
type client struct {
	opts   Options
	end    endpoint
	log    *slog.Logger
	paho   paho.Client
	out    *outbox
	slots  *semaphore.Weighted // messages published and not acknowledged
	turn   chan struct{}       // held while a message is handed to the library
	router *router
	marker [16]byte // of payloads that stand in for oversized ones

	ctx    context.Context // ends when Close begins to disconnect
	cancel context.CancelFunc

	mu       sync.Mutex
	conn     *guardedConn  // the newest connection
	opened   time.Time     // of conn
	change   chan struct{} // closed and replaced on every connection
	attempts int           // since the last connection, or more after short ones
	since    time.Time     // of the newest connection
	short    int           // connections in a row that soon ended
	ever     bool          // connected at least once
	lastErr  error         // of the last attempt
	locked   error         // why there is no password for the attempt that begins
	failed   chan struct{} // closed when the first attempt is refused for good
	closing  bool
	bearing  bool // a birth message is under way
	unborn   bool // the newest connection has none
}

// router keeps the subscriptions and brings messages to their handlers.
type router struct {
	c       *client
	flow    *inflow
	reports transport.LogLimit

	mu      sync.Mutex
	subs    []*subscription
	named   map[string]*subscription // those of one topic
	wild    []*subscription          // the others
	stash   []*arrival
	stashed int         // bytes
	added   time.Time   // of the newest subscription
	sweeper *time.Timer // of the stash; nil when it is empty
	gone    map[string]bool
}

// recycle ends the present connection; the library makes a new one and sends
// everything unacknowledged again.
func (c *client) recycle() {
	c.mu.Lock()
	g := c.conn
	c.mu.Unlock()
	if g != nil {
		g.kill()
	}
}

// Connected reports whether there is a working connection now.
func (c *client) Connected() bool { return c.paho.IsConnectionOpen() }

// awaitConnection returns when there is a connection.
func (c *client) awaitConnection(ctx context.Context) error {
	for {
		c.mu.Lock()
		change, closing := c.change, c.closing
		c.mu.Unlock()
		if closing {
			return transport.ErrClosed
		}
		if c.paho.IsConnectionOpen() {
			return nil
		}
		select {
		case <-change:
		case <-c.ctx.Done():
			return transport.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close waits for acknowledgements, then disconnects.
func (c *client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	var err error
	for err == nil && c.ctx.Err() == nil {
		n, changed := c.out.pending()
		if n == 0 {
			break
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
		case <-ctx.Done():
			err = fmt.Errorf("close: %d messages not acknowledged: %w", n, ctx.Err())
		}
	}
	c.shutdown()
	return err
}

func (c *client) shutdown() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.cancel()
	c.paho.Disconnect(250)
}
