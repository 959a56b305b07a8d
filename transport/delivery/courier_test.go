package delivery

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/spool"
)

func testKey(t testing.TB, name string) *transport.SigningKey {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	k, err := transport.SigningKeyFromSeed(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func dial(t testing.TB, url, id string) transport.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
	defer cancel()
	c, err := mqtt.Dial(ctx, mqtt.Options{URL: url, ClientID: id, Logger: testrig.Quiet(), MaxInbound: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// farEnd is a receiver that signs receipts. swallow says for each chunk whether
// it is lost on the way.
type farEnd struct {
	t       testing.TB
	client  transport.Client
	key     *transport.SigningKey
	rx      *transport.Receiver
	swallow func(c *transport.Chunk) bool
	outcome func(id [32]byte) transport.ReceiptItem  // of what came, also when it is asked for; nil: taken
	asked   func(id [32]byte) *transport.ReceiptItem // answers asks; nil, or gives nil: what is the case

	mu     sync.Mutex
	got    [][]byte
	taken  map[[32]byte]bool
	chunks map[[32]byte]int
	seq    atomic.Uint64
	asks   atomic.Int64
}

func newFarEnd(t testing.TB, url string) *farEnd {
	e := &farEnd{t: t, client: dial(t, url, "cloud"), key: testKey(t, "cloud"), taken: map[[32]byte]bool{},
		chunks: map[[32]byte]int{}}
	e.rx = transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		sealed := s.Sealed
		id := transport.ObjectID(sealed)
		e.mu.Lock()
		e.got, e.taken[id] = append(e.got, sealed), true
		e.mu.Unlock()
		go e.send("board", e.of(id))
		return nil
	})
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{"board": testKey(t, "board").Public()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, Kinds: []transport.Kind{transport.KindAsk}})
	if err != nil {
		t.Fatal(err)
	}
	subscribe := func(topic string, h func(transport.Delivery)) {
		ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
		defer cancel()
		if err := e.client.Subscribe(ctx, topic, h); err != nil {
			t.Fatal(err)
		}
	}
	subscribe(transport.DefaultPrefix+"/up/+/+", e.chunk)
	subscribe(transport.AskTopic(transport.DefaultPrefix, "board"), func(d transport.Delivery) {
		defer d.Ack()
		e.asks.Add(1)
		if err := e.answer(v, d); err != nil {
			t.Error(err)
		}
	})
	return e
}

// chunk takes a chunk, unless it is lost on the way.
func (e *farEnd) chunk(d transport.Delivery) {
	defer d.Ack()
	c, err := transport.UnmarshalChunk(d.Payload, 0)
	if err != nil {
		e.t.Error(err)
		return
	}
	e.mu.Lock()
	e.chunks[c.Object]++
	e.mu.Unlock()
	if e.swallow != nil && e.swallow(c) {
		return
	}
	if err := e.rx.Feed(d.Topic, d.Payload); err != nil && !errors.Is(err, transport.ErrReplayed) {
		e.t.Error(err)
	}
}

// answer answers an ask, item by item.
func (e *farEnd) answer(v *transport.Verifier, d transport.Delivery) error {
	sealed, err := transport.ReadWhole(d.Payload, 0)
	if err != nil {
		return err
	}
	obj, err := v.OpenFrom(d.Topic, sealed)
	if err != nil {
		return err
	}
	a, err := transport.UnmarshalAsk(obj.Body)
	if err != nil {
		return err
	}
	for _, it := range a.Items {
		if e.asked != nil {
			if out := e.asked(it.Object); out != nil {
				e.send("board", *out)
				continue
			}
		}
		e.mu.Lock()
		taken := e.taken[it.Object]
		e.mu.Unlock()
		if taken {
			e.send("board", e.of(it.Object))
		} else {
			e.send("board", e.rx.Progress(it.Topic, it.Object, it.Total, it.Size))
		}
	}
	return nil
}

// of returns what became of an object that came.
func (e *farEnd) of(id [32]byte) transport.ReceiptItem {
	if e.outcome != nil {
		return e.outcome(id)
	}
	return transport.ReceiptItem{Object: id, Outcome: transport.Taken}
}

func (e *farEnd) send(to string, it transport.ReceiptItem) {
	payload, err := transport.SealReceipt(transport.Receipt{To: to, Items: []transport.ReceiptItem{it}}, "cloud", e.key,
		time.Now(),
		func() (uint64, uint64) { return 1, e.seq.Add(1) })
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), testrig.Patience)
		defer cancel()
		err = e.client.Publish(ctx, transport.ReceiptTopic(transport.DefaultPrefix, "board"), payload, false)
	}
	if err != nil && e.t.Context().Err() == nil {
		e.t.Error(err)
	}
}

