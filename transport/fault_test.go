package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// pipeline is a sender, a broker in between, and a receiver.
type pipeline struct {
	sender *Sender
	pub    Client
	recv   *Receiver
	got    sink
}

func newPipeline(t *testing.T, pubURL, subURL string) *pipeline {
	t.Helper()
	p := &pipeline{}
	p.recv = NewReceiver(Limits{}, p.got.take)
	sub := dial(t, Options{URL: subURL, ClientID: "receiver"})
	if err := sub.Subscribe(testCtx(t), "up/+", p.recv.Handle); err != nil {
		t.Fatal(err)
	}
	p.pub = dial(t, Options{URL: pubURL, ClientID: "sender"})
	var err error
	if p.sender, err = NewSender(p.pub, 4096, Window{Chunks: 4, Bytes: 64 << 10}); err != nil {
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
	ctx := testCtx(t)
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
		g.Go(func() error { return p.sender.Send(ctx, upTopic(i), pattern(40_000+i)) })
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
		eventually(t, fmt.Sprintf("object %d", i), func() bool { return p.got.count(upTopic(i)) > 0 })
	}
	for i := range n {
		p.got.mu.Lock()
		for _, b := range p.got.got[upTopic(i)] {
			equalBytes(t, upTopic(i), b, pattern(40_000+i))
		}
		if len(p.got.got[upTopic(i)]) != 1 {
			t.Errorf("object %d came %d times", i, len(p.got.got[upTopic(i)]))
		}
		p.got.mu.Unlock()
	}
}

func TestSendReceive(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		p := newPipeline(t, b.url(), b.url())
		p.sendAll(t, 6, func() {})
		p.awaitAll(t, 6)
		want := uint64(0)
		for i := range 6 {
			pieces, err := Split(pattern(40_000+i), 4096)
			if err != nil {
				t.Fatal(err)
			}
			want += uint64(len(pieces))
		}
		if s := p.sender.Stats(); s.Objects != 6 || s.Chunks != want || s.Bytes < 240_000 {
			t.Errorf("%+v, want %d chunks", s, want)
		}
		if err := p.sender.Send(testCtx(t), "up/x", nil); !errors.Is(err, ErrMalformed) {
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
			eventually(t, "the receiver to come back", func() bool { return received(t, p, "up/probe") })
			p.sendAll(t, 8, func() {})
		}
		p.awaitAll(t, 8)
	})
}

// received publishes a probe and reports whether it arrives soon.
func received(t *testing.T, p *pipeline, topic string) bool {
	t.Helper()
	if err := p.sender.Send(testCtx(t), topic, []byte(time.Now().String())); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if p.got.count(topic) > 0 {
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
	eventually(t, "the receiver to come back", func() bool { return received(t, p, "up/probe") })
	p.sendAll(t, 8, func() {})
	p.awaitAll(t, 8)
}

// TestCuttingNetwork cuts connections in the middle of packets, and slows the
// rest down. Acknowledged chunks are at the broker, so every object arrives.
func TestCuttingNetwork(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		bad := newProxy(t, b.addr())
		bad.set(70_001, time.Millisecond)
		p := newPipeline(t, "tcp://"+bad.addr(), b.url())
		go func() {
			for bad.cuts.Load() < 2 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			bad.set(0, 0)
		}()
		p.sendAll(t, 8, func() {})
		p.awaitAll(t, 8)
		if bad.cuts.Load() < 2 || bad.opened.Load() < 3 {
			t.Errorf("%d cuts, %d connections: the test tested nothing", bad.cuts.Load(), bad.opened.Load())
		}
	})
}

