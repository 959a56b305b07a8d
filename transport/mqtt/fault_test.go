package mqtt

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// pipeline is a sender, a broker in between, and a receiver.
type pipeline struct {
	sender *transport.Sender
	pub    transport.Client
	recv   *transport.Receiver
	got    objects
}

// objects collects what a receiver hands on, by topic.
type objects struct {
	mu  sync.Mutex
	got map[string][][]byte
}

func (o *objects) take(topic string, sealed []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.got == nil {
		o.got = map[string][][]byte{}
	}
	o.got[topic] = append(o.got[topic], sealed)
	return nil
}

func (o *objects) of(topic string) [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.got[topic])
}

func newPipeline(t *testing.T, pubURL, subURL string) *pipeline {
	t.Helper()
	p := &pipeline{}
	p.recv = transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		return p.got.take(s.Topic, s.Sealed)
	})
	sub := dial(t, Options{URL: subURL, ClientID: "receiver"})
	if err := sub.Subscribe(testrig.Context(t), "up/+", func(d transport.Delivery) {
		_ = p.recv.Feed(d.Topic,
			d.Payload)
		d.Ack()
	}); err != nil {
		t.Fatal(err)
	}
	p.pub = dial(t, Options{URL: pubURL, ClientID: "sender"})
	var err error
	if p.sender, err = transport.NewSender(p.pub, 4096, transport.Window{Chunks: 4, Bytes: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	return p
}

func upTopic(i int) string { return fmt.Sprintf("up/%d", i) }

// sendAll sends n objects of about 40 KB from three goroutines. When half of
// them have begun and chunks are in flight, it calls midway, while the rest are
// being sent.
func (p *pipeline) sendAll(t *testing.T, n int, midway func()) {
	t.Helper()
	ctx := testrig.Context(t)
	var g errgroup.Group
	g.SetLimit(3)
	done := make(chan struct{})
	for i := range n {
		if i == n/2 {
			go func() {
				defer close(done)
				for {
					if flying, _ := p.pub.(*client).out.pending(); flying > 0 || ctx.Err() != nil {
						break
					}
					time.Sleep(20 * time.Microsecond)
				}
				midway()
			}()
		}
		g.Go(func() error { return p.sender.Send(ctx, upTopic(i), testrig.Pattern(40_000+i)) })
	}
	err := g.Wait()
	<-done
	if err != nil {
		t.Fatal(err)
	}
}

func (p *pipeline) awaitAll(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		testrig.Eventually(t, fmt.Sprintf("object %d", i), func() bool { return len(p.got.of(upTopic(i))) > 0 })
	}
	for i := range n {
		came := p.got.of(upTopic(i))
		if len(came) != 1 {
			t.Errorf("object %d came %d times", i, len(came))
		}
		for _, b := range came {
			if !bytes.Equal(b, testrig.Pattern(40_000+i)) {
				t.Fatalf("%s: %d bytes of another object", upTopic(i), len(b))
			}
		}
	}
}

func TestSendReceive(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		p := newPipeline(t, b.url(), b.url())
		p.sendAll(t, 6, func() {})
		p.awaitAll(t, 6)
		want := uint64(0)
		for i := range 6 {
			pieces, err := transport.Split(testrig.Pattern(40_000+i), 4096)
			if err != nil {
				t.Fatal(err)
			}
			want += uint64(len(pieces))
		}
		if s := p.sender.Stats(); s.Objects != 6 || s.Chunks != want || s.Bytes < 240_000 {
			t.Errorf("%+v, want %d chunks", s, want)
		}
		if err := p.sender.Send(testrig.Context(t), "up/x", nil); !errors.Is(err, transport.ErrMalformed) {
			t.Errorf("empty object: %v", err)
		}
	})
}

// TestBrokerRestart stops the broker in the middle of multi-chunk objects and
// starts it again. Every Send succeeds: nothing is lost at the sender. Where
// the broker keeps its store, every object arrives; where it does not, sending
// the objects again brings what is missing, and nothing arrives twice.
func TestBrokerRestart(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		p := newPipeline(t, b.url(), b.url())
		p.sendAll(t, 8, func() {
			b.stop(t)
			b.start(t)
		})
		if p.sender.Stats().Objects != 8 {
			t.Errorf("%+v", p.sender.Stats())
		}
		if !b.durable() {
			testrig.Eventually(t, "the receiver to come back", func() bool { return received(t, p, "up/probe") })
			p.sendAll(t, 8, func() {})
		}
		p.awaitAll(t, 8)
	})
}