func object(seed uint64, size int) []byte {
	rng := mathrand.New(mathrand.NewPCG(seed, 0))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func courier(t testing.TB, s *spool.Spool, c transport.Client, change func(*Options)) *Courier {
	t.Helper()
	var seq atomic.Uint64
	o := Options{Spool: s, Client: c, Name: "board", Key: testKey(t, "board"), Level: Receiver,
		Number:    func() (uint64, uint64, error) { return 1, seq.Add(1), nil },
		Receivers: map[string][]ed25519.PublicKey{"cloud": {testKey(t, "cloud").Public()}},
		Receipt:   400 * time.Millisecond, First: 10 * time.Millisecond, Last: 100 * time.Millisecond,
		Clock: role.SystemClock(), Logger: testrig.Quiet()}
	if change != nil {
		change(&o)
	}
	cr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return cr
}

func run(t testing.TB, c *Courier) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
	defer cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("not delivered in time: %+v", c.Stats())
	}
}

// started runs c in the background. stop ends it, and fails the test if Run fails.
func started(t testing.TB, c *Courier) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// opened are the spools that hold a directory; opening it again stands for the next
// process.
var opened sync.Map // directory to *spool.Spool

func newSpool(t testing.TB, dir string) *spool.Spool {
	t.Helper()
	if before, ok := opened.LoadAndDelete(dir); ok {
		before.(*spool.Spool).Release()
	}
	s, err := spool.Open(spool.Options{Dir: dir, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	opened.Store(dir, s)
	return s
}

func put(t testing.TB, s *spool.Spool, stream string, sealed []byte) {
	t.Helper()
	if err := s.Put(t.Context(), spool.Item{Stream: stream, Topic: transport.ReadingTopic(transport.DefaultPrefix,
		"board", stream), Sealed: sealed}); err != nil {
		t.Fatal(err)
	}
}

// Objects of 3 MiB pass brokers with every limit, each chunk below it, in order
// per stream, and leave the spool on their receipts.
func TestBrokerLimits(t *testing.T) {
	for _, c := range []struct {
		limit int
		chunk int
	}{{128 << 10, 112 << 10}, {256 << 10, 240 << 10}, {1 << 20, 1000 << 10}} {
		for _, kind := range []string{"embedded", "mosquitto"} {
			t.Run(fmt.Sprintf("%s-%dKiB", kind, c.limit>>10), func(t *testing.T) {
				url := ""
				if kind == "embedded" {
					url = testrig.Broker(t, broker.Options{MaxPacket: c.limit}).URL()
				} else {
					url = limited(t, c.limit)
				}
				end := newFarEnd(t, url)
				s := newSpool(t, t.TempDir())
				var sent [][]byte
				for i := range 3 {
					sent = append(sent, object(uint64(i), 3<<20))
					put(t, s, "env", sent[i])
				}
				s.Close()
				cr := courier(t, s, dial(t, url, "board"), func(o *Options) {
					o.ChunkSize, o.Receipt = c.chunk, time.Minute
				})
				run(t, cr)
				if len(end.got) != 3 {
					t.Fatalf("%d objects", len(end.got))
				}
				for i := range sent {
					if !bytes.Equal(end.got[i], sent[i]) {
						t.Errorf("object %d is another one", i)
					}
				}
				if st := cr.Stats(); st.Delivered != 3 || st.Retries != 0 || st.Asks != 0 || s.Stats().Objects != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// limited returns a mosquitto that takes messages of so many bytes.
func limited(t *testing.T, limit int) string {
	t.Helper()
	return mosquitto.Start(t, nil, fmt.Sprintf("allow_anonymous true\nmessage_size_limit %d\nlog_type none\n",
		limit)).URL
}

// Chunks that were lost on the way are sent again, and only those.
func TestResume(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	lost := map[int]bool{2: true, 5: true}
	var mu sync.Mutex
	end.swallow = func(c *transport.Chunk) bool {
		mu.Lock()
		defer mu.Unlock()
		gone := lost[c.Index]
		delete(lost, c.Index)
		return gone
	}
	s := newSpool(t, t.TempDir())
	sealed := object(1, 100_000)
	put(t, s, "env", sealed)
	s.Close()
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) { o.ChunkSize = 10 << 10 })
	run(t, cr)
	st := cr.Stats()
	if len(end.got) != 1 || !bytes.Equal(end.got[0], sealed) || st.Delivered != 1 {
		t.Fatalf("%d objects, %+v", len(end.got), st)
	}
	pieces, _ := transport.Split(sealed, 10<<10)
	if n := end.chunks[transport.ObjectID(sealed)]; n != len(pieces)+2 || st.Skipped != uint64(len(pieces)-2) {
		t.Errorf("%d chunks were sent for an object of %d; %+v", n, len(pieces), st)
	}
}

// After a restart the sender asks before it sends: an object whose receipt was
// lost costs one question, one that is there in part its missing chunks.
func TestRestartAsksFirst(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	dir := t.TempDir()
	s := newSpool(t, dir)
	taken, partial, fresh := object(1, 50_000), object(2, 50_000), object(3, 50_000)
	for i, o := range [][]byte{taken, partial, fresh} {
		put(t, s, fmt.Sprint("s", i), o)
	}
	client := dial(t, b.URL(), "board")
	sender, err := transport.NewSender(client, 10<<10)
	if err != nil {
		t.Fatal(err)
	}
	topic := func(i int) string {
		return transport.ReadingTopic(transport.DefaultPrefix, "board", fmt.Sprint("s", i))
	}
	if err := sender.Send(t.Context(), topic(0), taken); err != nil {
		t.Fatal(err)
	}
	pieces, err := transport.Split(partial, 10<<10)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.SendChunks(t.Context(), topic(1), pieces[:3]); err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "one object and three chunks of another", func() bool {
		end.mu.Lock()
		defer end.mu.Unlock()
		return end.taken[transport.ObjectID(taken)] && end.chunks[transport.ObjectID(partial)] == 3
	})
	s = newSpool(t, dir) // the process is another one now
	s.Close()
	cr := courier(t, s, client, func(o *Options) { o.ChunkSize, o.Receipt = 10<<10, time.Minute })
	run(t, cr)
	st := cr.Stats()
	if len(end.got) != 3 || st.Delivered != 3 || st.Asks != 3 || st.Skipped != 3 || st.Before != 1 {
		t.Errorf("%d objects, %+v", len(end.got), st)
	}
	if n := end.chunks[transport.ObjectID(taken)]; n != len(pieces) {
		t.Errorf("an object that was there was sent again: %d chunks", n)
	}
	if n := end.chunks[transport.ObjectID(partial)]; n != len(pieces) {
		t.Errorf("an object that was there in part took %d chunks", n)
	}
}

// A receipt counts whenever it comes: for objects that wait for their next attempt, and
// for some that this process has not sent yet. None of them is asked for or sent again.
func TestReceiptDuringBackoff(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	end.swallow = func(*transport.Chunk) bool { return true }
	s := newSpool(t, t.TempDir())
	var ids [][32]byte
	for i := range 3 {
		o := object(uint64(i), 2000)
		ids = append(ids, transport.ObjectID(o))
		put(t, s, fmt.Sprint("s", i), o)
	}
	unsent := object(9, 2000) // behind another of its stream
	put(t, s, "s0", unsent)
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) {
		o.Receipt, o.First, o.Last = 50*time.Millisecond,
			time.Hour, time.Hour
	})
	stop := started(t, cr)
	defer stop()
	testrig.Eventually(t, "all wait for their next attempt", func() bool { return cr.Stats().Retries == 3 })
	payload, err := transport.SealReceipt(transport.Receipt{To: "board", Items: []transport.ReceiptItem{
		{Object: ids[1], Outcome: transport.Taken}, {Object: ids[0], Outcome: transport.Taken},
		{Object: transport.ObjectID(unsent), Outcome: transport.Taken},
		{Object: ids[2], Outcome: transport.Refused, Reason: transport.ReasonBusy}}}, "cloud", end.key, time.Now(),
		func() (uint64, uint64) { return 1, 1 })
	if err != nil {
		t.Fatal(err)
	}
	if err := end.client.Publish(t.Context(), transport.ReceiptTopic(transport.DefaultPrefix, "board"), payload,
		false); err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "what was receipted leaves", func() bool { return cr.Stats().Delivered == 3 })
	stop()
	if st := cr.Stats(); st.Asks != 0 || s.Stats().Objects != 1 {
		t.Errorf("%+v, %d objects are left", st, s.Stats().Objects)
	}
}

// Streams whose receiver is silent, however many and however old their objects are, keep
// no other stream waiting; one turn is enough for all.
func TestSilentStreams(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	s := newSpool(t, t.TempDir())
	silent := map[[32]byte]bool{}
	for i := range 12 {
		o := object(uint64(100+i), 2000)
		silent[transport.ObjectID(o)] = true
		put(t, s, fmt.Sprintf("silent%d", i), o)
	}
	end.swallow = func(c *transport.Chunk) bool { return silent[c.Object] }
	end.asked = func(id [32]byte) *transport.ReceiptItem {
		if silent[id] {
			return &transport.ReceiptItem{Object: id, Outcome: transport.Working}
		}
		return nil
	}
	const many = 20
	for i := range many {
		put(t, s, "env", object(uint64(i), 2000))
	}
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) { o.Objects, o.Receipt = 1, time.Minute })
	stop := started(t, cr)
	defer stop()
	testrig.Eventually(t, "the objects of the other stream", func() bool { return cr.Stats().Delivered >= many })
	stop()
	if st := cr.Stats(); st.Delivered != many || s.Stats().Objects != len(silent) {
		t.Errorf("%+v", st)
	}
}

