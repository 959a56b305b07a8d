package evaluator

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// receipts are what a device is told.
type receipts struct {
	r     *rig
	items chan transport.ReceiptItem
	seq   uint64
}

func (r *rig) receipts(device string) *receipts {
	r.t.Helper()
	out := &receipts{r: r, items: make(chan transport.ReceiptItem, 64)}
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{"cloud": signer(r.t, "cloud").Public()})
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds:    []transport.Kind{transport.KindReceipt},
		NoReplay: true})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx := testrig.Context(r.t)
	err = r.device.Subscribe(ctx, transport.ReceiptTopic(transport.DefaultPrefix, device), func(d transport.Delivery) {
		defer d.Ack()
		sealed, err := transport.ReadWhole(d.Payload, 0)
		if err != nil {
			r.t.Error(err)
			return
		}
		obj, err := transport.Open(sealed, v)
		if err != nil {
			r.t.Error(err)
			return
		}
		rc, err := transport.UnmarshalReceipt(obj.Body)
		if err != nil || rc.To != device {
			r.t.Errorf("%+v, %v", rc, err)
			return
		}
		for _, it := range rc.Items {
			out.items <- it
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (c *receipts) expect(id [32]byte, outcome transport.Outcome, reason string) transport.ReceiptItem {
	c.r.t.Helper()
	it := testrig.Receive(c.r.t, fmt.Sprintf("a receipt %v", outcome), c.items)
	if it.Object != id || it.Outcome != outcome || it.Reason != reason {
		c.r.t.Fatalf("receipt %v %q, want %v %q", it.Outcome, it.Reason, outcome, reason)
	}
	return it
}

// ask asks as the device would.
func (c *receipts) ask(device, topic string, id [32]byte, total, size int) {
	c.r.t.Helper()
	body, err := transport.MarshalAsk(transport.Ask{Items: []transport.AskItem{{Object: id, Topic: topic, Total: total,
		Size: size}}})
	if err != nil {
		c.r.t.Fatal(err)
	}
	c.seq++
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindAsk, Device: device, BootEpoch: 1,
		Sequence: c.seq},
		body, signer(c.r.t, device))
	if err != nil {
		c.r.t.Fatal(err)
	}
	payload, err := transport.Whole(sealed, 0)
	if err != nil {
		c.r.t.Fatal(err)
	}
	c.r.publish(transport.AskTopic(transport.DefaultPrefix, device), payload)
}

func storeConfig(t *testing.T, dir string, programs ...config.Program) *config.Evaluator {
	t.Helper()
	cfg := testConfig(t, programs...)
	cfg.Store = &config.Store{Dir: dir}
	cfg.SetDefaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func inputs(text string) map[string]string { return map[string]string{"x": text} }

// A window is acknowledged when it is on disk; a device that asks again, or
// sends again, also after a restart, gets the same answer and makes no second
// result.
func TestTakenOnce(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "state")
	program := prog("mean", "mean(x)", inputs("d1/count/temp"))
	r := newRigAt(t, storeConfig(t, dir, program), state)
	rc := r.receipts("d1")
	temp, load := numbers(8, 10, 2), numbers(8, 0, 0.1)
	w := r.window("d1", "count", 1, time.Unix(1000, 0), temp, load)
	sealed := r.seal(w)
	oid := transport.ObjectID(sealed)
	pieces, err := transport.Split(sealed, int(r.cfg.Broker.ChunkSize))
	if err != nil {
		t.Fatal(err)
	}
	rc.ask("d1", w.topic, oid, len(pieces), len(sealed))
	rc.expect(oid, transport.Unknown, "")
	r.send(w.topic, sealed)
	rc.expect(oid, transport.Taken, "")
	first := r.expect("mean", average(temp))
	rc.ask("d1", w.topic, oid, len(pieces), len(sealed))
	rc.expect(oid, transport.Taken, "")
	r.stop()

	r = newRigAt(t, storeConfig(t, dir, program), state)
	rc = r.receipts("d1")
	rc.ask("d1", w.topic, oid, len(pieces), len(sealed))
	rc.expect(oid, transport.Taken, "")
	r.send(w.topic, sealed)
	rc.expect(oid, transport.Taken, "")
	// Another window under the same number is refused, to the device's knowledge.
	other := r.window("d1", "count", 1, time.Unix(2000, 0), temp, load)
	r.send(other.topic, r.seal(other))
	rc.expect(transport.ObjectID(r.seal(other)), transport.Refused, "replayed")
	r.expectRefusal("replayed")
	next := r.window("d1", "count", 2, time.Unix(3000, 0), numbers(8, 30, 1), load)
	r.sendWindow(next)
	second := r.expect("mean", average(numbers(8, 30, 1)))
	if second.Meta.BootEpoch == first.Meta.BootEpoch || len(r.results) != 0 {
		t.Errorf("after %+v came %+v, and %d more", first.Meta, second.Meta, len(r.results))
	}
}

// A window that waits for others survives a restart, and is used then.
func TestWaitsOnDisk(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "state")
	program := prog("change", "mean(x) - mean(lag(x, 1))", inputs("d1/count/temp"))
	r := newRigAt(t, storeConfig(t, dir, program), state)
	rc := r.receipts("d1")
	load := numbers(8, 0, 0.1)
	w := r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 10, 2), load)
	rc.expect(r.sendWindow(w), transport.Taken, "")
	r.stop()
	for n := uint64(2); n <= 4; n++ { // each after another restart
		r = newRigAt(t, storeConfig(t, dir, program), state)
		r.sendWindow(r.window("d1", "count", n, time.Unix(int64(1000*n), 0), numbers(8, 10+5*float64(n-1), 2), load))
		if obj := r.expect("change", 5); len(obj.Meta.Inputs) != 2 {
			t.Errorf("%+v", obj.Meta)
		}
		r.stop()
		if len(r.results) != 0 {
			t.Errorf("restart %d: %d more results", n, len(r.results))
		}
	}
	// Windows whose neighbours left before a restart stay until the joiner's bound.
	windows, err := filepath.Glob(filepath.Join(dir, "inbox", "*.obj"))
	if err != nil || len(windows) == 0 || len(windows) > 3 {
		t.Errorf("%d windows are in the inbox: %v; %v", len(windows), windows, err)
	}
}