// received publishes a probe and reports whether it arrives soon.
func received(t *testing.T, p *pipeline, topic string) bool {
	t.Helper()
	if err := p.sender.Send(testrig.Context(t), topic, []byte(time.Now().String())); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if len(p.got.of(topic)) > 0 {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// TestBrokerKilled ends a real broker without warning.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	m := newMosquitto(t, nil, false)
	p := newPipeline(t, m.url(), m.url())
	p.sendAll(t, 8, func() {
		m.b.Kill()
		m.start(t)
	})
	testrig.Eventually(t, "the receiver to come back", func() bool { return received(t, p, "up/probe") })
	p.sendAll(t, 8, func() {})
	p.awaitAll(t, 8)
}

// TestCuttingNetwork cuts connections in the middle of packets, and slows the
// rest down. Acknowledged chunks are at the broker, so every object arrives.
func TestCuttingNetwork(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		bad := testrig.NewProxy(t, b.addr(), nil)
		bad.Set(testrig.Faults{CutAfter: 70_001, Delay: time.Millisecond})
		p := newPipeline(t, "tcp://"+bad.Addr(), b.url())
		go func() {
			testrig.Poll(func() bool { return bad.Cuts() >= 2 || t.Context().Err() != nil })
			bad.Set(testrig.Faults{})
		}()
		p.sendAll(t, 8, func() {})
		p.awaitAll(t, 8)
		if bad.Cuts() < 2 || bad.Opened() < 3 {
			t.Errorf("%d cuts, %d connections: the test tested nothing", bad.Cuts(), bad.Opened())
		}
	})
}

// TestStallingNetwork: a connection that takes no more bytes is given up after
// the write timeout, and everything is sent again on the next one.
func TestStallingNetwork(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t, nil)
	bad := testrig.NewProxy(t, e.addr(), nil)
	recv := newInbox()
	sub := dial(t, Options{URL: e.url(), ClientID: "receiver", MaxInbound: 16 << 20})
	if err := sub.Subscribe(testrig.Context(t), "q", recv.take); err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 10)
	pub := dial(t, Options{URL: "tcp://" + bad.Addr(), ClientID: "sender", writeTimeout: 8 * time.Second,
		OnLost: func(err error) { lost <- err }})
	bad.Set(testrig.Faults{Vanish: true})
	big := testrig.Pattern(4 << 20) // three are more than the buffers on the way hold
	var g errgroup.Group
	for i := range 3 {
		g.Go(func() error { return pub.Publish(testrig.Context(t), "q", big[i:], false) })
	}
	<-lost
	bad.Set(testrig.Faults{})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		recv.await(t, string(big[i:]))
	}
}

// TestSendGivesUp: the context ends a Send that cannot get through, promptly,
// and the sender is usable afterwards.
func TestSendGivesUp(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t, nil)
	p := newPipeline(t, e.url(), e.url())
	e.stop(t)
	ctx, cancel := context.WithTimeout(testrig.Context(t), 100*time.Millisecond)
	defer cancel()
	if err := p.sender.Send(ctx, "up/0", testrig.Pattern(100_000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sent to nobody: %v", err)
	}
	if err := p.pub.Publish(ctx, "up/0", nil, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("published to nobody: %v", err)
	}
	e.start(t)
	if err := p.sender.Send(testrig.Context(t), "up/0", testrig.Pattern(100_000)); err != nil {
		t.Error(err)
	}
	// Close drains: with nothing outstanding it succeeds, and Send fails after.
	if err := p.pub.Close(testrig.Context(t)); err != nil {
		t.Error(err)
	}
	if err := p.sender.Send(testrig.Context(t), "up/0", testrig.Pattern(100_000)); !errors.Is(err,
		transport.ErrClosed) {
		t.Errorf("sent after close: %v", err)
	}
}

