package mqtt

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// flood is an inflow whose handlers wait until they are told to go on.
type flood struct {
	*inflow
	gate    chan struct{}
	renewed atomic.Int32
	running atomic.Int32
	most    atomic.Int32

	mu      sync.Mutex
	handled []string
	refused map[string]int // by topic
	acked   int
}

func newFlood(limit use) *flood {
	f := &flood{gate: make(chan struct{}), refused: map[string]int{}}
	f.inflow = newInflow(limit, func(topic string, err error) {
		if !errors.Is(err, transport.ErrLimit) {
			panic(err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refused[topic]++
	}, func() { f.renewed.Add(1) })
	return f
}

func (f *flood) sub(filter string) *subscription {
	return &subscription{filter: filter, handler: func(d transport.Delivery) {
		n := f.running.Add(1)
		for m := f.most.Load(); n > m && !f.most.CompareAndSwap(m, n); m = f.most.Load() {
		}
		<-f.gate
		f.running.Add(-1)
		f.mu.Lock()
		f.handled = append(f.handled, d.Topic+" "+string(d.Payload[:1]))
		f.mu.Unlock()
		d.Ack()
	}}
}

func (f *flood) send(s *subscription, topic string, payload []byte) {
	f.put(&arrival{topic: topic, payload: payload, ack: func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.acked++
	}}, []*subscription{s})
}

func (f *flood) idle() bool {
	f.inflow.mu.Lock()
	defer f.inflow.mu.Unlock()
	return f.held == (use{}) && len(f.queues) == 0
}

// TestInflowBounds: however much comes, handlers and bytes are bounded; what does not
// fit is taken from the topic that holds the most, is not acknowledged, and comes again
// with the connection that is made when there is room.
func TestInflowBounds(t *testing.T) {
	f := newFlood(use{100, 1 << 20})
	wild, own := f.sub("a/+"), f.sub("b")
	before := runtime.NumGoroutine()
	for i := range 50 {
		for topic := range 20 {
			f.send(wild, fmt.Sprint("a/", topic), append([]byte{byte('a' + i)}, make([]byte, 20<<10)...))
		}
	}
	if f.held.messages > 100 || f.held.bytes > 1<<20 {
		t.Errorf("%+v held", f.held)
	}
	if n := runtime.NumGoroutine() - before; n > handlersPer {
		t.Errorf("%d goroutines for 1000 messages", n)
	}
	// Honest topics find room: the one of another subscription, and a quiet one.
	for _, m := range []byte("xyz") {
		f.send(own, "b", append([]byte{m}, make([]byte, 10<<10)...))
	}
	f.send(wild, "a/quiet", []byte("q"))
	if f.renewed.Load() != 0 {
		t.Error("a new connection while there is no room")
	}
	close(f.gate)
	testrig.Eventually(t, "all that was held", f.idle)
	testrig.Eventually(t, "a new connection", func() bool { return f.renewed.Load() == 1 })
	if f.refused["b"]+f.refused["a/quiet"] != 0 || f.refused["a/0"] == 0 {
		t.Errorf("refused %v", f.refused)
	}
	lost := 0
	for _, n := range f.refused {
		lost += n
	}
	if f.acked != 1004-lost || len(f.handled) != f.acked {
		t.Errorf("%d of 1004 acknowledged, %d refused, %d handled", f.acked, lost, len(f.handled))
	}
	var honest []string
	for _, h := range f.handled {
		if h[0] == 'b' || h == "a/quiet q" {
			honest = append(honest, h)
		}
	}
	slices.Sort(honest)
	if want := []string{"a/quiet q", "b x", "b y", "b z"}; !slices.Equal(honest, want) {
		t.Errorf("handled %q, want %q", honest, want)
	}
	if f.most.Load() > handlersPer+1 {
		t.Errorf("%d handlers at a time", f.most.Load())
	}
}

// TestInflowOrder: the messages of a topic are handled in their order, one at a time.
func TestInflowOrder(t *testing.T) {
	f := newFlood(use{100, 1 << 20})
	s := f.sub("a")
	for i := range 26 {
		f.send(s, "a", []byte{byte('a' + i)})
	}
	close(f.gate)
	testrig.Eventually(t, "all messages", f.idle)
	if f.most.Load() != 1 || !slices.IsSorted(f.handled) || len(f.handled) != 26 {
		t.Errorf("%d at a time: %q", f.most.Load(), f.handled)
	}
}

// TestInflowReserve: a subscription whose handlers are stuck does not keep another one
// waiting, even if it has taken all room.
func TestInflowReserve(t *testing.T) {
	f := newFlood(use{1, 10})
	stuck, other := f.sub("a"), f.sub("b")
	f.send(stuck, "a", make([]byte, 10))
	testrig.Eventually(t, "a handler", func() bool { return f.running.Load() == 1 })
	f.send(other, "b", make([]byte, 10))
	testrig.Eventually(t, "the other handler", func() bool { return f.running.Load() == 2 })
	f.send(other, "b", make([]byte, 10))
	if f.refused["b"] != 1 {
		t.Errorf("refused %v", f.refused)
	}
	close(f.gate)
	testrig.Eventually(t, "the end", f.idle)
}

// TestQoS0IsDropped: messages with QoS 0, of which a broker sends any number, reach no
// handler and hold no memory; those with QoS 1 beside them do.
func TestQoS0IsDropped(t *testing.T) {
	f := newFakeBroker(t)
	var counters transport.Counters
	c := dial(t, Options{URL: f.url(), ClientID: "a", Counters: &counters})
	got := make(chan transport.Delivery, 1000)
	if err := c.Subscribe(testrig.Context(t), "q", func(d transport.Delivery) { got <- d }); err != nil {
		t.Fatal(err)
	}
	packet := func(qos byte, payload []byte) []byte {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.TopicName, p.Qos, p.Payload, p.MessageID = "q", qos, payload, 7
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	bad, good := packet(0, make([]byte, 500<<10)), packet(1, []byte("x"))
	used := testrig.Allocated(func() {
		f.mu.Lock()
		for range 150 {
			if _, err := f.conn.Write(bad); err != nil {
				t.Error(err)
			}
		}
		if _, err := f.conn.Write(good); err != nil {
			t.Error(err)
		}
		f.mu.Unlock()
		if d := <-got; string(d.Payload) != "x" {
			t.Errorf("got %d bytes", len(d.Payload))
		}
	})
	if n := counters.Refused("wrong_delivery"); n != 150 || len(got) != 0 {
		t.Errorf("%d refused, %d more delivered", n, len(got))
	}
	if used > 8<<20 {
		t.Errorf("%d bytes allocated", used)
	}
}

// TestQoS0Granted: a broker that grants QoS 0 only is told from one that grants QoS 1.
func TestQoS0Granted(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	f.suback = 0
	if err := dial(t, Options{URL: f.url(), ClientID: "a"}).Subscribe(testrig.Context(t), "q",
		func(transport.Delivery) {}); !errors.Is(err, transport.ErrRefused) {
		t.Error(err)
	}
	if err := dial(t, Options{URL: f.url(), ClientID: "b", Live: true}).Subscribe(testrig.Context(t), "q",
		func(transport.Delivery) {}); err != nil {
		t.Error(err)
	}
}
