package mqtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// fakeBroker speaks just enough MQTT to misbehave.
type fakeBroker struct {
	l      net.Listener
	suback byte
	forget bool // no connection finds its session

	mu     sync.Mutex
	ack    bool // answer publishes
	conn   net.Conn
	seen   []packets.PublishPacket
	asked  int           // subscriptions
	later  chan struct{} // subscriptions are answered when it closes; nil: at once
	pings  int
	sent   uint16   // messages
	acked  []uint16 // message ids
	logins []packets.ConnectPacket
}

func newFakeBroker(t *testing.T) *fakeBroker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeBroker{l: l, suback: 1}
	t.Cleanup(func() {
		l.Close()
		f.cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

func (f *fakeBroker) url() string { return "tcp://" + f.l.Addr().String() }

func (f *fakeBroker) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		f.conn.Close()
	}
}

func (f *fakeBroker) setAck(ack bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ack = ack
}

func (f *fakeBroker) published() []packets.PublishPacket {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]packets.PublishPacket(nil), f.seen...)
}

// send writes messages with QoS 1 to the client, each under an id of its own.
func (f *fakeBroker) send(t *testing.T, messages ...transport.Message) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range messages {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		f.sent++
		p.TopicName, p.Qos, p.Payload, p.MessageID = m.Topic, 1, m.Payload, f.sent
		if err := p.Write(f.conn); err != nil {
			t.Error(err)
		}
	}
}

// count returns what get reads.
func (f *fakeBroker) count(get func() int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return get()
}

func (f *fakeBroker) serve(c net.Conn) {
	defer c.Close()
	for {
		p, err := packets.ReadPacket(c)
		if err != nil {
			return
		}
		f.mu.Lock()
		var answer []byte
		switch p := p.(type) {
		case *packets.ConnectPacket:
			f.conn = c
			f.logins = append(f.logins, *p)
			answer = []byte{0x20, 2, 1, 0}
			if f.forget {
				answer[2] = 0
			}
		case *packets.SubscribePacket:
			f.asked++
			answer = []byte{0x90, 3, byte(p.MessageID >> 8), byte(p.MessageID), f.suback}
			if f.later != nil {
				go func(later <-chan struct{}, answer []byte) {
					<-later
					c.Write(answer)
				}(f.later, answer)
				answer = nil
			}
		case *packets.PublishPacket:
			f.seen = append(f.seen, *p)
			if f.ack {
				answer = []byte{0x40, 2, byte(p.MessageID >> 8), byte(p.MessageID)}
			}
		case *packets.PubackPacket:
			f.acked = append(f.acked, p.MessageID)
		case *packets.PingreqPacket:
			f.pings++
			answer = []byte{0xd0, 0}
		}
		f.mu.Unlock()
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// TestPublishMeansPuback: nothing but the PUBACK completes a Publish, neither
// the write nor a lost connection; what is not acknowledged is sent again, once,
// marked as a repetition; and an abandoned message does not block the next.
func TestPublishMeansPuback(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	lost := make(chan error, 10)
	c := dial(t, Options{URL: f.url(), ClientID: "a", OnLost: func(err error) { lost <- err }})
	short, cancel := context.WithCancel(testrig.Context(t))
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- c.Publish(short, "q", []byte("abandoned"), false) }()
	testrig.Eventually(t, "the first message", func() bool { return len(f.published()) == 1 })
	cancel()
	if err := testrig.Receive(t, "the end of Publish", result); !errors.Is(err, context.Canceled) {
		t.Fatalf("without PUBACK: %v", err)
	}
	go func() { result <- c.Publish(testrig.Context(t), "q", []byte("kept"), true) }()
	testrig.Eventually(t, "both messages", func() bool { return len(f.published()) == 2 })
	f.cut()
	<-lost
	select {
	case err := <-result:
		t.Fatalf("a lost connection completed it: %v", err)
	default:
	}
	f.setAck(true)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "both messages again", func() bool { return len(f.published()) >= 4 })
	for i, p := range f.published() {
		want := []string{"abandoned", "kept"}[i%2]
		if string(p.Payload) != want || p.Dup != (i >= 2) || p.Qos != 1 || p.Retain != (want == "kept") ||
			p.TopicName != "q" {
			t.Errorf("message %d: %v %q", i, p.String(), p.Payload)
		}
	}
	testrig.Eventually(t, "an empty outbox", func() bool { n, _ := c.(*client).out.pending(); return n == 0 })
	if err := c.Publish(testrig.Context(t), "q", []byte("next"), false); err != nil {
		t.Error(err)
	}
	if got := len(f.published()); got != 5 {
		t.Errorf("%d messages in all", got)
	}
}