// Chunks that are there are told one by one; a device cannot ask about another's.
func TestPartialReceipt(t *testing.T) {
	cfg := storeConfig(t, filepath.Join(t.TempDir(), "store"), prog("mean", "mean(x)", inputs("d1/count/temp")))
	cfg.Broker.ChunkSize = 4 << 10
	r := newRig(t, cfg)
	rc := r.receipts("d1")
	w := r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 1, 1), numbers(8, 0, 0))
	sealed := r.seal(w)
	pieces, err := transport.Split(sealed, 4<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} {
		b, err := pieces[i].Marshal()
		if err != nil {
			t.Fatal(err)
		}
		r.publish(w.topic, b)
	}
	oid := transport.ObjectID(sealed)
	var it transport.ReceiptItem
	testrig.Eventually(t, "both chunks in a receipt", func() bool { // they may still be under way
		rc.ask("d1", w.topic, oid, len(pieces), len(sealed))
		it = <-rc.items
		return it.Outcome == transport.Partial && it.Has(0) && it.Has(2)
	})
	if it.Total != len(pieces) || !it.Has(0) || it.Has(1) || !it.Has(2) {
		t.Fatalf("%+v", it)
	}
	for i := range pieces {
		if !it.Has(i) {
			b, err := pieces[i].Marshal()
			if err != nil {
				t.Fatal(err)
			}
			r.publish(w.topic, b)
		}
	}
	rc.expect(oid, transport.Taken, "")
	r.expect("mean", average(numbers(8, 1, 1)))
	rc.ask("d1", transport.ReadingTopic(transport.DefaultPrefix, "d2", "count"), oid, 1, 1)
	r.expectRefusal("wrong_topic")
}

