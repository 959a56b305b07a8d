package keyholder

import (
	"context"
	"errors"
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

// A result that was read gets a receipt, once more when it comes again or is
// asked about; it is read once, over a restart too.
func TestReceipts(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	s, key := newSet(t), signingKey(t)
	good := newCloud(t, s, s.manifest.Current(), key)
	state := filepath.Join(t.TempDir(), "state")
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := dial(t, b, "cloud")
	items := listener(t, s, client)
	expect := func(sealed []byte, outcome transport.Outcome, reason string) {
		t.Helper()
		select {
		case it := <-items:
			if it.Object != transport.ObjectID(sealed) || it.Outcome != outcome || it.Reason != reason {
				t.Errorf("%v %q, want %v %q", it.Outcome, it.Reason, outcome, reason)
			}
		case <-ctx.Done():
			t.Fatalf("no receipt, want %v", outcome)
		}
	}
	sender, err := transport.NewSender(client, 0)
	if err != nil {
		t.Fatal(err)
	}
	const topic = "hencedge/v1/res/mean"
	send := func(sealed []byte) {
		t.Helper()
		if err := sender.Send(ctx, topic, sealed); err != nil {
			t.Fatal(err)
		}
	}
	asks := uint64(0)
	ask := func(sealed []byte) {
		t.Helper()
		asks++
		body, err := transport.MarshalAsk(transport.Ask{Items: []transport.AskItem{{Object: transport.ObjectID(sealed),
			Topic: topic, Total: 1, Size: len(sealed)}}})
		if err != nil {
			t.Fatal(err)
		}
		m := transport.Meta{Kind: transport.KindAsk, Device: "cloud", BootEpoch: 1, Sequence: asks}
		q, err := transport.Seal(m, body, key)
		if err == nil {
			q, err = transport.Whole(q, 0)
		}
		if err == nil {
			err = client.Publish(ctx, transport.AskTopic(transport.DefaultPrefix, "cloud"), q, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read, refused := make(chan [32]byte, 16), make(chan error, 16)
	var current *Reader
	watch := func(name string) (end func()) {
		t.Helper()
		rc, err := NewReceipts(s, ReceiptOptions{Client: dial(t, b, name), Evaluators: trust(key), State: state,
			Logger: testrig.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		r := reader(t, s, ReaderOptions{Signers: trust(key), Replay: rc.Guard()})
		current = r
		stop := watching(t, r, WatchOptions{Client: rc.client, Receipts: rc,
			OnResult:  func(res *Result) error { read <- res.ID; return nil },
			OnRefused: func(_ string, err error) { refused <- err }})
		return func() {
			stop()
			rc.Close()
		}
	}
	end := watch("holder1")
	first, second := good.result([]float64{0.5}, nil), good.result([]float64{0.25}, nil)
	ask(first)
	expect(first, transport.Unknown, "")
	send(first)
	expect(first, transport.Taken, "")
	ask(first)
	expect(first, transport.Taken, "")
	end()
	end = watch("holder2") // another process: it knows the number, not the bytes
	send(first)
	expect(first, transport.Refused, "replayed")
	send(second)
	expect(second, transport.Taken, "")
	// An evaluator whose store is an old copy computes again what it has delivered.
	made := func(m *transport.Meta) { m.Inputs = [][32]byte{{1}} }
	third, again := good.result([]float64{0.125}, made), good.result([]float64{0.125},
		func(m *transport.Meta) { made(m); m.BootEpoch = 9 })
	send(third)
	expect(third, transport.Taken, "")
	end()
	end = watch("holder3")
	send(again)
	expect(again, transport.Taken, "")
	ask(again) // its receipt can be lost
	expect(again, transport.Taken, "")
	end()
	// What cannot be read is refused, so that its evaluator does not wait for ever; but
	// nobody else can have a result refused by sending it where it does not belong.
	end = watch("holder4")
	if err := current.Close(); err != nil { // for want of its keys it can read nothing
		t.Fatal(err)
	}
	fourth, unreadable := good.result([]float64{0.5}, nil), good.result([]float64{0.5},
		func(m *transport.Meta) { m.Post = nil })
	if err := sender.Send(ctx, "hencedge/v1/res/other", fourth); err != nil {
		t.Fatal(err)
	}
	send(fourth)
	expect(fourth, transport.Refused, "other")
	ask(fourth)
	expect(fourth, transport.Unknown, "")
	current.mu.Lock()
	current.closed = false
	current.mu.Unlock()
	send(fourth)
	expect(fourth, transport.Taken, "")
	send(unreadable)
	expect(unreadable, transport.Refused, "not_result")
	ask(unreadable)
	expect(unreadable, transport.Refused, "not_result")
	// One that the evaluator signed with the key before: nobody else asks about it.
	before := newCloud(t, s, s.manifest.Current(), signingKey(t)).result([]float64{0.5}, nil)
	send(before)
	testrig.Eventually(t, "six refusals", func() bool { return len(refused) >= 6 })
	ask(before)
	expect(before, transport.Refused, "unknown_signer")
	// One under a key that comes here later: the keys were rotated elsewhere.
	path := filepath.Join(s.Dir(), ManifestFile)
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := Open(s.Dir())
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
	early := newCloud(t, rotated, rotated.manifest.Current(), key).result([]float64{0.5}, nil)
	send(early)
	expect(early, transport.Refused, "wrong_key")
	exchange()
	ask(early)
	expect(early, transport.Unknown, "")
	send(early)
	expect(early, transport.Taken, "")
	end()
	if len(items) != 0 {
		t.Errorf("%d more receipts came", len(items))
	}
	if len(read) != 5 || len(refused) != 7 {
		t.Errorf("%d results were read, %d refused", len(read), len(refused))
	} else if err := errors.Join(<-refused, <-refused); !errors.Is(err, ErrRepeated) ||
		!errors.Is(err, transport.ErrReplayed) {
		t.Errorf("refused: %v", err)
	}
	if len(read) != 5 || <-read != transport.ObjectID(first) || <-read != transport.ObjectID(second) ||
		<-read != transport.ObjectID(third) || <-read != transport.ObjectID(fourth) ||
		<-read != transport.ObjectID(early) {
		t.Errorf("%d more results were read, want each once", len(read))
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
		select {
		case id := <-read:
			delete(waiting, id)
		case <-ctx.Done():
			t.Fatal("no result came")
		}
	}
	if len(waiting) != 0 {
		t.Error("not both results came")
	}
	stop()
	if len(read) != 0 {
		t.Errorf("%d more results", len(read))
	}
}
