package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a bad network between a client and its broker: it can cut all
// connections, cut each one after a number of bytes, slow them down, and stall.
type proxy struct {
	l      net.Listener
	target string

	mu       sync.Mutex
	conns    []net.Conn
	cutAfter int           // bytes upstream, per connection; 0: never
	pause    time.Duration // after every piece upstream
	stalled  chan struct{} // not nil: upstream waits until it closes
	cuts     atomic.Int32
	opened   atomic.Int32
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: target}
	go p.accept()
	t.Cleanup(func() {
		l.Close()
		p.cut()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) set(cutAfter int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAfter, p.pause = cutAfter, pause
}

// stall makes every present and new connection take no more bytes, until the
// returned function ends those and lets new ones through.
func (p *proxy) stall() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gate := make(chan struct{})
	p.stalled = gate
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stalled = nil
		close(gate)
	}
}

// cut ends every connection that is open now.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) accept() {
	for {
		down, err := p.l.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.target)
		if err != nil {
			down.Close()
			continue
		}
		p.opened.Add(1)
		p.mu.Lock()
		p.conns = append(p.conns, down, up)
		p.mu.Unlock()
		go p.copy(up, down, true)
		go p.copy(down, up, false)
	}
}

func (p *proxy) copy(to, from net.Conn, upstream bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 8<<10)
	total := 0
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		cutAfter, pause, stalled := p.cutAfter, p.pause, p.stalled
		p.mu.Unlock()
		if upstream {
			if stalled != nil {
				<-stalled
				return
			}
			if cutAfter > 0 && total+n > cutAfter {
				to.Write(buf[:cutAfter-total]) // in the middle of a packet
				p.cuts.Add(1)
				return
			}
			total += n
			time.Sleep(pause)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