// A crash may bring back the file of a window that was worked off, its removal being
// flushed last; and a window may be there twice. Neither makes a second result.
func TestWorkedOffComesBack(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "state")
	program := prog("mean", "mean(x)", inputs("d1/count/temp"))
	r := newRigAt(t, storeConfig(t, dir, program), state)
	load := numbers(8, 0, 0.1)
	w := r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 10, 2), load)
	sealed := r.seal(w)
	r.send(w.topic, sealed)
	r.expect("mean", average(numbers(8, 10, 2)))
	r.stop()
	name := sha256.Sum256([]byte("d1/count"))
	for range 2 {
		inbox, err := spool.Open(spool.Options{Dir: filepath.Join(dir, "inbox"), Logger: testrig.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if err := inbox.Put(t.Context(), spool.Item{Stream: hex.EncodeToString(name[:8]), Topic: w.topic,
			Sealed: sealed}); err != nil {
			t.Fatal(err)
		}
		inbox.Release()
	}
	r = newRigAt(t, storeConfig(t, dir, program), state)
	r.sendWindow(r.window("d1", "count", 2, time.Unix(2000, 0), numbers(8, 20, 2), load))
	r.expect("mean", average(numbers(8, 20, 2)))
	r.stop()
	left, err := filepath.Glob(filepath.Join(dir, "inbox", "*.obj"))
	if err != nil || len(left) != 0 || len(r.results) != 0 {
		t.Errorf("%d files are left in the inbox, %d more results; %v", len(left), len(r.results), err)
	}
}

// Refusals that a configuration can cure are told, those of strangers once a second.
func TestRefusalReceipt(t *testing.T) {
	r := newRig(t, storeConfig(t, filepath.Join(t.TempDir(), "store"),
		prog("mean", "mean(x)", inputs("d1/count/temp"))))
	rc := r.receipts("d1")
	w := r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 1, 1), numbers(8, 0, 0))
	w.signer = signer(t, "mallory")
	strange := r.sendWindow(w)
	r.expectRefusal("unknown_signer")
	rc.expect(strange, transport.Refused, "unknown_signer")
	// Only who has it can ask: a device with windows that it signed with the key before.
	rc.ask("d1", w.topic, strange, 3, 100)
	rc.expect(strange, transport.Refused, "unknown_signer")
	w = r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 1, 1), numbers(8, 0, 0))
	w.meta.KeyEpoch++
	oid := r.sendWindow(w)
	rc.expect(oid, transport.Refused, "wrong_epoch")
	r.expectRefusal("wrong_epoch")
	rc.ask("d1", w.topic, oid, 3, 100)
	rc.expect(oid, transport.Refused, "wrong_epoch")
	// What only its device can have made is told whatever is wrong with it.
	w = r.window("d1", "count", 1<<63, time.Unix(1000, 0), numbers(8, 1, 1), numbers(8, 0, 0))
	rc.expect(r.sendWindow(w), transport.Refused, "malformed")
	r.expectRefusal("malformed")
	// A stream that nobody reads: its windows arrive nowhere, and the sender is told.
	rc.ask("d1", transport.ReadingTopic(transport.DefaultPrefix, "d1", "other"), transport.ObjectID([]byte("x")), 3,
		100)
	rc.expect(transport.ObjectID([]byte("x")), transport.Refused, transport.ReasonUnread)
}

