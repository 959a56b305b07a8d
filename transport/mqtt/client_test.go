package mqtt

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
)

// testBroker is a broker that can be stopped and started on one address.
type testBroker interface {
	url() string
	addr() string
	start(t *testing.T)
	stop(t *testing.T)
	// durable: acknowledged messages survive stop and start.
	durable() bool
}

type embedded struct {
	address string
	conf    *tls.Config
	b       *broker.Broker
}

func (e *embedded) addr() string  { return e.address }
func (e *embedded) durable() bool { return false }
func (e *embedded) url() string {
	if e.conf != nil {
		return "tls://" + e.address
	}
	return "tcp://" + e.address
}

func (e *embedded) start(t *testing.T) {
	t.Helper()
	var err error
	if !testrig.Poll(func() bool { // the port may linger for a moment after stop
		e.b, e.address, err = broker.Start(broker.Options{Address: e.address, TLS: e.conf})
		return err == nil
	}) {
		t.Fatal(err)
	}
}

func (e *embedded) stop(t *testing.T) {
	t.Helper()
	if err := e.b.Close(); err != nil {
		t.Fatal(err)
	}
}

func newEmbedded(t *testing.T, conf *tls.Config) *embedded {
	t.Helper()
	e := &embedded{address: testrig.FreeAddress(t), conf: conf}
	e.start(t)
	t.Cleanup(func() { e.b.Close() })
	return e
}

// forEachBroker runs f against the embedded broker and a real mosquitto.
func forEachBroker(t *testing.T, f func(t *testing.T, b testBroker)) {
	t.Parallel() // mostly waiting
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		f(t, newEmbedded(t, nil))
	})
	t.Run("mosquitto", func(t *testing.T) {
		t.Parallel()
		f(t, newMosquitto(t, nil, false))
	})
}

func dial(t *testing.T, o Options) transport.Client {
	t.Helper()
	if o.Logger == nil {
		o.Logger = testrig.Quiet()
	}
	c, err := Dial(testrig.Context(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		c.Close(ctx)
	})
	return c
}

// inbox collects messages by topic.
type inbox struct {
	mu   sync.Mutex
	all  []transport.Delivery
	wake chan struct{}
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (in *inbox) take(d transport.Delivery) {
	in.mu.Lock()
	in.all = append(in.all, d)
	in.mu.Unlock()
	d.Ack()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *inbox) find(match func(transport.Delivery) bool) (transport.Delivery, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, d := range in.all {
		if match(d) {
			return d, true
		}
	}
	return transport.Delivery{}, false
}

// await waits for a message with this payload.
func (in *inbox) await(t *testing.T, payload string) transport.Delivery {
	t.Helper()
	timeout := time.After(testrig.Patience)
	for {
		if d, ok := in.find(func(d transport.Delivery) bool { return string(d.Payload) == payload }); ok {
			return d
		}
		select {
		case <-in.wake:
		case <-timeout:
			t.Fatalf("message %.40q did not arrive", payload)
		}
	}
}

func TestPublishSubscribe(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testrig.Context(t)
		sub := dial(t, Options{URL: b.url(), ClientID: "sub"})
		pub := dial(t, Options{URL: b.url(), ClientID: "pub"})
		in := newInbox()
		if err := sub.Subscribe(ctx, "a/+/c", in.take); err != nil {
			t.Fatal(err)
		}
		if !sub.Connected() || !pub.Connected() {
			t.Error("not connected")
		}
		big := string(testrig.Pattern(300 << 10))
		for topic, payload := range map[string]string{"a/b/c": "one", "a/x/c": big, "a/y/c": ""} {
			if err := pub.Publish(ctx, topic, []byte(payload), false); err != nil {
				t.Fatal(err)
			}
		}
		if err := pub.Publish(ctx, "a/b/d", []byte("not for us"), true); err != nil {
			t.Fatal(err)
		}
		if d := in.await(t, "one"); d.Topic != "a/b/c" {
			t.Errorf("topic %q", d.Topic)
		}
		in.await(t, big)
		in.await(t, "")
		late := newInbox()
		if err := sub.Subscribe(ctx, "a/b/d", late.take); err != nil {
			t.Fatal(err)
		}
		if d := late.await(t, "not for us"); !d.Retained {
			t.Error("not marked as retained")
		}
		if err := sub.Subscribe(ctx, "a/b/d", late.take); !errors.Is(err, transport.ErrOptions) {
			t.Errorf("subscribed twice: %v", err)
		}
		for _, topic := range []string{"", "a/+", "a/#", strings.Repeat("a", 2000), "a\x00"} {
			if err := pub.Publish(ctx, topic, nil, false); !errors.Is(err, transport.ErrMalformed) {
				t.Errorf("topic %.10q: %v", topic, err)
			}
		}
		for _, filter := range []string{"", "a/b#", "#/a", "a+", "a\x00"} {
			if err := sub.Subscribe(ctx, filter, in.take); !errors.Is(err, transport.ErrMalformed) {
				t.Errorf("filter %q: %v", filter, err)
			}
		}
		if err := pub.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := pub.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := pub.Publish(ctx, "a/b/c", nil, false); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("publish after close: %v", err)
		}
		if err := pub.Subscribe(ctx, "z", in.take); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("subscribe after close: %v", err)
		}
	})
}

