package mqtt

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"golang.org/x/sync/semaphore"

	"github.com/hencedge/hencedge/transport"
)

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
	if g.qos0 = c.opts.Live; !g.qos0 {
		c.router.flow.restart()
		g.gate, g.patience = c.router.gate, c.opts.Patience
		g.deposit, g.resumes = c.router.flow.deposit, c.router.granted
	}
	c.mu.Lock()
	c.conn, c.opened = g, time.Now()
	c.mu.Unlock()
	return g, nil
}

func (c *client) connected() {
	c.mu.Lock()
	c.ever, c.attempts, c.lastErr, c.since = true, 0, nil, time.Now()
	close(c.change)
	c.change = make(chan struct{})
	change, conn := c.change, c.conn
	c.mu.Unlock()
	c.log.Info("connected")
	go c.router.resubscribe(change, func() { conn.release(c.opts.writeTimeout) })
	if c.opts.Birth != nil {
		go c.birth()
	}
	if c.opts.OnConnect != nil {
		c.opts.OnConnect()
	}
}
