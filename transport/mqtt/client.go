package mqtt

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/url"
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

// Dial connects to the broker and returns when the connection is up. It keeps trying until
// ctx ends. A refusal that waiting does not cure (credentials, certificates) ends it at once
// with ErrRefused. With Options.Background it returns at once, and the network cannot make it
// fail. Afterwards the client reconnects by itself, with exponential and jittered delays of
// up to a minute.
func Dial(ctx context.Context, o Options) (transport.Client, error) {
	end, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &client{
		opts: o, end: end, out: newOutbox(), slots: semaphore.NewWeighted(int64(o.MaxPending)),
		turn:   make(chan struct{}, 1),
		log:    o.Logger.With("broker", end.address, "client", o.ClientID),
		change: make(chan struct{}), failed: make(chan struct{}),
	}
	if _, err := rand.Read(c.marker[:]); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", end.address, err)
	}
	c.router = newRouter(c)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	po, err := c.pahoOptions()
	if err != nil {
		c.cancel()
		return nil, err
	}
	c.paho = paho.NewClient(po)
	token := c.paho.Connect()
	if o.Background {
		return c, nil
	}
	select {
	case <-token.Done():
		if err = token.Error(); err == nil {
			return c, nil
		}
	case <-c.failed:
		err = transport.ErrRefused
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	last := c.lastErr
	c.mu.Unlock()
	c.shutdown()
	if last != nil {
		return nil, fmt.Errorf("connect to %s: %w: %w", end.address, err, last)
	}
	return nil, fmt.Errorf("connect to %s: %w", end.address, err)
}

func (c *client) pahoOptions() (*paho.ClientOptions, error) {
	scheme := "tcp"
	if c.end.secure {
		scheme = "tls"
	}
	po := paho.NewClientOptions().
		AddBroker(scheme + "://" + c.end.address).
		SetClientID(c.opts.ClientID).
		SetProtocolVersion(4).
		SetCleanSession(c.opts.Live).
		SetOrderMatters(true). // dispatch is called in turn, and starts no goroutine for each
		SetResumeSubs(false).
		SetAutoReconnect(true).
		SetConnectRetry(true).
		SetConnectRetryInterval(time.Second). // plus the growing delay in open
		SetMaxReconnectInterval(c.opts.MaxReconnect).
		SetConnectTimeout(connectTimeout).
		SetKeepAlive(c.opts.KeepAlive).
		SetPingTimeout(c.opts.pingTimeout).
		SetWriteTimeout(c.opts.writeTimeout).
		SetAutoAckDisabled(true).
		SetStore(c.out).
		SetDefaultPublishHandler(c.router.dispatch).
		SetCustomOpenConnectionFn(c.open).
		SetOnConnectHandler(func(paho.Client) { c.connected() }).
		SetConnectionLostHandler(func(_ paho.Client, err error) { c.lost(err) }).
		SetConnectionNotificationHandler(c.notified)
	if c.opts.Username != "" || c.opts.Password != nil {
		po.SetCredentialsProvider(func() (string, string) {
			if c.opts.Password == nil {
				return c.opts.Username, ""
			}
			pw, err := c.opts.Password()
			c.mu.Lock()
			c.locked = err
			c.mu.Unlock()
			return c.opts.Username, pw
		})
	}
	if c.opts.Will != nil {
		w, err := c.opts.Will()
		if err != nil {
			return nil, fmt.Errorf("make last will: %w", err)
		}
		po.SetBinaryWill(w.Topic, w.Payload, 1, w.Retain)
		po.SetReconnectingHandler(func(_ paho.Client, po *paho.ClientOptions) {
			if c.ctx.Err() != nil { // closed meanwhile: who makes the will may be gone
				return
			}
			w, err := c.opts.Will()
			if err != nil {
				c.log.Error("cannot renew the last will", "error", err)
				return
			}
			po.SetBinaryWill(w.Topic, w.Payload, 1, w.Retain)
		})
	}
	return po, nil
}

// open makes one network connection. It first waits for a random part of a
// delay that doubles with every failed attempt, so that a fleet does not come
// back to a restarted broker all at once.
func (c *client) open(_ *url.URL, _ paho.ClientOptions) (net.Conn, error) {
	c.mu.Lock()
	n, ever, locked := c.attempts, c.ever, c.locked
	c.attempts++
	c.mu.Unlock()
	if n > 0 || ever {
		top := min(time.Second<<min(n, 6), c.opts.MaxReconnect)
		wait := time.NewTimer(mathrand.N(top) / 2)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-c.ctx.Done():
			return nil, transport.ErrClosed
		}
	}
	if locked != nil {
		return nil, fmt.Errorf("%w: %w", errPassword, locked)
	}
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	raw, err := c.opts.Dialer(ctx, "tcp", c.end.address)
	if err != nil {
		return nil, err
	}
	if t, ok := raw.(*net.TCPConn); ok {
		// Pings and acknowledgements must not wait behind megabytes of chunks.
		_ = t.SetWriteBuffer(256 << 10)
	}
	if c.end.secure {
		t := tls.Client(raw, c.opts.tlsConfig(c.end))
		if err := t.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, explainTLS(err, c.end.host)
		}
		raw = t
	}
	if c.end.path != "" {
		ws, err := overWebsocket(ctx, raw, c.end)
		if err != nil {
			raw.Close()
			return nil, err
		}
		raw = ws
	}
	g := newGuardedConn(raw, c.opts.MaxInbound, c.marker)
	g.qos0 = c.opts.Live
	c.mu.Lock()
	c.conn, c.opened = g, time.Now()
	c.mu.Unlock()
	return g, nil
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