// TestConnectPacket: session, keep-alive, credentials and will as configured.
func TestConnectPacket(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	f.setAck(true)
	dial(t, Options{URL: f.url(), ClientID: "stable-id", Username: "u",
		Password: func() (string, error) { return "p", nil },
		Will: func() (transport.Message, error) {
			return transport.Message{Topic: "w", Payload: []byte("gone"), Retain: true}, nil
		}})
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.logins[0]
	if p.CleanSession || p.ClientIdentifier != "stable-id" || p.Keepalive != 60 || p.Username != "u" ||
		string(p.Password) != "p" || p.ProtocolVersion != 4 ||
		!p.WillFlag || p.WillTopic != "w" || string(p.WillMessage) != "gone" || !p.WillRetain || p.WillQos != 1 {
		t.Errorf("%v", p.String())
	}
}

func TestSubscriptionRefused(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	f.suback = 0x80
	c := dial(t, Options{URL: f.url(), ClientID: "a"})
	if err := c.Subscribe(testrig.Context(t), "q", func(transport.Delivery) {}); !errors.Is(err, transport.ErrRefused) {
		t.Error(err)
	}
	r := c.(*client).router
	r.mu.Lock()
	if n := len(r.subs); n != 0 {
		t.Errorf("%d subscriptions kept", n)
	}
	r.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked < subscribeTries || f.asked > 2*subscribeTries { // the connection's own round may ask as well
		t.Errorf("asked %d times", f.asked)
	}
}

// TestHostileBroker: bytes that are not allowed end the connection, and the
// client comes back.
func TestHostileBroker(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	f.setAck(true)
	lost := make(chan error, 10)
	c := dial(t, Options{URL: f.url(), ClientID: "a", OnLost: func(err error) { lost <- err }})
	f.mu.Lock()
	f.conn.Write([]byte{0x90, 0xff, 0xff, 0xff, 0x7f}) // a SUBACK of 256 MB
	f.mu.Unlock()
	if err := <-lost; !errors.Is(err, transport.ErrMalformed) {
		t.Error(err)
	}
	if err := c.Publish(testrig.Context(t), "q", nil, false); err != nil {
		t.Error(err)
	}
}

