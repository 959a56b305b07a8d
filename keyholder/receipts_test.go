package keyholder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
)

// receiptRig is a key set, an evaluator that asks for receipts, and a key holder that is
// started again and again on one state.
type receiptRig struct {
	t       *testing.T
	broker  *broker.Broker
	set     *Set
	key     *transport.SigningKey // the evaluator's
	good    *cloud
	state   string
	client  transport.Client // the evaluator's
	sender  *transport.Sender
	asks    uint64
	items   <-chan transport.ReceiptItem
	given   chan []byte // receipts that were published, as sealed objects
	read    chan [32]byte
	refused chan error
	starts  int
	current *Reader
}

func newReceiptRig(t *testing.T) *receiptRig {
	t.Helper()
	r := &receiptRig{t: t, broker: testrig.Broker(t, broker.Options{}), set: newSet(t), key: signingKey(t),
		state: filepath.Join(t.TempDir(), "state"), read: make(chan [32]byte, 16), refused: make(chan error, 16),
		given: make(chan []byte, 64)}
	r.good = newCloud(t, r.set, r.set.manifest.Current(), r.key)
	r.client = dial(t, r.broker, "cloud")
	r.items = listener(t, r.set, r.client)
	var err error
	if r.sender, err = transport.NewSender(r.client, 0); err != nil {
		t.Fatal(err)
	}
	return r
}

// meanTopic carries the results of the program "mean".
const meanTopic = "hencedge/v1/res/mean"

// start runs the key holder in a process of its own until end is called.
func (r *receiptRig) start() (end func()) {
	r.t.Helper()
	r.starts++
	rc, err := NewReceipts(r.set, ReceiptOptions{Client: dial(r.t, r.broker, fmt.Sprint("holder", r.starts)),
		Evaluators: trust(r.key), State: r.state, Logger: testrig.Quiet()})
	if err != nil {
		r.t.Fatal(err)
	}
	rc.Tell(func(taken [][32]byte, receipt []byte) {
		if len(taken) > 0 {
			r.given <- receipt
		}
	})
	r.current = reader(r.t, r.set, ReaderOptions{Signers: trust(r.key), Replay: rc.Guard()})
	stop := watching(r.t, r.current, WatchOptions{Client: rc.client, Receipts: rc,
		OnResult:  func(res *Result) error { r.read <- res.ID; return nil },
		OnRefused: func(_ string, err error) { r.refused <- err }})
	return func() {
		stop()
		rc.Close()
	}
}

func (r *receiptRig) sendTo(topic string, sealed []byte) {
	r.t.Helper()
	if err := r.sender.Send(testrig.Context(r.t), topic, sealed); err != nil {
		r.t.Fatal(err)
	}
}

func (r *receiptRig) send(sealed []byte) {
	r.t.Helper()
	r.sendTo(meanTopic, sealed)
}