// TestUnackedComesAgain: what a handler did not acknowledge is delivered again
// to the same session, also when the process restarts and subscribes late.
func TestUnackedComesAgain(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testrig.Context(t)
		first := dial(t, Options{URL: b.url(), ClientID: "sub"})
		seen := make(chan string, 10)
		if err := first.Subscribe(ctx, "q", func(d transport.Delivery) { seen <- string(d.Payload) }); err != nil {
			t.Fatal(err)
		}
		pub := dial(t, Options{URL: b.url(), ClientID: "pub"})
		if err := pub.Publish(ctx, "q", []byte("keep me"), false); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != "keep me" {
			t.Fatal(got)
		}
		if err := first.Close(ctx); err != nil {
			t.Fatal(err)
		}
		publishSettled(t, pub, "q", "while away")
		second := dial(t, Options{URL: b.url(), ClientID: "sub"})
		in := newInbox()
		testrig.Eventually(t, "early messages in the stash", func() bool {
			r := second.(*client).router
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.stash) == 2
		})
		if err := second.Subscribe(ctx, "q", in.take); err != nil {
			t.Fatal(err)
		}
		in.await(t, "keep me")
		in.await(t, "while away")
	})
}

// leftBehind leaves subscriptions of the client "sub" at the broker, as an earlier process
// does. It returns a function that publishes.
func leftBehind(t *testing.T, b testBroker, filters ...string) (send func(topic, text string)) {
	t.Helper()
	ctx := testrig.Context(t)
	first := dial(t, Options{URL: b.url(), ClientID: "sub"})
	for _, filter := range filters {
		if err := first.Subscribe(ctx, filter, func(d transport.Delivery) { d.Ack() }); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	pub := dial(t, Options{URL: b.url(), ClientID: "pub"})
	return func(topic, text string) {
		t.Helper()
		publishSettled(t, pub, topic, text)
	}
}

// publishSettled returns when the message is in the sessions of those who subscribed. The
// embedded broker acknowledges a message before that, and takes the next message of this client
// after it.
func publishSettled(t *testing.T, pub transport.Client, topic, text string) {
	t.Helper()
	for _, topic := range []string{topic, "v1/nobody"} {
		if err := pub.Publish(testrig.Context(t), topic, []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOldSubscriptions: messages of an earlier process's subscriptions hinder nothing,
// however many come, and they stop coming.
func TestOldSubscriptions(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testrig.Context(t)
		send := leftBehind(t, b, "v1/res/+", "v1/old", "v1/q")
		const many = 40 // more than a broker lets be unacknowledged
		for range many {
			send("v1/res/gone", "old result")
			send("v1/old", "old")
		}
		send("v1/res/kept", "result 1")
		send("v1/q", "wanted 1")
		var counters transport.Counters
		second := dial(t, Options{URL: b.url(), ClientID: "sub", Counters: &counters,
			strayWait: 300 * time.Millisecond})
		in := newInbox()
		for _, filter := range []string{"v1/res/kept", "v1/q"} {
			if err := second.Subscribe(ctx, filter, in.take); err != nil {
				t.Fatal(err)
			}
		}
		in.await(t, "wanted 1")
		in.await(t, "result 1")
		testrig.Eventually(t, "strays counted",
			func() bool { return counters.Refused("wrong_topic") >= uint64(2*many) })
		// The old subscriptions end, the new ones, which they covered, do not.
		testrig.Eventually(t, "old subscriptions ended", func() bool {
			before := counters.Refused("wrong_topic")
			send("v1/res/gone", "old result")
			send("v1/old", "old")
			send("v1/q", "mark")
			in.await(t, "mark")
			return counters.Refused("wrong_topic") == before
		})
		send("v1/res/kept", "result 2")
		in.await(t, "result 2")
	})
}

// TestStraysAtOnce: a client that knows all its subscriptions drops other messages at once.
// They hold back neither messages nor later subscriptions, and none of those is lost.
func TestStraysAtOnce(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testrig.Context(t)
		send := leftBehind(t, b, "v1/old", "v1/q", "v1/late")
		send("v1/late", "later")
		for range 60 { // more than a broker lets be unacknowledged
			send("v1/old", "old")
		}
		send("v1/q", "wanted")
		var counters transport.Counters
		log := &testrig.Log{}
		second := dial(t, Options{URL: b.url(), ClientID: "sub", Counters: &counters,
			Filters: []string{"v1/q", "v1/late"}, strayWait: time.Hour, Logger: log.Logger()})
		in := newInbox()
		if err := second.Subscribe(ctx, "v1/old", in.take); !errors.Is(err, transport.ErrOptions) {
			t.Errorf("a filter that is not among those of the options: %v", err)
		}
		if err := second.Subscribe(ctx, "v1/q", in.take); err != nil {
			t.Fatal(err)
		}
		in.await(t, "wanted")
		testrig.Eventually(t, "strays counted", func() bool { return counters.Refused("wrong_topic") >= 60 })
		if err := second.Subscribe(ctx, "v1/late", in.take); err != nil {
			t.Fatal(err)
		}
		in.await(t, "later")
		for _, text := range []string{"subscription is ended", "topic=v1/old",
			"a subscription that does not exist yet"} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log lacks %q: %s", text, log)
			}
		}
		// A broker sends what it kept in any order, and the first that must wait is named.
		if text := log.String(); !strings.Contains(text, "topic=v1/late") && !strings.Contains(text, "topic=v1/q") {
			t.Errorf("the log names no topic that waits: %s", text)
		}
	})
}

