package broker

import (
	"net"
	"sync"
)

// listener closes its connections when it is closed. The server closes only those of clients
// that have sent CONNECT, and would wait for the others for ever.
type listener struct {
	net.Listener
	mu      sync.Mutex
	changed sync.Cond // of mu: open
	closed  bool
	open    map[*conn]bool // whether the server has begun to read, and so counts it
}

func newListener(l net.Listener) *listener {
	own := &listener{Listener: l, open: map[*conn]bool{}}
	own.changed.L = &own.mu
	return own
}

// conn is a connection that its listener forgets when it is closed.
type conn struct {
	net.Conn
	of    *listener
	begun sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	own := &conn{Conn: c, of: l}
	l.open[own] = false
	return own, nil
}

// stop takes no more connections, and returns when the server has begun with all that it was
// given. A server that starts counting a connection while it is closed may not wait for it.
func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.starting() {
		l.changed.Wait()
	}
}

// starting reports whether the server has not begun with some connection.
func (l *listener) starting() bool {
	for _, begun := range l.open {
		if !begun {
			return true
		}
	}
	return false
}

func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.open {
		c.Conn.Close()
	}
	clear(l.open)
	return l.Listener.Close()
}

func (c *conn) Read(b []byte) (int, error) {
	c.begun.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if _, ok := c.of.open[c]; ok {
			c.of.open[c] = true
		}
		c.of.changed.Broadcast()
	})
	return c.Conn.Read(b)
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.changed.Broadcast()
	c.of.mu.Unlock()
	return c.Conn.Close()
}