// A refusal that a configuration can cure keeps the object and lets later ones
// pass; one that nothing cures drops it.
func TestRefusals(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	bad, used, good := object(1, 5000), object(2, 5000), object(3, 5000)
	end.outcome = func(id [32]byte) transport.ReceiptItem {
		switch id {
		case transport.ObjectID(bad):
			return transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: "wrong_layout",
				Detail: "streams[0].params: here x, there y"}
		case transport.ObjectID(used):
			return transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: "replayed"}
		}
		return transport.ReceiptItem{Object: id, Outcome: transport.Taken}
	}
	s := newSpool(t, t.TempDir())
	for _, o := range [][]byte{bad, used, good} {
		put(t, s, "env", o)
	}
	var left sync.Map
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) {
		o.Held, o.Receipt = time.Hour, time.Minute
		o.Before = func(l *spool.Lease) error { left.Store(l.ID, true); return nil }
	})
	stop := started(t, cr)
	defer stop()
	testrig.Eventually(t, "the good object", func() bool { return cr.Stats().Delivered > 0 })
	stop()
	st := cr.Stats()
	if st.Delivered != 1 || st.Refused != 1 || st.Dropped != 1 || s.Stats().Objects != 1 {
		t.Fatalf("%+v, %+v", st, s.Stats())
	}
	if left := s.Entries(); left[0].ID != transport.ObjectID(bad) {
		t.Error("another object is left")
	}
	for i, o := range [][]byte{bad, used, good} { // Before knows of all that leave
		if _, told := left.Load(transport.ObjectID(o)); told != (i > 0) {
			t.Errorf("object %d: told that it leaves: %v", i+1, told)
		}
	}
}