func TestOversizedInboundIsSkipped(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testrig.Context(t)
		var counters transport.Counters
		refused := make(chan error, 1)
		lost := make(chan error, 1)
		sub := dial(t, Options{URL: b.url(), ClientID: "sub", MaxInbound: 10_000, Counters: &counters,
			OnRefused: func(_ string, err error) { refused <- err }, OnLost: func(err error) { lost <- err }})
		in := newInbox()
		if err := sub.Subscribe(ctx, "q", in.take); err != nil {
			t.Fatal(err)
		}
		pub := dial(t, Options{URL: b.url(), ClientID: "pub"})
		for _, payload := range [][]byte{testrig.Pattern(10_000), testrig.Pattern(10_001), []byte("after")} {
			if err := pub.Publish(ctx, "q", payload, false); err != nil {
				t.Fatal(err)
			}
		}
		in.await(t, string(testrig.Pattern(10_000)))
		in.await(t, "after")
		if err := <-refused; !errors.Is(err, transport.ErrTooLarge) || !strings.Contains(err.Error(), "10001") {
			t.Error(err)
		}
		if counters.Refused("too_large") != 1 {
			t.Error("not counted")
		}
		select {
		case err := <-lost:
			t.Errorf("the connection was lost: %v", err)
		default:
		}
	})
}