// TestStallingNetwork: a connection that takes no more bytes is given up after
// the write timeout, and everything is sent again on the next one.
func TestStallingNetwork(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t, nil)
	bad := newProxy(t, e.addr())
	recv := newInbox()
	sub := dial(t, Options{URL: e.url(), ClientID: "receiver", MaxInbound: 16 << 20})
	if err := sub.Subscribe(testCtx(t), "q", recv.take); err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 10)
	pub := dial(t, Options{URL: "tcp://" + bad.addr(), ClientID: "sender", writeTimeout: 2 * time.Second, OnLost: func(err error) { lost <- err }})
	end := bad.stall()
	big := pattern(4 << 20) // three are more than the buffers on the way hold
	var g errgroup.Group
	for i := range 3 {
		g.Go(func() error { return pub.Publish(testCtx(t), "q", big[i:], false) })
	}
	<-lost
	end()
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
	ctx, cancel := context.WithTimeout(testCtx(t), 100*time.Millisecond)
	defer cancel()
	if err := p.sender.Send(ctx, "up/0", pattern(100_000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sent to nobody: %v", err)
	}
	if err := p.pub.Publish(ctx, "up/0", nil, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("published to nobody: %v", err)
	}
	e.start(t)
	if err := p.sender.Send(testCtx(t), "up/0", pattern(100_000)); err != nil {
		t.Error(err)
	}
	// Close drains: with nothing outstanding it succeeds, and Send fails after.
	if err := p.pub.Close(testCtx(t)); err != nil {
		t.Error(err)
	}
	if err := p.sender.Send(testCtx(t), "up/0", pattern(100_000)); !errors.Is(err, ErrClosed) {
		t.Errorf("sent after close: %v", err)
	}
}

// TestCloseDrains: messages that are under way when Close is called arrive.
func TestCloseDrains(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		slow := newProxy(t, b.addr())
		p := newPipeline(t, "tcp://"+slow.addr(), b.url())
		slow.set(0, 2*time.Millisecond)
		c := p.pub.(*client)
		result := make(chan error, 1)
		go func() { result <- p.pub.Publish(testCtx(t), "up/0", chunksOf(t, pattern(200_000), 256<<10)[0], false) }()
		eventually(t, "the message to be under way", func() bool { n, _ := c.out.pending(); return n == 1 })
		if err := p.pub.Close(testCtx(t)); err != nil {
			t.Error(err)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
		eventually(t, "the message", func() bool { return p.got.count("up/0") == 1 })
		if p.pub.Connected() {
			t.Error("still connected")
		}
	})
}

// TestWindow: no more chunks and bytes than the window are ever in flight, over
// concurrent Sends.
func TestWindow(t *testing.T) {
	c := &countingClient{gate: make(chan struct{})}
	s, err := NewSender(c, 4096, Window{Chunks: 3, Bytes: 9000})
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	for i := range 4 {
		g.Go(func() error { return s.Send(testCtx(t), upTopic(i), pattern(30_000)) })
	}
	// Chunks of 3750 bytes: two fit the bytes of the window.
	eventually(t, "a full window", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now == 2
	})
	go func() {
		for range 4 * 8 {
			c.gate <- struct{}{}
		}
	}()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if c.most != 2 || c.mostBytes > 9000 {
		t.Errorf("%d chunks, %d bytes in flight", c.most, c.mostBytes)
	}
	c.fail = errors.New("no")
	go func() { close(c.gate) }()
	if err := s.Send(testCtx(t), "up/0", pattern(30_000)); !errors.Is(err, c.fail) {
		t.Error(err)
	}
	if _, err := NewSender(c, 10); err == nil {
		t.Error("tiny chunks were accepted")
	}
}

type countingClient struct {
	mu                          sync.Mutex
	now, most, bytes, mostBytes int
	gate                        chan struct{}
	fail                        error
}

func (c *countingClient) Publish(ctx context.Context, _ string, payload []byte, _ bool) error {
	c.mu.Lock()
	c.now++
	c.bytes += len(payload)
	c.most, c.mostBytes = max(c.most, c.now), max(c.mostBytes, c.bytes)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.bytes -= len(payload)
		c.mu.Unlock()
	}()
	select {
	case <-c.gate:
		return c.fail
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *countingClient) Subscribe(context.Context, string, func(Delivery)) error { return nil }
func (c *countingClient) Connected() bool                                         { return true }
func (c *countingClient) Close(context.Context) error                             { return nil }