func (c *client) connected() {
	c.mu.Lock()
	c.ever, c.attempts, c.lastErr, c.since = true, 0, nil, time.Now()
	close(c.change)
	c.change = make(chan struct{})
	change := c.change
	c.mu.Unlock()
	c.log.Info("connected")
	go c.router.resubscribe(change)
	if c.opts.Birth != nil {
		go c.birth()
	}
	if c.opts.OnConnect != nil {
		c.opts.OnConnect()
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

// Publish hands the message to the library and waits for its PUBACK.
func (c *client) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if !transport.ValidTopic(topic) {
		return fmt.Errorf("%w: cannot publish to topic %q", transport.ErrMalformed, topic)
	}
	if len(payload) > transport.MaxChunkSize {
		return fmt.Errorf("%w: message of %d bytes, want at most %d", transport.ErrTooLarge, len(payload),
			transport.MaxChunkSize)
	}
	fail := func(err error) error { return fmt.Errorf("publish to %q: %w", topic, err) }
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return fail(err)
	}
	// From here on the slot belongs to the message: it is free again on PUBACK.
	e := &outEntry{acked: make(chan struct{}), release: sync.OnceFunc(func() { c.slots.Release(1) })}
	if err := c.handOver(ctx, e, topic, payload, retain); err != nil {
		return fail(err)
	}
	select {
	case <-e.acked:
		return nil
	case <-ctx.Done():
		return fail(ctx.Err())
	case <-c.ctx.Done():
		return fail(transport.ErrClosed)
	}
}

// handOver gives the message to the library as soon as there is a connection and no other
// message is being handed over. It returns nil when the outbox has the message. After an
// error the outbox may still get it; if it does not, the message's slot is free again.
func (c *client) handOver(ctx context.Context, e *outEntry, topic string, payload []byte, retain bool) error {
	for {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			e.release()
			return ctx.Err()
		case <-c.ctx.Done():
			e.release()
			return transport.ErrClosed
		}
		if err := c.awaitConnection(ctx); err != nil {
			<-c.turn
			e.release()
			return err
		}
		// The library may block for as long as a write takes.
		done := make(chan error, 1)
		go func() {
			again, err := c.handOnce(e, topic, payload, retain)
			if err == nil && again {
				err = errAgain
			}
			done <- err
		}()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			go func() {
				if <-done != nil {
					e.release()
				}
			}()
			return ctx.Err()
		}
		if !errors.Is(err, errAgain) {
			if err != nil {
				e.release()
			}
			return err
		}
	}
}

// errAgain: the connection was lost before the library took the message.
var errAgain = errors.New("the connection was lost")

// handOnce is one attempt of handOver. It ends the caller's turn. again means that the library
// had no connection after all and did not take the message.
func (c *client) handOnce(e *outEntry, topic string, payload []byte, retain bool) (again bool, err error) {
	c.out.expect(e)
	token := c.paho.Publish(topic, 1, retain, payload)
	taken := c.out.claimed(e)
	<-c.turn
	select {
	case <-token.Done():
		err = token.Error()
	default:
	}
	switch {
	case err == nil:
		return false, nil
	case taken:
		// Stored, but not written: only a new connection sends it.
		if c.paho.IsConnectionOpen() {
			c.log.Warn("a message could not be written, reconnecting", "error", err)
			c.recycle()
		}
		return false, nil
	case errors.Is(err, paho.ErrNotConnected):
		time.Sleep(20 * time.Millisecond) // until the connection's state settles
		return true, nil
	}
	return false, err
}

// Subscribe adds a subscription and waits until the broker has granted it.
func (c *client) Subscribe(ctx context.Context, filter string, h func(transport.Delivery)) error {
	if err := checkFilter(filter); err != nil {
		return err
	}
	s, err := c.router.add(filter, h)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		c.router.remove(s)
		return fmt.Errorf("subscribe to %q: %w", filter, err)
	}
	if err := c.awaitConnection(ctx); err != nil {
		return fail(err)
	}
	go c.router.request(s)
	select {
	case <-s.granted:
		return nil
	case err := <-s.refused:
		return fail(err)
	case <-ctx.Done():
		return fail(ctx.Err())
	case <-c.ctx.Done():
		return fail(transport.ErrClosed)
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