// TestCloseDrains: messages that are under way when Close is called arrive.
func TestCloseDrains(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		slow := testrig.NewProxy(t, b.addr(), nil)
		p := newPipeline(t, "tcp://"+slow.Addr(), b.url())
		slow.Set(testrig.Faults{Delay: 2 * time.Millisecond})
		c := p.pub.(*client)
		result := make(chan error, 1)
		go func() {
			result <- p.pub.Publish(testrig.Context(t), "up/0", chunksOf(t, testrig.Pattern(200_000), 256<<10)[0],
				false)
		}()
		testrig.Eventually(t, "the message to be under way", func() bool { n, _ := c.out.pending(); return n == 1 })
		if err := p.pub.Close(testrig.Context(t)); err != nil {
			t.Error(err)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
		testrig.Eventually(t, "the message", func() bool { return len(p.got.of("up/0")) == 1 })
		if p.pub.Connected() {
			t.Error("still connected")
		}
	})
}

// reading returns the header of a reading of board-7.
func reading(seq uint64) transport.Meta {
	return transport.Meta{
		Kind: transport.KindReading, Device: "board-7", Stream: "vibration", KeyID: [16]byte{1}, KeyEpoch: 3,
		BootEpoch: 12, Sequence: seq, Params: [32]byte{2}, Layout: [32]byte{3}, Level: 1, Scale: 1 << 26,
		Start: 1_700_000_000_000_000_000, End: 1_700_000_010_000_000_000, Samples: 256,
	}
}

