package mqtt

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// use returns all that the client holds or has let in.
func (f *inflow) use() (u use) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range []use{f.held, f.coming, f.early} {
		u.add(one.messages, one.bytes)
	}
	return u
}

// waiting reports whether a message waits for room.
func (f *inflow) waiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wake != nil
}

// TestBackpressure: a publisher that is faster than the handlers by far makes the broker wait,
// whatever number of messages that sends without an acknowledgement. Nothing is refused or
// lost or comes twice, memory stays within its bound, and other clients are served meanwhile.
func TestBackpressure(t *testing.T) {
	const topics, each, size = 4, 100, 32 << 10
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testrig.Context(t)
		var counters transport.Counters
		lost := make(chan error, 1)
		sub := dial(t, Options{URL: b.url(), ClientID: "small", MaxInflight: 6, MaxInflightBytes: 5 * size,
			Patience: time.Hour, Counters: &counters, OnLost: func(err error) { lost <- err }})
		flow := sub.(*client).router.flow
		step := make(chan struct{})
		var mu sync.Mutex
		got := map[string][]string{}
		n, most := 0, use{}
		if err := sub.Subscribe(ctx, "up/+", func(d transport.Delivery) {
			<-step
			u := flow.use()
			mu.Lock()
			got[d.Topic] = append(got[d.Topic], strings.TrimRight(string(d.Payload), "."))
			most = use{max(most.messages, u.messages), max(most.bytes, u.bytes)}
			n++
			mu.Unlock()
			d.Ack()
		}); err != nil {
			t.Fatal(err)
		}
		pub := dial(t, Options{URL: b.url(), ClientID: "fast"})
		var all sync.WaitGroup
		for topic := range topics {
			all.Go(func() {
				for i := range each {
					payload := append(fmt.Append(nil, i), strings.Repeat(".", size)...)[:size]
					if err := pub.Publish(ctx, fmt.Sprint("up/", topic), payload, false); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		testrig.Eventually(t, "the client to wait for room", flow.waiting)
		in := newInbox()
		if err := dial(t, Options{URL: b.url(), ClientID: "other"}).Subscribe(ctx, "st/+", in.take); err != nil {
			t.Fatal(err)
		}
		board := dial(t, Options{URL: b.url(), ClientID: "board"})
		if err := board.Publish(ctx, "st/a", []byte("status"), false); err != nil {
			t.Fatal(err)
		}
		in.await(t, "status")
		close(step)
		testrig.Eventually(t, "all messages", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return n >= topics*each
		})
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		var want []string
		for i := range each {
			want = append(want, fmt.Sprint(i))
		}
		for topic := range topics {
			if g := got[fmt.Sprint("up/", topic)]; !slices.Equal(g, want) {
				t.Errorf("topic %d: %d messages, want %d in order: %v", topic, len(g), each, g)
			}
		}
		if most.messages > 6 || most.bytes > 5*size {
			t.Errorf("%+v at a time", most)
		}
		if n := counters.Refused("limit"); n != 0 || len(lost) != 0 {
			t.Errorf("%d messages refused, %d connections lost", n, len(lost))
		}
	})
}

// TestPingsWhileWaiting: the answers to pings lie behind messages for which there is no room,
// and the connection does not count as dead.
func TestPingsWhileWaiting(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	lost := make(chan error, 1)
	c := dial(t, Options{URL: f.url(), ClientID: "a", KeepAlive: time.Second, pingTimeout: time.Second,
		MaxInflight: 1, Patience: time.Hour, OnLost: func(err error) { lost <- err }})
	step, handled := make(chan struct{}), make(chan string, 10)
	if err := c.Subscribe(testrig.Context(t), "q", func(d transport.Delivery) {
		<-step
		handled <- string(d.Payload)
		d.Ack()
	}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1", "2", "3"} {
		f.send(t, transport.Message{Topic: "q", Payload: []byte(text)})
	}
	testrig.Eventually(t, "pings", func() bool { return f.count(func() int { return f.pings }) >= 4 })
	close(step)
	for _, want := range []string{"1", "2", "3"} {
		if got := testrig.Receive(t, "message "+want, handled); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	testrig.Eventually(t, "acknowledgements", func() bool { return f.count(func() int { return len(f.acked) }) == 3 })
	select {
	case err := <-lost:
		t.Errorf("connection lost: %v", err)
	default:
	}
	// Answers that were given here do not count when the connection is silent again.
	testrig.Eventually(t, "a further ping", func() bool { return f.count(func() int { return f.pings }) >= 6 })
}

// TestPatience: when handlers are stuck for too long, messages of others behind theirs come
// through. What was dropped comes again when there is room.
func TestPatience(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	var counters transport.Counters
	c := dial(t, Options{URL: f.url(), ClientID: "a", MaxInflight: 1, Patience: 50 * time.Millisecond,
		Counters: &counters})
	step, other := make(chan struct{}), make(chan string, 10)
	for topic, h := range map[string]func(transport.Delivery){
		"stuck": func(d transport.Delivery) { <-step; d.Ack() },
		"other": func(d transport.Delivery) { other <- string(d.Payload); d.Ack() },
	} {
		if err := c.Subscribe(testrig.Context(t), topic, h); err != nil {
			t.Fatal(err)
		}
	}
	for _, topic := range []string{"stuck", "stuck", "stuck", "other"} {
		f.send(t, transport.Message{Topic: topic, Payload: []byte(topic)})
	}
	testrig.Receive(t, "the message behind them", other)
	if n := counters.Refused("limit"); n != 2 {
		t.Errorf("%d messages refused, want 2", n)
	}
	close(step)
	testrig.Eventually(t, "the next connection", func() bool {
		return f.count(func() int { return len(f.logins) }) == 2
	})
	flow := c.(*client).router.flow
	testrig.Eventually(t, "room", func() bool { return flow.use() == use{} })
	f.send(t, transport.Message{Topic: "stuck"}, transport.Message{Topic: "stuck"}, transport.Message{Topic: "other"})
	testrig.Receive(t, "the message after that", other)
	if n := counters.Refused("limit"); n != 2 {
		t.Errorf("%d messages refused after there was room, want 2", n)
	}
}

// TestEarlyFlood: what a session kept waits for its subscriptions without being refused,
// however much it is.
func TestEarlyFlood(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	var counters transport.Counters
	c := dial(t, Options{URL: f.url(), ClientID: "a", MaxInflight: 8, Patience: time.Hour, Counters: &counters})
	const n = 100
	for i := range n {
		f.send(t, transport.Message{Topic: "q", Payload: []byte{byte(i)}})
	}
	flow := c.(*client).router.flow
	testrig.Eventually(t, "the client to wait for room", flow.waiting)
	handled := make(chan byte, n)
	if err := c.Subscribe(testrig.Context(t), "q", func(d transport.Delivery) {
		handled <- d.Payload[0]
		d.Ack()
	}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got := testrig.Receive(t, "a message", handled); int(got) != i {
			t.Fatalf("got message %d, want %d", got, i)
		}
	}
	testrig.Eventually(t, "room", func() bool { return flow.use() == use{} })
	if n := counters.Refused("limit"); n != 0 {
		t.Errorf("%d messages refused", n)
	}
}

// TestEarlyPatience: a subscription of which the answer lies behind a flood that nobody
// subscribes to is granted after one wait, not one for each message.
func TestEarlyPatience(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	var counters transport.Counters
	c := dial(t, Options{URL: f.url(), ClientID: "a", MaxInflight: 8, Patience: time.Second, Counters: &counters})
	const n = 100
	for range n {
		f.send(t, transport.Message{Topic: "q"})
	}
	if err := c.Subscribe(testrig.Context(t), "other", func(transport.Delivery) {}); err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "the refusals", func() bool { return counters.Refused("limit") >= n-8 })
	if got := counters.Refused("limit"); got != n-8 {
		t.Errorf("%d messages refused, want %d", got, n-8)
	}
}

// TestCloseWhileWaiting: a client that waits for room can be closed, and a connection that
// ends meanwhile is made again.
func TestCloseWhileWaiting(t *testing.T) {
	t.Parallel()
	f := newFakeBroker(t)
	c := dial(t, Options{URL: f.url(), ClientID: "a", MaxInflight: 1, Patience: time.Hour})
	step := make(chan struct{})
	if err := c.Subscribe(testrig.Context(t), "q", func(d transport.Delivery) { <-step; d.Ack() }); err != nil {
		t.Fatal(err)
	}
	flow := c.(*client).router.flow
	for range 3 {
		f.send(t, transport.Message{Topic: "q"})
	}
	testrig.Eventually(t, "the client to wait for room", flow.waiting)
	c.(*client).recycle()
	testrig.Eventually(t, "the next connection", func() bool {
		return f.count(func() int { return len(f.logins) }) == 2
	})
	f.send(t, transport.Message{Topic: "q"})
	testrig.Eventually(t, "the client to wait for room again", flow.waiting)
	if err := c.Close(testrig.Context(t)); err != nil {
		t.Error(err)
	}
	close(step)
	testrig.Eventually(t, "room", func() bool { return flow.use() == use{} })
}

// TestSubscribesFirst: when the broker has lost the session, nothing is published before the
// subscriptions are made again: neither what was not acknowledged nor anything new. An answer
// would find nobody. If the session is there, nothing waits.
func TestSubscribesFirst(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{true, false} {
		f := newFakeBroker(t)
		c := dial(t, Options{URL: f.url(), ClientID: "a", KeepAlive: time.Second, MaxReconnect: time.Second})
		for _, filter := range []string{"receipts", "other"} {
			if err := c.Subscribe(testrig.Context(t), filter, func(transport.Delivery) {}); err != nil {
				t.Fatal(err)
			}
		}
		results := make(chan error, 2)
		publish := func(text string) {
			go func() { results <- c.Publish(testrig.Context(t), "q", []byte(text), false) }()
		}
		publish("before")
		testrig.Eventually(t, "the first message", func() bool { return len(f.published()) == 1 })
		f.mu.Lock()
		f.forget, f.later, f.ack = lost, make(chan struct{}), true
		asked, pings := f.asked, f.pings
		f.mu.Unlock()
		f.cut()
		testrig.Eventually(t, "a subscription", func() bool { return f.count(func() int { return f.asked }) > asked })
		publish("after")
		if lost {
			testrig.Eventually(t, "pings", func() bool { return f.count(func() int { return f.pings }) >= pings+2 })
			if n := len(f.published()); n != 1 {
				t.Errorf("%d messages before the subscriptions were made", n-1)
			}
			close(f.later)
		}
		for range 2 {
			if err := testrig.Receive(t, "an acknowledgement", results); err != nil {
				t.Error(err)
			}
		}
		if !lost {
			close(f.later)
		}
		var got []string
		for _, p := range f.published()[1:] {
			got = append(got, string(p.Payload))
		}
		if !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("session lost %t: %q on the second connection", lost, got)
		}
	}
}

// TestOutOfOrder: a message never gets the payload of another one.
func TestOutOfOrder(t *testing.T) {
	r := newRouter(&client{ctx: t.Context(), log: testrig.Quiet(), opts: Options{MaxInflight: 8,
		MaxInflightBytes: 1 << 20, strayWait: time.Minute}})
	handled := make(chan string, 8)
	if _, err := r.add("+", func(d transport.Delivery) { handled <- d.Topic + " " + string(d.Payload) }); err != nil {
		t.Fatal(err)
	}
	let := func(topic, payload string) {
		if r.gate(topic, len(payload), false) != nil {
			t.Fatal("there is no room")
		}
		r.flow.deposit([]byte(payload))
	}
	acked := 0
	let("a", "of a")
	let("b", "of b")
	r.dispatch(nil, fakeMessage{"b", nil, &acked})
	r.dispatch(nil, fakeMessage{"a", []byte("x"), &acked})
	if len(handled) != 0 {
		t.Errorf("handled %q", <-handled)
	}
	for _, topic := range []string{"a", "b"} {
		r.dispatch(nil, fakeMessage{topic, nil, &acked})
		if got := testrig.Receive(t, "a message", handled); got != topic+" of "+topic {
			t.Errorf("got %q", got)
		}
	}
}