// TestManyPublishers: far more publishers than slots; everything is delivered.
func TestManyPublishers(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		in := newInbox()
		if err := dial(t, Options{URL: b.url(), ClientID: "sub"}).Subscribe(testrig.Context(t), "#",
			in.take); err != nil {
			t.Fatal(err)
		}
		pub := dial(t, Options{URL: b.url(), ClientID: "pub"})
		ctx := testrig.Context(t)
		var wg sync.WaitGroup
		for i := range 5 * maxPending {
			wg.Go(func() {
				if err := pub.Publish(ctx, fmt.Sprint("t/", i), fmt.Append(nil, "m", i), false); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range 5 * maxPending {
			in.await(t, fmt.Sprint("m", i))
		}
	})
}

// fakeMessage is a message as the library hands it on.
type fakeMessage struct {
	topic   string
	payload []byte
	acked   *int
}

func (m fakeMessage) Duplicate() bool   { return false }
func (m fakeMessage) Qos() byte         { return 1 }
func (m fakeMessage) Retained() bool    { return false }
func (m fakeMessage) Topic() string     { return m.topic }
func (m fakeMessage) MessageID() uint16 { return 1 }
func (m fakeMessage) Payload() []byte   { return m.payload }
func (m fakeMessage) Ack()              { *m.acked++ }

// TestStashIsBounded: messages nobody subscribed to yet wait in bounded room;
// what does not fit is left unacknowledged, so that the broker keeps it.
func TestStashIsBounded(t *testing.T) {
	var counters transport.Counters
	r := newRouter(&client{ctx: t.Context(), opts: Options{Counters: &counters, MaxInbound: DefaultMaxInbound,
		MaxInflight: maxInflight, MaxInflightBytes: maxInflightBytes, strayWait: strayWait}, log: testrig.Quiet(),
		marker: [16]byte{1}})
	acked := 0
	for range maxStashed + 44 {
		r.dispatch(nil, fakeMessage{"q", []byte("x"), &acked})
	}
	r.dispatch(nil, fakeMessage{"q", append(append([]byte{1}, make([]byte, 15)...), 0, 0, 0, 0, 0, 1, 0, 0), &acked})
	if len(r.stash) != maxStashed || acked != 1 || counters.Refused("limit") != 44 ||
		counters.Refused("too_large") != 1 {
		t.Errorf("%d stashed, %d acknowledged, counted %v", len(r.stash), acked, counters.Snapshot())
	}
	big := newRouter(r.c)
	for range 20 {
		big.dispatch(nil, fakeMessage{"q", make([]byte, 1<<20), &acked})
	}
	if big.stashed > maxStashedBytes || len(big.stash) != 16 {
		t.Errorf("%d messages, %d bytes stashed", len(big.stash), big.stashed)
	}
	got := make(chan transport.Delivery, maxStashed)
	if _, err := r.add("q", func(d transport.Delivery) { got <- d }); err != nil {
		t.Fatal(err)
	}
	for range maxStashed {
		<-got
	}
	if r.stashed != 0 || len(r.stash) != 0 {
		t.Errorf("%d bytes left", r.stashed)
	}
	// With two subscriptions a message is acknowledged when both have done so.
	held := make(chan transport.Delivery, 10)
	for _, filter := range []string{"a/+", "a/#"} {
		if _, err := r.add(filter, func(d transport.Delivery) { held <- d }); err != nil {
			t.Fatal(err)
		}
	}
	acked = 0
	r.dispatch(nil, fakeMessage{"a/b", nil, &acked})
	hold := []transport.Delivery{<-held, <-held}
	hold[0].Ack()
	hold[0].Ack()
	if acked != 0 {
		t.Error("acknowledged before the second handler did")
	}
	hold[1].Ack()
	if acked != 1 {
		t.Errorf("acknowledged %d times", acked)
	}
}

func TestKilledConnection(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	g := newGuardedConn(a, 100, [16]byte{})
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(&bytes.Buffer{}, g)
		done <- err
	}()
	g.kill()
	_, werr := g.Write([]byte{1})
	for _, err := range []error{<-done, werr} {
		if !errors.Is(err, errKilled) || strings.Contains(err.Error(), net.ErrClosed.Error()) {
			t.Errorf("%v: the library would take it for its own doing", err)
		}
	}
}

// No more messages than MaxPending are ever unacknowledged: not on a new connection,
// where all of them are sent again, not when somebody gave one up, and not by birth
// messages, of which there is one however often the connection is lost.
func TestMaxPending(t *testing.T) {
	// While a connection begins, the library may send a message twice, under one id.
	distinct := func(sent []packets.PublishPacket) int {
		ids := map[uint16]bool{}
		for _, p := range sent {
			ids[p.MessageID] = true
		}
		return len(ids)
	}
	t.Parallel()
	f := newFakeBroker(t)
	var births atomic.Int32
	c := dial(t, Options{URL: f.url(), ClientID: "a", MaxPending: 10, MaxReconnect: time.Second,
		Birth: func() (transport.Message, error) {
			return transport.Message{Topic: "born", Payload: fmt.Append(nil, births.Add(1))}, nil
		}})
	results := make(chan error, 40)
	publish := func(ctx context.Context, n int) {
		for range n {
			go func() { results <- c.Publish(ctx, "q", []byte("x"), false) }()
		}
	}
	short, cancel := context.WithCancel(testrig.Context(t))
	defer cancel()
	publish(short, 20)
	testrig.Eventually(t, "a full window to be given up", func() bool { return distinct(f.published()) >= 10 })
	cancel()
	for range 20 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	publish(testrig.Context(t), 20)
	before := 0
	for round := range 4 {
		testrig.Eventually(t, "a full window", func() bool { return distinct(f.published()[before:]) >= 10 })
		time.Sleep(50 * time.Millisecond)
		seen := f.published()
		if n := distinct(seen[before:]); n != 10 {
			t.Fatalf("connection %d: %d messages unacknowledged, want 10", round, n)
		}
		before = len(seen)
		if round < 3 {
			f.cut()
		}
	}
	f.setAck(true)
	f.cut()
	for range 20 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := births.Load(); n < 1 || n > 2 {
		t.Errorf("%d birth messages over 5 connections", n)
	}
}