// trusting returns options that accept what reading describes, signed by key.
func trusting(t *testing.T, key *transport.SigningKey) transport.VerifierOptions {
	t.Helper()
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{"board-7": key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	m := reading(0)
	return transport.VerifierOptions{
		Trust: trust, Params: [][32]byte{m.Params}, Keys: []transport.KeyRef{{ID: m.KeyID, Epoch: m.KeyEpoch}},
		Layout: func(device, stream string) ([32]byte, bool) {
			return m.Layout, device == m.Device && stream == m.Stream
		},
		Counters: &transport.Counters{},
	}
}

// chunksOf cuts an object into encoded chunks.
func chunksOf(t *testing.T, object []byte, size int) (out [][]byte) {
	t.Helper()
	pieces, err := transport.Split(object, size)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pieces {
		b, err := pieces[i].Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// TestBadMessagesDoNotDisturb sends every kind of bad message through a broker
// among good ones: each is counted under its own reason, and every good object
// arrives.
func TestBadMessagesDoNotDisturb(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		r := newBadRig(t, b)
		for i, tc := range r.badMessages(t) {
			before := tc.c.Refused(tc.reason)
			for _, f := range tc.send {
				if err := f(); err != nil {
					t.Fatalf("%s: %v", tc.reason, err)
				}
			}
			seq := uint64(2000 + i)
			if err := r.send(r.object(t, seq, nil))(); err != nil {
				t.Fatal(err)
			}
			testrig.Eventually(t, "refusal as "+tc.reason, func() bool { return tc.c.Refused(tc.reason) > before })
			testrig.Eventually(t, "the good object after "+tc.reason, func() bool { return r.arrived(seq) })
		}
	})
}

// badRig is a sender of bad messages and a receiver that counts them, at a broker.
type badRig struct {
	ctx    context.Context
	board  *transport.SigningKey
	topic  string // of the board's readings
	pub    transport.Client
	sender *transport.Sender

	client   transport.Counters  // of the receiver's connection
	receiver *transport.Receiver // of chunks
	verifier *transport.Counters

	mu     sync.Mutex
	opened map[uint64]bool // sequence numbers of the objects that arrived
}

func newBadRig(t *testing.T, b testBroker) *badRig {
	t.Helper()
	board, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	r := &badRig{ctx: testrig.Context(t), board: board, opened: map[uint64]bool{},
		topic: transport.ReadingTopic(transport.DefaultPrefix, "board-7", "vibration")}
	o := trusting(t, board)
	o.MaxObject = 50_000
	r.verifier = o.Counters
	v, err := transport.NewVerifier(o)
	if err != nil {
		t.Fatal(err)
	}
	r.receiver = transport.NewReceiver(transport.Limits{MaxObject: 60_000}, func(s transport.Staged) error {
		defer s.Done()
		topic, sealed := s.Topic, s.Sealed
		obj, err := v.OpenFrom(topic, sealed)
		if err != nil {
			return nil // counted by the verifier
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.opened[obj.Meta.Sequence] = true
		return nil
	})
	sub := dial(t, Options{URL: b.url(), ClientID: "receiver", MaxInbound: 64 << 10, Counters: &r.client})
	if err := sub.Subscribe(r.ctx, transport.DefaultPrefix+"/up/+/+",
		func(d transport.Delivery) { _ = r.receiver.Feed(d.Topic, d.Payload); d.Ack() }); err != nil {
		t.Fatal(err)
	}
	r.pub = dial(t, Options{URL: b.url(), ClientID: "sender"})
	if r.sender, err = transport.NewSender(r.pub, 4096); err != nil {
		t.Fatal(err)
	}
	return r
}

// object returns a sealed reading whose header was changed.
func (r *badRig) object(t *testing.T, seq uint64, change func(*transport.Meta)) []byte {
	t.Helper()
	m := reading(seq)
	if change != nil {
		change(&m)
	}
	sealed, err := transport.Seal(m, testrig.Pattern(9000), r.board)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// raw publishes one message, send an object in chunks.
func (r *badRig) raw(b []byte) func() error {
	return func() error { return r.pub.Publish(r.ctx, r.topic, b, false) }
}

func (r *badRig) send(b []byte) func() error {
	return func() error { return r.sender.Send(r.ctx, r.topic, b) }
}

func (r *badRig) arrived(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened[seq]
}

// badMessage is what is sent, and where it must be counted as what.
type badMessage struct {
	reason string
	c      *transport.Counters
	send   []func() error
}

func (r *badRig) badMessages(t *testing.T) []badMessage {
	t.Helper()
	replay := r.object(t, 1000, nil)
	first := func() error { // handlers run concurrently: the second delivery must come after the first
		testrig.Eventually(t, "the object to be replayed", func() bool { return r.arrived(1000) })
		return nil
	}
	flipped := r.object(t, 1001, nil)
	flipped[len(flipped)-1000] ^= 1
	chunks := chunksOf(t, r.object(t, 1002, nil), 4096)
	downgraded := r.object(t, 1003, nil)
	at := bytes.LastIndex(downgraded, []byte{0xa2, 0x01, 0x32}) // the protected header
	downgraded[at+2] = 0x26                                     // the algorithm: ES256
	conflicting, err := transport.UnmarshalChunk(bytes.Clone(chunks[0]), 0)
	if err != nil {
		t.Fatal(err)
	}
	conflicting.Data[0] ^= 1
	conflict, err := conflicting.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	chunk, object := r.receiver.Counters(), r.verifier
	changed := func(seq uint64, change func(*transport.Meta)) []func() error {
		return []func() error{r.send(r.object(t, seq, change))}
	}
	return []badMessage{
		{"malformed", chunk, []func() error{r.raw([]byte("nonsense")), r.raw([]byte{0xff})}},
		{"truncated", chunk, []func() error{r.raw(nil), r.raw(chunks[0][:2000])}},
		{"too_large", chunk, []func() error{r.send(testrig.Pattern(60_001))}},
		{"too_large", &r.client, []func() error{r.raw(make([]byte, 65<<10))}},
		{"too_large", object, []func() error{r.send(testrig.Pattern(50_001))}},
		{"conflict", chunk, []func() error{r.raw(chunks[0]), r.raw(conflict)}},
		{"replayed", chunk, []func() error{r.send(replay), first, r.send(replay)}},
		{"bad_signature", object, []func() error{r.send(flipped)}},
		{"unknown_signer", object, changed(1, func(m *transport.Meta) { m.Device = "board-8" })},
		{"wrong_key", object, changed(2, func(m *transport.Meta) { m.KeyID[3]++ })},
		{"wrong_epoch", object, changed(3, func(m *transport.Meta) { m.KeyEpoch = 9 })},
		{"wrong_params", object, changed(4, func(m *transport.Meta) { m.Params[3]++ })},
		{"wrong_layout", object, changed(5, func(m *transport.Meta) { m.Layout[3]++ })},
		{"wrong_topic", object, changed(6, func(m *transport.Meta) { m.Stream = "other" })},
		{"downgraded", object, []func() error{r.send(downgraded)}},
	}
}
