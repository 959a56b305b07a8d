package store

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// chain is a key holder with a store, in front of an evaluator's outbox: a directory of sealed
// results, each of which is sent until its receipt has come.
type chain struct {
	dir     string // keys, outbox
	state   string // of the key holder
	history config.History
	made    int // results so far
}

const evaluatorName, evaluatorKey = "cloud", "cloud.key"

func (c *chain) keys() string   { return filepath.Join(c.dir, "keys") }
func (c *chain) outbox() string { return filepath.Join(c.dir, "outbox") }

// newChain makes keys in dir and approves a program; the database is that of h.
func newChain(t *testing.T, dir, state string, h config.History) *chain {
	t.Helper()
	c := &chain{dir: dir, state: state, history: h}
	p, err := henc.Named("edge12-add")
	if err != nil {
		t.Fatal(err)
	}
	set, err := keyholder.Create(c.keys(), keyholder.CreateOptions{Params: p})
	if err != nil {
		t.Fatal(err)
	}
	key, err := transport.NewSigningKey()
	if err == nil {
		err = key.Save(filepath.Join(dir, evaluatorKey))
	}
	if err == nil {
		var a keyholder.Approval
		if a, _, err = keyholder.NewApproval(evaluatorName, published(), noon); err == nil {
			err = set.Approve(a)
		}
	}
	if err = errors.Join(err, os.Mkdir(c.outbox(), 0o700)); err != nil {
		t.Fatal(err)
	}
	return c
}

func published() program.Published {
	stream := program.PublishedStream{Name: "s", Samples: 1, Channels: []program.PublishedChannel{{Name: "c", Unit: "1",
		Range: [2]float64{-40, 60}}}}
	return program.Published{Name: "mean", Expr: "x", Params: "edge12-add", Unit: "K",
		Inputs: map[string]program.PublishedInput{"x": {Device: "board", Channel: "c", Stream: stream}}}
}

