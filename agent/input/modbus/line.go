package modbus

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/input/tty"
	"github.com/hencedge/hencedge/config"
)

// Lines are the connections of an agent's Modbus inputs. Inputs with the same
// address share one: the units on a serial bus, or behind a gateway that takes
// one connection. The zero value is ready.
type Lines struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is a connection on which one request is under way at a time.
type line struct {
	url  *url.URL
	port config.Line

	users int           // of Lines.mu
	turn  chan struct{} // holds one token; who has it may use what follows
	link  link          // nil: not connected
	mute  int           // requests in a row without a usable answer
	spoke bool          // something was answered on this link
}

// mostMute is how many requests may stay without an answer before a serial port
// is opened anew.
const mostMute = 3

// join returns the line of an address, which inputs with the same one share.
func (l *Lines) join(u *url.URL, port config.Line) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = map[string]*line{}
	}
	key := u.String()
	n := l.lines[key]
	if n == nil {
		n = &line{url: u, port: port, turn: make(chan struct{}, 1)}
		n.turn <- struct{}{}
		l.lines[key] = n
	}
	n.users++
	return n
}

// part gives a line back; the last one hangs up.
func (l *Lines) part(n *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users > 0 {
		return
	}
	if l.lines[n.url.String()] == n {
		delete(l.lines, n.url.String())
	}
	<-n.turn
	n.hangUp()
	n.turn <- struct{}{}
}

// take waits for the line's turn; give ends it.
func (n *line) take(ctx context.Context) error {
	select {
	case <-n.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *line) give() { n.turn <- struct{}{} }

// connected returns the connection, which it opens where needed, with ctx's
// deadline on it.
func (n *line) connected(ctx context.Context) (link, error) {
	if n.link == nil {
		l, err := n.dial(ctx)
		if err != nil {
			return nil, err
		}
		n.link, n.spoke = l, false
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := n.link.SetDeadline(deadline); err != nil {
			n.hangUp()
			return nil, err
		}
	}
	return n.link, nil
}

func (n *line) dial(ctx context.Context) (link, error) {
	if n.url.Scheme == "rtu" {
		return tty.Open(n.url.Path, n.port)
	}
	host := n.url.Host
	if n.url.Port() == "" {
		host = net.JoinHostPort(n.url.Hostname(), "502")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", host)
}

// answered notes that a request was answered.
func (n *line) answered() { n.mute, n.spoke = 0, true }

// errLapsed: the other side ended a connection on which it had answered before, which
// devices do when it was idle for a while. The request is worth another connection.
var errLapsed = errors.New("the connection has lapsed")

// failed deals with a request without a usable answer. What is still on the way
// must not be taken for the next answer: a connection is closed. A serial port
// stays open, since some adapters and devices start anew when it is closed; what
// it has received is thrown away before the next request. lapsed is errLapsed's case.
func (n *line) failed(err error) (lapsed bool) {
	lapsed = n.url.Scheme != "rtu" && n.spoke &&
		(errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE))
	n.mute++
	silent := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrFrame)
	if n.url.Scheme != "rtu" || !silent || n.mute >= mostMute {
		n.hangUp()
		n.mute = 0
	}
	return lapsed
}

func (n *line) hangUp() {
	if n.link != nil {
		_ = n.link.Close()
		n.link = nil
	}
}

// past is a deadline that ends what is under way.
var past = time.Unix(1, 0)