// Where receivers have keys of their own, one that has not the key of an object cannot
// refuse it in the name of the one that has, neither at once nor when it is asked.
func TestSharedRefusals(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	sealed := object(1, 5000)
	id := transport.ObjectID(sealed)
	var asks atomic.Int64
	end.outcome = func([32]byte) transport.ReceiptItem {
		return transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: "wrong_key"}
	}
	end.asked = func([32]byte) *transport.ReceiptItem {
		if asks.Add(1) == 1 {
			return &transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: "wrong_params"}
		}
		return &transport.ReceiptItem{Object: id, Outcome: transport.Taken}
	}
	s := newSpool(t, t.TempDir())
	put(t, s, "env", sealed)
	s.Close()
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) { o.Shared, o.Held = true, time.Hour })
	run(t, cr)
	if st := cr.Stats(); st.Delivered != 1 || st.Refused != 0 || st.Asks < 2 { // more where an answer is late
		t.Errorf("%+v", st)
	}
}

// Receipts that are not signed by a trusted receiver, or not for this sender,
// delete nothing.
func TestForgedReceipts(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	end.swallow = func(*transport.Chunk) bool { return true }
	s := newSpool(t, t.TempDir())
	sealed := object(1, 5000)
	put(t, s, "env", sealed)
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) { o.Receipt = time.Hour })
	stop := started(t, cr)
	defer stop()
	it := transport.ReceiptItem{Object: transport.ObjectID(sealed), Outcome: transport.Taken}
	testrig.Eventually(t, "three forged receipts", func() bool {
		end.key = testKey(t, "mallory")
		end.send("board", it)
		end.key = testKey(t, "cloud")
		payload, err := transport.SealReceipt(transport.Receipt{To: "other", Items: []transport.ReceiptItem{it}},
			"cloud", end.key, time.Now(),
			func() (uint64, uint64) { return 1, end.seq.Add(1) })
		if err == nil {
			err = end.client.Publish(t.Context(), transport.ReceiptTopic(transport.DefaultPrefix, "board"), payload,
				false)
		}
		if err == nil {
			err = end.client.Publish(t.Context(), transport.ReceiptTopic(transport.DefaultPrefix, "board"),
				[]byte("rubbish"), false)
		}
		if err != nil {
			t.Fatal(err)
		}
		return cr.Stats().Forged >= 3
	})
	if st := cr.Stats(); st.Forged < 3 || st.Delivered != 0 || s.Stats().Objects != 1 {
		t.Errorf("%+v", st)
	}
	stop()
}