// compute puts n new results into the outbox; their sequence is their number.
func (c *chain) compute(t *testing.T, n int) {
	t.Helper()
	key, err := transport.LoadSigningKey(filepath.Join(c.dir, evaluatorKey))
	if err != nil {
		t.Fatal(err)
	}
	p, err := henc.Named("edge12-add")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(c.keys(), "epoch-0001", keyholder.PublicFile))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ctx.UnmarshalPublicKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := henc.NewEncryptor(ctx, pub)
	if err != nil {
		t.Fatal(err)
	}
	_, circuit, err := keyholder.NewApproval(evaluatorName, published(), noon)
	if err != nil {
		t.Fatal(err)
	}
	ct, err := enc.EncryptReal([]float64{0.5}, circuit.Level(), circuit.Scale(), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := ctx.MarshalCiphertext(ct)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		c.made++
		start := noon.Add(time.Duration(c.made) * time.Minute)
		var input [32]byte
		binary.BigEndian.PutUint64(input[:], uint64(c.made))
		out := circuit.Output()
		sealed, err := transport.Seal(transport.Meta{Kind: transport.KindResult, Device: evaluatorName, Program: "mean",
			KeyID: pub.KeyID, KeyEpoch: pub.Epoch, BootEpoch: 1, Sequence: uint64(c.made), Params: p.Hash(),
			Level: ct.Level, Scale: ct.Scale, Start: start.UnixNano(), End: start.Add(time.Minute).UnixNano(),
			Samples: 1, Layout: circuit.Hash(), Inputs: [][32]byte{input},
			Post: &transport.Post{A: out.A, B: out.B, Slot: out.Slot, Count: 1, Bound: out.Bound}}, body, key)
		if err == nil {
			err = os.WriteFile(filepath.Join(c.outbox(), fmt.Sprintf("%08d", c.made)), sealed, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// waiting returns the names of the results without a receipt.
func (c *chain) waiting() (names []string) {
	list, _ := os.ReadDir(c.outbox())
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// run is a key holder's process: it goes on until ctx ends, or every result has its receipt and
// is in the database. around is called before and after each result is stored.
func (c *chain) run(ctx context.Context, opened func(*Store), around func(after bool)) (err error) {
	s, err := Open(ctx, Options{History: c.history, Logger: testrig.Quiet()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if opened != nil {
		opened(s)
	}
	set, err := keyholder.Open(c.keys())
	if err != nil {
		return err
	}
	key, err := transport.LoadSigningKey(filepath.Join(c.dir, evaluatorKey))
	if err != nil {
		return err
	}
	signers := map[string][]ed25519.PublicKey{evaluatorName: {key.Public()}}
	receipts, err := keyholder.NewReceipts(set, keyholder.ReceiptOptions{Evaluators: signers, State: c.state,
		Logger: testrig.Quiet()})
	if err != nil {
		return err
	}
	defer receipts.Close()
	r, err := keyholder.NewReader(set, keyholder.ReaderOptions{Signers: signers, Replay: receipts.Guard()})
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	e, err := newEvaluator(ctx, c, set, func() { c.stopWhenDone(ctx, s, stop) })
	if err != nil {
		return err
	}
	defer e.sending.Wait()
	defer stop()
	receipts.Use(e)
	err = keyholder.Watch(ctx, r, keyholder.WatchOptions{Client: e, Receipts: receipts, Programs: []string{"mean"},
		OnResult: func(r *keyholder.Result) error {
			around(false)
			err := s.Keep(ctx, r)
			around(true)
			return err
		}})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// stopWhenDone ends a run when the outbox and the inbox are empty.
func (c *chain) stopWhenDone(ctx context.Context, s *Store, stop func()) {
	for ctx.Err() == nil {
		left, _ := filepath.Glob(c.state + ".inbox/*.obj")
		if len(c.waiting()) == 0 && len(left) == 0 {
			stop()
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// expect checks that the database holds each result once, in order.
func (c *chain) expect(t *testing.T) {
	t.Helper()
	h := c.history
	s := open(t, h, true)
	rows, err := s.db.Query("SELECT sequence FROM results ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got, want []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	for n := 1; n <= c.made; n++ {
		want = append(want, n)
	}
	if rows.Err() != nil || !slices.Equal(got, want) {
		t.Errorf("%d results in the database, %d were made: %v, %v", len(got), c.made, got, rows.Err())
	}
}

// evaluator is the other side of a key holder's connection.
type evaluator struct {
	ctx      context.Context // of the run
	c        *chain
	receipts *transport.Verifier
	sent     func() // when everything was sent once
	sending  sync.WaitGroup
}

func newEvaluator(ctx context.Context, c *chain, set *keyholder.Set, sent func()) (*evaluator, error) {
	pub, err := transport.ParsePublicKey(set.Manifest().Signer)
	trust := transport.NewTrustStore()
	if err == nil {
		err = trust.AddDevice(keyset.HolderName, pub)
	}
	if err != nil {
		return nil, err
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, NoReplay: true,
		Kinds: []transport.Kind{transport.KindReceipt}, MaxObject: 1 << 20})
	return &evaluator{ctx: ctx, c: c, receipts: v, sent: sent}, err
}

// Subscribe sends what is in the outbox to whoever wants results.
func (e *evaluator) Subscribe(_ context.Context, filter string, h func(transport.Delivery)) error {
	topic := transport.ResultTopic(transport.DefaultPrefix, "mean")
	if filter != topic {
		return nil
	}
	sender, err := transport.NewSender(toHolder{e, h}, 0)
	if err != nil {
		return err
	}
	e.sending.Go(func() {
		for _, name := range e.c.waiting() {
			sealed, err := os.ReadFile(filepath.Join(e.c.outbox(), name))
			if err == nil {
				err = sender.Send(e.ctx, topic, sealed)
			}
			if err != nil {
				return
			}
		}
		e.sent()
	})
	return nil
}

// Publish takes receipts: results that were taken, now or earlier, leave the outbox.
func (e *evaluator) Publish(_ context.Context, topic string, payload []byte, _ bool) error {
	if !strings.HasPrefix(topic, transport.ReceiptTopic(transport.DefaultPrefix, "")) {
		return nil
	}
	sealed, err := transport.ReadWhole(payload, 0)
	if err != nil {
		return err
	}
	obj, err := transport.Open(sealed, e.receipts)
	if err != nil {
		return err
	}
	r, err := transport.UnmarshalReceipt(obj.Body)
	if err != nil {
		return err
	}
	for _, name := range e.c.waiting() {
		file := filepath.Join(e.c.outbox(), name)
		sealed, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		id := transport.ObjectID(sealed)
		if slices.ContainsFunc(r.Items, func(it transport.ReceiptItem) bool {
			return it.Object == id && (it.Outcome == transport.Taken || it.Reason == "replayed")
		}) {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *evaluator) Connected() bool             { return true }
func (e *evaluator) Close(context.Context) error { return nil }

// toHolder publishes to a handler of the key holder.
type toHolder struct {
	*evaluator
	h func(transport.Delivery)
}

func (p toHolder) Publish(ctx context.Context, topic string, payload []byte, _ bool) error {
	p.h(transport.Delivery{Topic: topic, Payload: payload, Ack: func() {}})
	return ctx.Err()
}