// TestBadMessagesDoNotDisturb sends every kind of bad message through a broker
// among good ones: each is counted under its own reason, and every good object
// arrives.
func TestBadMessagesDoNotDisturb(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		ctx := testCtx(t)
		o := testOptions(t)
		o.MaxObject = 50_000
		v := testVerifier(t, o)
		var mu sync.Mutex
		opened := map[uint64]bool{}
		recv := NewReceiver(Limits{MaxObject: 60_000}, func(topic string, sealed []byte) error {
			obj, err := v.OpenFrom(topic, sealed)
			if err != nil {
				return nil // counted by the verifier
			}
			mu.Lock()
			defer mu.Unlock()
			opened[obj.Meta.Sequence] = true
			return nil
		})
		var clientCounters Counters
		sub := dial(t, Options{URL: b.url(), ClientID: "receiver", MaxInbound: 64 << 10, Counters: &clientCounters})
		if err := sub.Subscribe(ctx, ReadingFilter(DefaultPrefix), recv.Handle); err != nil {
			t.Fatal(err)
		}
		pub := dial(t, Options{URL: b.url(), ClientID: "sender"})
		sender, err := NewSender(pub, 4096)
		if err != nil {
			t.Fatal(err)
		}
		board, topic := testKey(t, "board-7"), ReadingTopic(DefaultPrefix, "board-7", "vibration")
		object := func(seq uint64, f func(*Meta)) []byte {
			m := testReading(seq)
			if f != nil {
				f(&m)
			}
			return mustSeal(t, m, pattern(9000), board)
		}
		raw := func(b []byte) func() error { return func() error { return pub.Publish(ctx, topic, b, false) } }
		send := func(b []byte) func() error { return func() error { return sender.Send(ctx, topic, b) } }
		arrived := func(seq uint64) bool {
			mu.Lock()
			defer mu.Unlock()
			return opened[seq]
		}
		replay := object(1000, nil)
		first := func() error { // handlers run concurrently: the second delivery must come after the first
			eventually(t, "the object to be replayed", func() bool { return arrived(1000) })
			return nil
		}
		flipped := object(1001, nil)
		flipped[len(flipped)-1000] ^= 1
		chunks := chunksOf(t, object(1002, nil), 4096)
		oldMeta := testReading(1003)
		oldBytes, err := marshalMeta(&oldMeta, 0)
		if err != nil {
			t.Fatal(err)
		}
		downgraded, err := sealRaw(oldBytes, pattern(100), board, algEd25519)
		if err != nil {
			t.Fatal(err)
		}
		conflicting, err := UnmarshalChunk(bytes.Clone(chunks[0]), 0)
		if err != nil {
			t.Fatal(err)
		}
		conflicting.Data[0] ^= 1
		conflict, err := conflicting.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		bad := []struct {
			reason string
			c      *Counters
			send   []func() error
		}{
			{"malformed", recv.Counters(), []func() error{raw([]byte("nonsense")), raw([]byte{0xff})}},
			{"truncated", recv.Counters(), []func() error{raw(nil), raw(chunks[0][:2000])}},
			{"too_large", recv.Counters(), []func() error{send(pattern(60_001))}},
			{"too_large", &clientCounters, []func() error{raw(make([]byte, 65<<10))}},
			{"too_large", o.Counters, []func() error{send(pattern(50_001))}},
			{"conflict", recv.Counters(), []func() error{raw(chunks[0]), raw(conflict)}},
			{"replayed", recv.Counters(), []func() error{send(replay), first, send(replay)}},
			{"bad_signature", o.Counters, []func() error{send(flipped)}},
			{"unknown_signer", o.Counters, []func() error{send(object(1, func(m *Meta) { m.Device = "board-8" }))}},
			{"wrong_key", o.Counters, []func() error{send(object(2, func(m *Meta) { m.KeyID[3]++ }))}},
			{"wrong_epoch", o.Counters, []func() error{send(object(3, func(m *Meta) { m.KeyEpoch = 9 }))}},
			{"wrong_params", o.Counters, []func() error{send(object(4, func(m *Meta) { m.Params[3]++ }))}},
			{"wrong_layout", o.Counters, []func() error{send(object(5, func(m *Meta) { m.Layout[3]++ }))}},
			{"wrong_topic", o.Counters, []func() error{send(object(6, func(m *Meta) { m.Stream = "other" }))}},
			{"downgraded", o.Counters, []func() error{send(downgraded)}},
		}
		for i, tc := range bad {
			before := tc.c.Refused(tc.reason)
			for _, f := range tc.send {
				if err := f(); err != nil {
					t.Fatalf("%s: %v", tc.reason, err)
				}
			}
			seq := uint64(2000 + i)
			if err := sender.Send(ctx, topic, object(seq, nil)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "refusal as "+tc.reason, func() bool { return tc.c.Refused(tc.reason) > before })
			eventually(t, "the good object after "+tc.reason, func() bool { return arrived(seq) })
		}
	})
}
