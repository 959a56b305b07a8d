package delivery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/spool"
)

// fakeClient acknowledges at once and writes down in what order.
type fakeClient struct {
	mu    sync.Mutex
	order []string
	bytes int
	fail  func(n int) error
	n     int
}

func (c *fakeClient) Publish(ctx context.Context, topic string, payload []byte, _ bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.fail != nil {
		if err := c.fail(c.n); err != nil {
			return err
		}
	}
	ch, err := transport.UnmarshalChunk(payload, 0)
	if err != nil {
		return err
	}
	c.order = append(c.order, fmt.Sprintf("%s:%d", filepath.Base(topic), ch.Data[0]))
	c.bytes += len(payload)
	return ctx.Err()
}
func (*fakeClient) Subscribe(context.Context, string, func(transport.Delivery)) error { return nil }
func (*fakeClient) Connected() bool                                                   { return true }
func (*fakeClient) Close(context.Context) error                                       { return nil }

// With a share for live data the young objects of a stream go in their order
// between the old ones, which go in theirs, and take their share of the bytes.
func TestLiveShare(t *testing.T) {
	clock := &testrig.Clock{}
	s, err := spool.Open(spool.Options{Mono: clock.Mono, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	numbered := func(n byte) []byte { return append([]byte{n}, make([]byte, 2000)...) }
	for i := range 40 {
		put(t, s, "env", numbered(byte(i)))
	}
	_ = clock.Sleep(t.Context(), time.Hour)
	for i := 40; i < 60; i++ {
		put(t, s, "env", numbered(byte(i)))
	}
	s.Close()
	client := &fakeClient{}
	cr := courier(t, s, client, func(o *Options) {
		o.Level, o.Share, o.Live, o.Clock, o.Objects = Broker, 0.25, time.Minute, clock, 1
	})
	run(t, cr)
	var old, young []string
	youngFirst := 0
	for i, text := range client.order {
		n := 0
		fmt.Sscanf(text, "env:%d", &n)
		if n < 40 {
			old = append(old, fmt.Sprintf("%02d", n))
			continue
		}
		young = append(young, fmt.Sprintf("%02d", n))
		if i < 20 {
			youngFirst++
		}
	}
	if !slices.IsSorted(old) || !slices.IsSorted(young) || len(old) != 40 || len(young) != 20 {
		t.Errorf("old %v, young %v", old, young)
	}
	if youngFirst < 4 || youngFirst > 6 {
		t.Errorf("%d of the first 20 are live, want a quarter: %v", youngFirst, client.order)
	}
	if st := cr.Stats(); st.Live < 10 || st.Delivered != 60 {
		t.Errorf("%+v", st)
	}
}

// The cap holds on the way out, failures are tried again in order, and nothing
// goes outside the hours.
func TestBandwidthHoursAndRetries(t *testing.T) {
	clock := testrig.NewClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	s, err := spool.Open(spool.Options{Mono: clock.Mono, Now: clock.Now, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		put(t, s, "env", append([]byte{byte(i)}, make([]byte, 5000)...))
	}
	s.Close()
	client := &fakeClient{}
	var first time.Time
	client.fail = func(n int) error {
		if first.IsZero() {
			first = clock.Now()
		}
		if n%3 == 0 {
			return errors.New("the network is away")
		}
		return nil
	}
	cr := courier(t, s, client, func(o *Options) {
		o.Level, o.Rate, o.Burst, o.Clock = Broker, 1000, 1000, clock
		o.Hours = []Hours{{From: 22 * time.Hour, To: 24 * time.Hour, Zone: time.UTC}}
	})
	run(t, cr)
	if want := time.Date(2026, 3, 2, 22, 0, 0, 0, time.UTC); first.Before(want) ||
		first.After(want.Add(2*time.Minute)) {
		t.Errorf("sent first at %v", first)
	}
	if took := clock.Now().Sub(first); took < 45*time.Second {
		t.Errorf("50 kB at 1 kB/s took %v", took)
	}
	for i, text := range client.order {
		if text != fmt.Sprintf("env:%d", i) {
			t.Fatalf("order %v", client.order)
		}
	}
	if st := cr.Stats(); st.Retries < 3 || st.Throttled < 30*time.Second || st.Delivered != 10 {
		t.Errorf("%+v", st)
	}
}

// busyClient counts the messages that are not acknowledged at a time.
type busyClient struct {
	fakeClient
	now, most atomic.Int64
}

func (c *busyClient) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	testrig.Poll(func() bool { return c.most.Load() >= 8 || ctx.Err() != nil }) // all that may be
	time.Sleep(2 * time.Millisecond)
	if strings.Contains(topic, "/ask/") {
		return nil
	}
	return c.fakeClient.Publish(ctx, topic, payload, retain)
}

// Whatever is under way, at most eight chunks and one question are
// unacknowledged: with a status message ten, the least Receive Maximum.
func TestInFlight(t *testing.T) {
	dir := t.TempDir()
	s := newSpool(t, dir)
	for i := range 12 {
		put(t, s, fmt.Sprint("s", i), object(uint64(i), 60_000))
	}
	s = newSpool(t, dir) // so that questions come first
	for i := range 12 {
		put(t, s, fmt.Sprint("s", i), object(uint64(100+i), 60_000))
	}
	client := &busyClient{}
	cr := courier(t, s, client, func(o *Options) {
		o.ChunkSize, o.Objects, o.Receipt = 4<<10, 12, 100*time.Millisecond
		o.Levels = map[string]Level{}
		for i := range 6 {
			o.Levels[fmt.Sprint("s", i)] = Broker
		}
	})
	stop := started(t, cr)
	defer stop()
	testrig.Eventually(t, "questions and deliveries", func() bool {
		st := cr.Stats()
		return st.Asks > 0 &&
			st.Delivered >= 12
	})
	stop()
	if most := client.most.Load(); most > 9 || most < 8 {
		t.Errorf("%d messages at a time, want 8 or 9", most)
	}
	if st := cr.Stats(); st.Asks == 0 || st.Delivered < 12 {
		t.Errorf("%+v", st)
	}
}

// A client that is closed ends the run with an error; the objects stay.
func TestClosedClient(t *testing.T) {
	s := newSpool(t, t.TempDir())
	put(t, s, "env", object(1, 2000))
	client := &fakeClient{fail: func(int) error { return transport.ErrClosed }}
	cr := courier(t, s, client, func(o *Options) { o.Level = Broker })
	if err := cr.Run(t.Context()); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if s.Stats().Objects != 1 {
		t.Error("the object is gone")
	}
}

// What this configuration cannot send stays on disk for another one, and holds nothing
// up; without a disk it is dropped.
func TestCannotBeSent(t *testing.T) {
	for _, dir := range []string{t.TempDir(), ""} {
		s := newSpool(t, dir)
		for i := range 2 {
			put(t, s, "env", append([]byte{byte(i)}, make([]byte, 2000)...))
		}
		client := &fakeClient{fail: func(n int) error {
			if n == 1 {
				return transport.ErrTooLarge
			}
			return nil
		}}
		cr := courier(t, s, client, func(o *Options) { o.Level, o.Held = Broker, time.Hour })
		stop := started(t, cr)
		defer stop()
		testrig.Eventually(t, "a delivery", func() bool { return cr.Stats().Delivered > 0 })
		stop()
		st, left := cr.Stats(), s.Stats().Objects
		if dir != "" && (st.Refused != 1 || st.Dropped != 0 || left != 1) || dir == "" &&
			(st.Refused != 0 || st.Dropped != 1 || left != 0) {
			t.Errorf("spool %q: %+v, %d left", dir, st, left)
		}
	}
}

// lateClient is a client whose subscriptions take until made is closed.
type lateClient struct {
	transport.Client
	made chan struct{}
	sent atomic.Int64
}

func (c *lateClient) Subscribe(ctx context.Context, filter string, h func(transport.Delivery)) error {
	select {
	case <-c.made:
		return c.Client.Subscribe(ctx, filter, h)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *lateClient) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	c.sent.Add(1)
	return c.Client.Publish(ctx, topic, payload, retain)
}

// What is answered by a receipt waits for the subscription to receipts, or the answer would
// find nobody. What the broker alone acknowledges does not wait.
func TestSubscribesFirst(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	newFarEnd(t, b.URL())
	s := newSpool(t, t.TempDir())
	for i := range 5 { // one more than may be sent at a time
		put(t, s, "env", object(uint64(i), 2000))
	}
	put(t, s, "status", object(5, 2000))
	client := &lateClient{Client: dial(t, b.URL(), "board"), made: make(chan struct{})}
	cr := courier(t, s, client, func(o *Options) {
		o.Receipt, o.Levels = time.Minute, map[string]Level{"status": Broker}
	})
	stop := started(t, cr)
	defer stop()
	testrig.Eventually(t, "what needs no receipt", func() bool { return cr.Stats().Delivered == 1 })
	if n := client.sent.Load(); n != 1 {
		t.Errorf("%d messages before the subscription was made, want 1", n)
	}
	close(client.made)
	testrig.Eventually(t, "the rest", func() bool { return cr.Stats().Delivered == 6 })
	stop()
	if st := cr.Stats(); st.Retries != 0 {
		t.Errorf("%+v", st)
	}
}
