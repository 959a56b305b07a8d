package testrig

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a bad network between clients and their broker. It can cut, delay, throttle
// and stall connections.
type Proxy struct {
	listener net.Listener
	target   string
	watch    Watch
	cuts     atomic.Int64
	opened   atomic.Int64

	mu      sync.Mutex
	conns   map[net.Conn]bool
	faults  Faults
	changed chan struct{} // closed when the faults change
}

// Faults say what is wrong with a network. The zero value is a good one.
type Faults struct {
	Rate     int           // bytes a second each way; 0: no bound
	Delay    time.Duration // before each piece
	CutAfter int           // bytes one way, after which the connection is cut; 0: never
	Stall    bool          // nothing passes until this ends
	Vanish   bool          // nothing passes, and whatever had to wait is lost with its connection
}

// Watch is called for each connection. up copies what the client sends and ends the
// connection when it returns. down is what the broker sends to.
type Watch func(client io.Writer) (up func(to io.Writer, from io.Reader), down io.Writer)

// NewProxy starts a proxy to the address target, which ends with the test. watch may be
// nil.
func NewProxy(t testing.TB, target string, watch Watch) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if l.Addr().String() == target {
		_ = l.Close()
		t.Fatalf("the proxy has the broker's address %s: it would connect to itself", target)
	}
	if watch == nil {
		watch = func(client io.Writer) (func(io.Writer, io.Reader), io.Writer) {
			return func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) }, client
		}
	}
	p := &Proxy{listener: l, target: target, watch: watch, conns: map[net.Conn]bool{}, changed: make(chan struct{})}
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.Set(Faults{})
		p.Cut()
	})
	return p
}

// Addr returns the address that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Target returns the address of the broker.
func (p *Proxy) Target() string { return p.target }

// Cuts returns how many connections ended because of CutAfter.
func (p *Proxy) Cuts() int { return int(p.cuts.Load()) }

// Opened returns how many connections reached the broker.
func (p *Proxy) Opened() int { return int(p.opened.Load()) }

// Set replaces the faults.
func (p *Proxy) Set(f Faults) { p.Change(func(now *Faults) { *now = f }) }

// Change calls f to change some of the faults.
func (p *Proxy) Change(f func(*Faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Cut ends every connection that is open now.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.opened.Add(1)
		p.mu.Lock()
		p.conns[client], p.conns[broker] = true, true
		p.mu.Unlock()
		up, down := p.watch(client)
		r, w := io.Pipe()
		go func() { w.CloseWithError(p.carry(w, client)) }()
		go func() {
			up(broker, r)
			_ = r.Close()
			p.end(client, broker)
		}()
		go func() {
			_ = p.carry(down, broker)
			p.end(client, broker)
		}()
	}
}

// end closes both sides of a connection.
func (p *Proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// carry moves bytes one way, with the faults of the moment.
func (p *Proxy) carry(to io.Writer, from io.Reader) error {
	buf := make([]byte, 4<<10)
	total := 0
	for {
		n, err := from.Read(buf)
		if err != nil {
			return err
		}
		f, lost := p.wait()
		if lost {
			return io.ErrClosedPipe
		}
		if f.CutAfter > 0 && total+n > f.CutAfter {
			p.cuts.Add(1)
			_, _ = to.Write(buf[:max(f.CutAfter-total, 0)]) // in the middle of a packet
			return io.ErrClosedPipe
		}
		total += n
		time.Sleep(f.Delay)
		if f.Rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(f.Rate))
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// wait returns the faults as soon as something may pass. What waited while the network
// had vanished is lost.
func (p *Proxy) wait() (f Faults, lost bool) {
	for {
		p.mu.Lock()
		f, changed := p.faults, p.changed
		p.mu.Unlock()
		if !f.Stall && !f.Vanish {
			return f, lost
		}
		lost = lost || f.Vanish
		<-changed
	}
}
