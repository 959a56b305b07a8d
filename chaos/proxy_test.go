package chaos

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is the network between a program and the broker. It can cut, delay,
// throttle and stall, and it ends a connection that publishes more than limit
// bytes in one message, or has more than window messages unacknowledged, as cloud
// brokers do.
type proxy struct {
	l      net.Listener
	target string
	limit  int
	window int // 0: no bound

	mu    sync.Mutex
	conns map[net.Conn]bool
	rate  int           // bytes a second each way; 0: no bound
	delay time.Duration // before each piece
	after int           // bytes, then the connection is cut; 0: never
	stall bool

	oversized atomic.Int64
	crowded   atomic.Int64 // connections that were ended because of window
	most      atomic.Int64 // messages unacknowledged at a time
	largest   atomic.Int64 // PUBLISH seen, payload and topic
	cuts      atomic.Int64
}

func newProxy(t *testing.T, target string, limit int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: target, limit: limit, conns: map[net.Conn]bool{}}
	go p.accept()
	t.Cleanup(func() { l.Close(); p.cut() })
	return p
}

func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// calm ends every misbehaviour.
func (p *proxy) calm() { p.set(func() { p.rate, p.delay, p.after, p.stall = 0, 0, 0, false }) }

// cut ends every connection that is open now.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
		p.cuts.Add(1)
	}
	clear(p.conns)
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
		p.set(func() { p.conns[down], p.conns[up] = true, true })
		var flying atomic.Int64
		r, w := io.Pipe() // what goes up is looked at in whole packets
		go func() { w.CloseWithError(p.copy(w, down)) }()
		go func() {
			p.packets(up, r, &flying)
			r.Close()
			p.drop(down, up)
		}()
		go func() {
			_ = p.copy(&acks{w: down, flying: &flying}, up)
			p.drop(down, up)
		}()
	}
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

// copy moves bytes at the speed of the moment.
func (p *proxy) copy(to io.Writer, from io.Reader) error {
	buf := make([]byte, 4<<10)
	total := 0
	for {
		n, err := from.Read(buf)
		if err != nil {
			return err
		}
		total += n
		var rate, after int
		var delay time.Duration
		var stall bool
		look := func() { p.set(func() { rate, delay, after, stall = p.rate, p.delay, p.after, p.stall }) }
		for look(); stall; look() {
			time.Sleep(5 * time.Millisecond)
		}
		if after > 0 && total > after {
			p.cuts.Add(1)
			return io.ErrClosedPipe
		}
		time.Sleep(delay)
		if rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// acks passes on what a broker sends and counts its PUBACKs.
type acks struct {
	w      io.Writer
	flying *atomic.Int64

	head  int // bytes of the present packet's header so far
	shift int
	rest  int // bytes of its body to come
}

func (a *acks) Write(b []byte) (int, error) {
	for i := 0; i < len(b); {
		switch {
		case a.head > 0 && a.rest > 0 && a.shift < 0:
			n := min(a.rest, len(b)-i)
			a.rest, i = a.rest-n, i+n
			if a.rest == 0 {
				a.head = 0
			}
			continue
		case a.head == 0:
			if b[i]>>4 == 4 {
				a.flying.Add(-1)
			}
			a.head, a.shift, a.rest = 1, 0, 0
		default:
			a.rest |= int(b[i]&0x7f) << a.shift
			a.shift += 7
			if b[i]&0x80 == 0 {
				if a.shift = -1; a.rest == 0 {
					a.head = 0
				}
			}
		}
		i++
	}
	return a.w.Write(b)
}

// packets passes MQTT packets on and ends with the first PUBLISH that is too large, or
// one too many; flying counts those that are not acknowledged.
func (p *proxy) packets(to io.Writer, from io.Reader, flying *atomic.Int64) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(from, head[:2]); err != nil {
			return
		}
		n, length, shift := 2, int(head[1]&0x7f), 7
		for ; head[n-1]&0x80 != 0; n++ {
			if n == len(head) {
				return
			}
			if _, err := io.ReadFull(from, head[n:n+1]); err != nil {
				return
			}
			length |= int(head[n]&0x7f) << shift
			shift += 7
		}
		if head[0]>>4 == 3 {
			if int64(length) > p.largest.Load() {
				p.largest.Store(int64(length))
			}
			if length > p.limit {
				p.oversized.Add(1)
				return
			}
			if head[0]>>1&3 == 1 {
				n := flying.Add(1)
				for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
				}
				if p.window > 0 && n > int64(p.window) {
					p.crowded.Add(1)
					return
				}
			}
		}
		if _, err := to.Write(head[:n]); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, int64(length)); err != nil {
			return
		}
	}
}
