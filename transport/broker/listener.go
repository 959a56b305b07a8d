package broker

import (
	"net"
	"sync"
)

// listener closes its connections with itself. The server knows those of clients that
// have sent CONNECT, and waits for the others for ever.
type listener struct {
	net.Listener
	mu     sync.Mutex
	closed bool
	open   map[*conn]struct{}
}

// conn is a connection that its listener forgets when it is closed.
type conn struct {
	net.Conn
	of *listener
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
	own := &conn{c, l}
	l.open[own] = struct{}{}
	return own, nil
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

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