// Receipts of a receiver that runs another version of the program are told as that.
func TestUnreadableReceipts(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	end.swallow = func(*transport.Chunk) bool { return true }
	s := newSpool(t, t.TempDir())
	sealed := object(1, 5000)
	put(t, s, "env", sealed)
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) { o.Receipt = time.Hour })
	stop := started(t, cr)
	defer stop()
	other, err := transport.Seal(transport.Meta{Kind: transport.KindReceipt, Device: "cloud", BootEpoch: 1,
		Sequence: 1}, []byte{0xa1, 0x00, 0x09}, end.key)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := transport.Whole(other, 0)
	if err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "an unreadable receipt", func() bool {
		if err := end.client.Publish(t.Context(), transport.ReceiptTopic(transport.DefaultPrefix, "board"), payload,
			false); err != nil {
			t.Fatal(err)
		}
		return cr.Stats().Unreadable != ""
	})
	testrig.Eventually(t, "a delivery", func() bool {
		end.send("board", transport.ReceiptItem{Object: transport.ObjectID(sealed), Outcome: transport.Taken})
		return cr.Stats().Delivered > 0
	})
	if st := cr.Stats(); st.Unreadable != "" || st.Delivered != 1 {
		t.Errorf("%+v", st)
	}
	stop()
}
