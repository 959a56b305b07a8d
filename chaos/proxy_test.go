package chaos

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/hencedge/hencedge/internal/testrig"
)

// proxy is the network between a program and the broker. It ends a connection that
// publishes more than limit bytes in one message, or has more than window messages
// unacknowledged, as cloud brokers do.
type proxy struct {
	*testrig.Proxy
	limit  int
	window int // 0: no bound

	oversized atomic.Int64
	crowded   atomic.Int64 // connections that were ended because of window
	most      atomic.Int64 // messages unacknowledged at a time
	largest   atomic.Int64 // PUBLISH seen, payload and topic
}

func newProxy(t *testing.T, target string, limit int) *proxy {
	t.Helper()
	p := &proxy{limit: limit}
	p.Proxy = testrig.NewProxy(t, target, func(client io.Writer) (func(io.Writer, io.Reader), io.Writer) {
		var flying atomic.Int64
		return func(to io.Writer, from io.Reader) { p.packets(to, from, &flying) }, &acks{w: client, flying: &flying}
	})
	return p
}

// calm ends every fault.
func (p *proxy) calm() { p.Set(testrig.Faults{}) }

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