// ask asks for the receipt of a result.
func (r *receiptRig) ask(sealed []byte) {
	r.t.Helper()
	r.asks++
	body, err := transport.MarshalAsk(transport.Ask{Items: []transport.AskItem{{Object: transport.ObjectID(sealed),
		Topic: meanTopic, Total: 1, Size: len(sealed)}}})
	if err != nil {
		r.t.Fatal(err)
	}
	m := transport.Meta{Kind: transport.KindAsk, Device: "cloud", BootEpoch: 1, Sequence: r.asks}
	q, err := transport.Seal(m, body, r.key)
	if err == nil {
		q, err = transport.Whole(q, 0)
	}
	if err == nil {
		err = r.client.Publish(testrig.Context(r.t), transport.AskTopic(transport.DefaultPrefix, "cloud"), q, false)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// expect waits for the next receipt.
func (r *receiptRig) expect(sealed []byte, outcome transport.Outcome, reason string) {
	r.t.Helper()
	it := testrig.Receive(r.t, fmt.Sprintf("a receipt %v", outcome), r.items)
	if it.Object != transport.ObjectID(sealed) || it.Outcome != outcome || it.Reason != reason {
		r.t.Errorf("%v %q, want %v %q", it.Outcome, it.Reason, outcome, reason)
	}
}

// done checks that exactly these results were read, in this order, that as many objects
// were refused, and that no receipt is left. It returns the refusals, joined.
func (r *receiptRig) done(refused int, results ...[]byte) error {
	r.t.Helper()
	if len(r.items) != 0 {
		r.t.Errorf("%d more receipts came", len(r.items))
	}
	if len(r.read) != len(results) || len(r.refused) != refused {
		r.t.Fatalf("%d results were read, %d refused, want %d and %d", len(r.read), len(r.refused), len(results),
			refused)
	}
	for i, sealed := range results {
		if <-r.read != transport.ObjectID(sealed) {
			r.t.Errorf("another result was read in place %d", i)
		}
	}
	var errs []error
	for range refused {
		errs = append(errs, <-r.refused)
	}
	return errors.Join(errs...)
}

// slow is a client that publishes when it is let go, unless the context has ended by then.
type slow struct {
	mute
	started, let chan struct{}
	left         int
}

func (s *slow) Publish(ctx context.Context, _ string, _ []byte, _ bool) error {
	close(s.started)
	<-s.let
	if ctx.Err() == nil {
		s.left++
	}
	return ctx.Err()
}

// A receipt that is on its way when the key holder ends still leaves.
func TestReceiptAtTheEnd(t *testing.T) {
	s, signer, ticks := newSet(t), signingKey(t), make(chan time.Time)
	c := &slow{started: make(chan struct{}), let: make(chan struct{})}
	rc, err := NewReceipts(s, ReceiptOptions{Client: c, Evaluators: trust(signer), Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	rc.ticks = ticks
	rc.taken("cloud", [32]byte{1})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		rc.send(ctx)
	}()
	ticks <- time.Now()
	<-c.started
	stop()
	close(c.let)
	<-done
	if c.left != 1 {
		t.Errorf("%d receipts left, want 1", c.left)
	}
}

// A result that was read gets a receipt, and another one when it comes again or is asked
// about. It is read once, over restarts too.
func TestReceipts(t *testing.T) {
	r := newReceiptRig(t)
	end := r.start()
	first, second := r.good.result([]float64{0.5}, nil), r.good.result([]float64{0.25}, nil)
	r.ask(first)
	r.expect(first, transport.Unknown, "")
	r.send(first)
	r.expect(first, transport.Taken, "")
	given := testrig.Receive(t, "the receipt to keep", r.given)
	if s, err := r.current.Receipt(given, transport.ObjectID(first), "cloud"); err != nil || !s.OK {
		t.Errorf("the receipt: %+v, %v", s, err)
	}
	if s, err := r.current.Receipt(given, transport.ObjectID(second), "cloud"); !errors.Is(err, ErrReceipt) || s.OK {
		t.Errorf("the receipt of another result: %+v, %v", s, err)
	}
	r.ask(first)
	r.expect(first, transport.Taken, "")
	end()
	end = r.start() // another process: it knows the number, not the bytes
	r.send(first)
	r.expect(first, transport.Refused, "replayed")
	r.send(second)
	r.expect(second, transport.Taken, "")
	// An evaluator whose store is an old copy computes again what it has delivered.
	made := func(m *transport.Meta) { m.Inputs = [][32]byte{{1}} }
	third, again := r.good.result([]float64{0.125}, made), r.good.result([]float64{0.125},
		func(m *transport.Meta) { made(m); m.BootEpoch = 9 })
	r.send(third)
	r.expect(third, transport.Taken, "")
	end()
	end = r.start()
	r.send(again)
	r.expect(again, transport.Taken, "")
	r.ask(again) // its receipt can be lost
	r.expect(again, transport.Taken, "")
	end()
	if err := r.done(2, first, second, third); !errors.Is(err, ErrRepeated) || !errors.Is(err, transport.ErrReplayed) {
		t.Errorf("refused: %v", err)
	}
}

// What cannot be read is refused, so that its evaluator does not wait for ever. Nobody
// else can have a result refused by sending it where it does not belong.
func TestUnreadableResultIsRefused(t *testing.T) {
	r := newReceiptRig(t)
	end := r.start()
	if err := r.current.Close(); err != nil { // without its keys it can read nothing
		t.Fatal(err)
	}
	sealed, unreadable := r.good.result([]float64{0.5}, nil), r.good.result([]float64{0.5},
		func(m *transport.Meta) { m.Post = nil })
	r.sendTo("hencedge/v1/res/other", sealed)
	r.send(sealed)
	r.expect(sealed, transport.Refused, "other")
	r.ask(sealed)
	r.expect(sealed, transport.Unknown, "")
	r.current.mu.Lock()
	r.current.closed = false
	r.current.mu.Unlock()
	r.send(sealed)
	r.expect(sealed, transport.Taken, "")
	r.send(unreadable)
	r.expect(unreadable, transport.Refused, "not_result")
	r.ask(unreadable)
	r.expect(unreadable, transport.Refused, "not_result")
	end()
	if err := r.done(3, sealed); !errors.Is(err, transport.ErrWrongTopic) {
		t.Errorf("refused: %v", err)
	}
}

// A result that the evaluator signed with an earlier key is refused for good. One under a
// key that this key holder gets later is not.
func TestReceiptsOverChangedKeys(t *testing.T) {
	r := newReceiptRig(t)
	end := r.start()
	// Nobody else asks about a result under the earlier key.
	before := newCloud(t, r.set, r.set.manifest.Current(), signingKey(t)).result([]float64{0.5}, nil)
	r.send(before)
	testrig.Eventually(t, "a refusal", func() bool { return len(r.refused) > 0 })
	r.ask(before)
	r.expect(before, transport.Refused, "unknown_signer")
	// The keys were rotated elsewhere.
	path := filepath.Join(r.set.Dir(), ManifestFile)
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := Open(r.set.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rotated.Rotate(RotateOptions{Overlap: time.Hour, Now: at(day0.AddDate(0, 1, 0))}); err != nil {
		t.Fatal(err)
	}
	exchange := func() {
		t.Helper()
		other, err := os.ReadFile(path)
		if err == nil {
			err = durable.WriteFile(path, manifest)
		}
		if err != nil {
			t.Fatal(err)
		}
		manifest = other
	}
	exchange()
	early := newCloud(t, rotated, rotated.manifest.Current(), r.key).result([]float64{0.5}, nil)
	r.send(early)
	r.expect(early, transport.Refused, "wrong_key")
	exchange()
	r.ask(early)
	r.expect(early, transport.Unknown, "")
	r.send(early)
	r.expect(early, transport.Taken, "")
	end()
	if err := r.done(2, early); !errors.Is(err, transport.ErrUnknownSigner) || !errors.Is(err, transport.ErrWrongKey) {
		t.Errorf("refused: %v", err)
	}
}

// A disk that is full holds results up: they are neither taken nor handed on, until there
// is room. A real, small file system, filled.
func TestReceiptsOnAFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "1m")
	ballast := filepath.Join(dir, "ballast")
	testenv.Fill(t, ballast)
	b := testrig.Broker(t, broker.Options{})
	s, key := newSet(t), signingKey(t)
	good := newCloud(t, s, s.manifest.Current(), key)
	rc, err := NewReceipts(s, ReceiptOptions{Client: dial(t, b, "holder"), Evaluators: trust(key),
		State: filepath.Join(dir, "state"), Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	ctx := testrig.Context(t)
	read := make(chan [32]byte, 8)
	r := reader(t, s, ReaderOptions{Signers: trust(key), Replay: rc.Guard()})
	stop := watching(t, r, WatchOptions{Client: rc.client, Receipts: rc,
		OnResult: func(res *Result) error { read <- res.ID; return nil }})
	defer stop()
	sender, err := transport.NewSender(dial(t, b, "cloud"), 0)
	if err != nil {
		t.Fatal(err)
	}
	waiting := map[[32]byte]bool{}
	for range 2 {
		sealed := good.result([]float64{0.5}, nil)
		waiting[transport.ObjectID(sealed)] = true
		if err := sender.Send(ctx, "hencedge/v1/res/mean", sealed); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-read:
		t.Error("a result did not wait for the disk")
	case <-time.After(200 * time.Millisecond):
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		delete(waiting, testrig.Receive(t, "a result", read))
	}
	if len(waiting) != 0 {
		t.Error("not both results came")
	}
	stop()
	if len(read) != 0 {
		t.Errorf("%d more results", len(read))
	}
}