// A device that floods is told that the evaluator is busy once its windows fill the room of
// those that wait, and what others send is taken.
func TestFloodIsTold(t *testing.T) {
	cfg := storeConfig(t, filepath.Join(t.TempDir(), "store"), prog("one", "mean(x)", inputs("d1/count/temp")),
		prog("two", "mean(x)", inputs("d2/count/temp")))
	r := newRig(t, cfg) // for its keys; its service works on a store of its own
	cfg.Store.Dir, cfg.State = t.TempDir(), filepath.Join(t.TempDir(), "state")
	s, err := New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: []engine.Keys{{Context: r.ctx, Evaluation: r.keys}},
		Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take := func(device string, seq uint64) bool {
		before := s.Stats()
		sealed := r.seal(r.window(device, "count", seq, time.Unix(int64(seq), 0), numbers(8, 1, 1), numbers(8, 0, 0)))
		o := transport.Staged{Topic: transport.ReadingTopic(transport.DefaultPrefix, device, "count"), Sealed: sealed,
			ID: transport.ObjectID(sealed)}
		s.custody.take(t.Context(), o, s.custody.verify(o))
		after := s.Stats()
		if after.Accepted == before.Accepted && after.Refused["busy"] == before.Refused["busy"] {
			t.Errorf("%s window %d: neither taken nor told busy: %v", device, seq, after.Refused)
		}
		return after.Accepted > before.Accepted
	}
	if !take("d1", 1) || !take("d2", 1) {
		t.Fatal("the first windows are refused")
	}
	s.jobs.limit = 6 * s.jobs.bytes / 2 // room for six
	for seq := uint64(2); seq <= 3; seq++ {
		if !take("d1", seq) {
			t.Fatalf("window %d of the flood is refused while there is room", seq)
		}
	}
	if take("d1", 4) {
		t.Error("the flood goes on")
	}
	if !take("d2", 2) {
		t.Error("the other device is refused")
	}
	for range 4 { // what waits is worked off
		s.jobs.pop()
	}
	if !take("d1", 4) {
		t.Error("the flood is refused although there is room again")
	}
}

// TestNothingOvertakesAtTheStopTimeout: a result does not go out behind one that was given up, whose windows make it
// at the next start.
func TestNothingOvertakesAtTheStopTimeout(t *testing.T) {
	cfg := storeConfig(t, filepath.Join(t.TempDir(), "store"), prog("mean", "mean(x)", inputs("d1/count/temp")))
	r := newRig(t, cfg)
	over, stop := context.WithCancel(t.Context())
	stop()
	before := make(chan struct{})
	close(before)
	for range 100 { // whichever a select would choose
		if err := r.service.custody.enter(over, &job{after: before}); !errors.Is(err, context.Canceled) {
			t.Fatalf("after a job that was given up: %v", err)
		}
	}
}

// Results of a program are numbered and kept in the order of its windows, though
// a later one is computed first.
func TestResultsInOrder(t *testing.T) {
	cfg := storeConfig(t, filepath.Join(t.TempDir(), "store"), prog("mean", "mean(x)", inputs("d1/count/temp")))
	r := newRig(t, cfg) // for its keys; its service works on a store of its own
	cfg.Store.Dir, cfg.State = t.TempDir(), filepath.Join(t.TempDir(), "state")
	s, err := New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: []engine.Keys{{Context: r.ctx, Evaluation: r.keys}},
		Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ids [][32]byte
	for n := range 2 {
		sealed := r.seal(r.window("d1", "count", uint64(n+1), time.Unix(int64(n), 0), numbers(8, 1, 1),
			numbers(8, 0, 0)))
		ids = append(ids, transport.ObjectID(sealed))
		o := transport.Staged{Topic: transport.ReadingTopic(transport.DefaultPrefix, "d1", "count"),
			Sealed: sealed, ID: transport.ObjectID(sealed)}
		s.custody.take(t.Context(), o, s.custody.verify(o))
	}
	first, _ := s.jobs.pop()
	second, _ := s.jobs.pop()
	later := make(chan error, 1)
	go func() { later <- s.work(t.Context(), second) }()
	select {
	case err := <-later:
		t.Errorf("the second result did not wait for the first: %v", err)
		later <- err
	case <-time.After(300 * time.Millisecond):
	}
	if err := errors.Join(s.work(t.Context(), first), <-later); err != nil {
		t.Fatal(err)
	}
	entries := s.custody.(*stored).store.Results.Outbox().Entries()
	if len(entries) != 2 {
		t.Fatalf("%d results", len(entries))
	}
	for i, e := range entries {
		sealed, err := s.custody.(*stored).store.Results.Outbox().Take(e.Stream, e.Number).Sealed()
		if err != nil {
			t.Fatal(err)
		}
		m, err := transport.PeekMeta(sealed)
		if err != nil || m.Inputs[0] != ids[i] || m.Sequence != uint64(i+1) {
			t.Errorf("result %d: sequence %d, of the other window: %v; %v", i, m.Sequence, m.Inputs[0] != ids[i], err)
		}
	}
}