func TestWillAndBirth(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testrig.Context(t)
		watch := dial(t, Options{URL: b.url(), ClientID: "watch"})
		in := newInbox()
		if err := watch.Subscribe(ctx, "st/+", in.take); err != nil {
			t.Fatal(err)
		}
		p := testrig.NewProxy(t, b.addr(), nil)
		var n int
		var mu sync.Mutex
		msg := func(what string) func() (transport.Message, error) {
			return func() (transport.Message, error) {
				mu.Lock()
				defer mu.Unlock()
				n++
				return transport.Message{Topic: "st/a", Payload: fmt.Append(nil, what, n), Retain: true}, nil
			}
		}
		dial(t, Options{URL: "tcp://" + p.Addr(), ClientID: "a", Will: msg("off"), Birth: msg("on")})
		in.await(t, "on2")
		p.Cut()
		in.await(t, "off1")
		in.await(t, "on4") // the will was renewed as number 3
		p.Cut()
		in.await(t, "off3")
	})
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	ctx := testrig.Context(t)
	for _, o := range []Options{
		{URL: "", ClientID: "a"}, {URL: "tls://", ClientID: "a"}, {URL: "http://x", ClientID: "a"},
		{URL: "tls://u:p@x", ClientID: "a"},
		{URL: "tls://x/path", ClientID: "a"}, {URL: "tcp://broker.example:1883", ClientID: "a"},
		{URL: "mqtt://10.0.0.1", ClientID: "a"},
		{URL: "tcp://127.0.0.1:1", ClientID: ""}, {URL: "tcp://127.0.0.1:1", ClientID: strings.Repeat("a", 200)},
		{URL: "tcp://127.0.0.1:1", ClientID: "a", MaxInbound: 5}, {URL: "tcp://127.0.0.1:1", ClientID: "a",
			KeepAlive: time.Millisecond},
	} {
		if _, err := Dial(ctx, o); !errors.Is(err, transport.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for url, want := range map[string]endpoint{
		"tls://b.example":         {address: "b.example:8883", host: "b.example", secure: true},
		"mqtts://b.example:443":   {address: "b.example:443", host: "b.example", secure: true},
		"tcp://localhost":         {address: "localhost:1883", host: "localhost", secure: false},
		"mqtt://[::1]:99":         {address: "[::1]:99", host: "::1", secure: false},
		"ssl://[2001:db8::1]:883": {address: "[2001:db8::1]:883", host: "2001:db8::1", secure: true},
		"wss://b.example": {address: "b.example:443", host: "b.example", secure: true, authority: "b.example",
			path: "/mqtt"},
		"wss://b.example:8084/": {address: "b.example:8084", host: "b.example", secure: true,
			authority: "b.example:8084", path: "/mqtt"},
		"ws://[::1]:99/a%20b/c": {address: "[::1]:99", host: "::1", authority: "[::1]:99", path: "/a%20b/c"},
	} {
		o := Options{URL: url}
		if got, err := o.endpoint(); err != nil || got != want {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	// Nobody listens: Dial gives up with the context and names the cause.
	addr := testrig.FreeAddress(t)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := Dial(short, Options{URL: "tcp://" + addr, ClientID: "a", Logger: testrig.Quiet()})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	// In the background it does not fail, and connects when the broker comes.
	c, err := Dial(ctx, Options{URL: "tcp://" + addr, ClientID: "a", Logger: testrig.Quiet(), Background: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.Publish(short, "q", nil, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("published to nobody: %v", err)
	}
	e := &embedded{address: addr}
	e.start(t)
	defer e.b.Close()
	if err := c.Publish(ctx, "q", []byte("x"), false); err != nil {
		t.Error(err)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	url := testrig.Broker(t, broker.Options{Users: map[string]string{"alice": "secret"}}).URL()
	pw := func(s string) func() (string, error) { return func() (string, error) { return s, nil } }
	dial(t, Options{URL: url, ClientID: "a", Username: "alice", Password: pw("secret")})
	for _, o := range []Options{{}, {Username: "alice"}, {Username: "alice", Password: pw("guess")},
		{Username: "bob", Password: pw("")}} {
		o.URL, o.ClientID, o.Logger = url, "b", testrig.Quiet()
		if _, err := Dial(testrig.Context(t), o); !errors.Is(err, transport.ErrRefused) ||
			!strings.Contains(err.Error(), "does not accept the user name, the password") {
			t.Errorf("%q: %v", o.Username, err)
		}
	}
}

// TestNoPassword: where the password cannot be read nothing is tried without it, and
// the error has the cause.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such secret")
	_, err := Dial(testrig.Context(t), Options{URL: "tcp://127.0.0.1:1", ClientID: "a", Username: "alice",
		Logger:   testrig.Quiet(),
		Password: func() (string, error) { return "", cause },
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			t.Error("a connection was made")
			return nil, io.EOF
		}})
	if !errors.Is(err, transport.ErrRefused) || !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}

// TestGuardedConn feeds hostile broker bytes: the guard ends the connection
// instead of allocating or passing them on.
func TestGuardedConn(t *testing.T) {
	read := func(in []byte) ([]byte, error) {
		a, b := net.Pipe()
		go func() {
			b.Write(in)
			b.Close()
		}()
		g := newGuardedConn(a, 100, [16]byte{1, 2, 3})
		return io.ReadAll(g)
	}
	small := []byte{0x32, 9, 0, 1, 'q', 0, 7, 'h', 'e', 'l', 'l'}
	big := append([]byte{0x32, 0x80 | 106&0x7f, 0}, 0, 1, 'q', 0, 7)
	big = append(big, make([]byte, 101)...)
	fix := func(b []byte) []byte { b[1], b[2] = byte(106)|0x80, 0; return b }
	for _, tc := range []struct {
		name string
		in   []byte
		want []byte
		bad  bool
	}{
		{"replies pass", []byte{0x20, 2, 0, 0, 0x40, 2, 0, 1, 0x90, 3, 0, 1, 1, 0xb0, 2, 0, 1, 0xd0, 0},
			[]byte{0x20, 2, 0, 0, 0x40, 2, 0, 1, 0x90, 3, 0, 1, 1, 0xb0, 2, 0, 1, 0xd0, 0}, false},
		{"small message passes", small, small, false},
		{"big message is marked", fix(big), append([]byte{0x32, 29, 0, 1, 'q', 0, 7, 1, 2, 3},
			append(make([]byte, 13), 0, 0, 0, 0, 0, 0, 0, 101)...), false},
		{"QoS 0 is marked", []byte{0x30, 8, 0, 1, 'q', 'h', 'e', 'l', 'l', 'o'},
			append([]byte{0x30, 27, 0, 1, 'q', 1, 2, 3}, append(make([]byte, 13), 0, 0, 0, 0, 0, 0, 0, 5)...), false},
		{"suback with two codes", []byte{0x90, 4, 0, 1, 1, 1}, nil, true},
		{"puback of 200 MB", []byte{0x40, 0xff, 0xff, 0xff, 0x7f}, nil, true},
		{"length of five bytes", []byte{0x30, 0xff, 0xff, 0xff, 0xff, 1}, nil, true},
		{"QoS 2", []byte{0x34, 9, 0, 1, 'q', 0, 7, 'h', 'e', 'l', 'l'}, nil, true},
		{"a CONNECT", []byte{0x10, 0}, nil, true},
		{"a message without topic", []byte{0x30, 2, 0, 0}, nil, true},
		{"topic longer than message", []byte{0x30, 4, 0, 200, 'q', 'q'}, nil, true},
		{"message of one byte", []byte{0x30, 1, 0}, nil, true},
		{"huge topic", []byte{0x30, 0xff, 0x7f, 0x10, 0}, nil, true},
	} {
		got, err := read(tc.in)
		if tc.bad != errors.Is(err, transport.ErrMalformed) || !bytes.Equal(got, tc.want) {
			t.Errorf("%s: %x, %v", tc.name, got, err)
		}
	}
}
