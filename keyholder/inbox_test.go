package keyholder

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// holder is a key holder without a broker, over a state that outlives it.
type holder struct {
	w         *watch
	rc        *Receipts
	read      [][32]byte
	unread    []error
	refused   []error
	fail      error // of OnResult
	published []string
}

// wire is a client of a holder.
type wire struct {
	mute
	h *holder
}

func (c *wire) Publish(_ context.Context, topic string, _ []byte, _ bool) error {
	c.h.published = append(c.h.published, topic)
	return nil
}

func newHolder(t *testing.T, s *Set, key *transport.SigningKey, state string, count int) *holder {
	t.Helper()
	h := &holder{}
	var err error
	if h.rc, err = NewReceipts(s, ReceiptOptions{Client: &wire{h: h}, Evaluators: trust(key), State: state,
		Logger: testrig.Quiet()}); err != nil {
		t.Fatal(err)
	}
	r := reader(t, s, ReaderOptions{Signers: trust(key), Replay: h.rc.Guard()})
	h.w, err = newWatch(r, WatchOptions{Client: h.rc.client, Receipts: h.rc, Count: count,
		OnResult: func(res *Result) error {
			h.read = append(h.read, res.ID)
			return h.fail
		},
		OnUnread:  func(_ string, err error) { h.unread = append(h.unread, err) },
		OnRefused: func(_ string, err error) { h.refused = append(h.refused, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.w.receiver = transport.NewReceiver(transport.Limits{},
		func(o transport.Staged) error { return h.w.take(t.Context(), o) })
	return h
}

// kill ends it without a word.
func (h *holder) kill() {
	h.w.inbox.close()
	h.rc.Close()
}

func (h *holder) take(t *testing.T, sealed []byte) {
	t.Helper()
	payload, err := transport.Whole(sealed, transport.MaxChunkSize)
	if err == nil {
		err = h.w.receiver.Feed("hencedge/v1/res/mean", payload)
	}
	if err != nil && !errors.Is(err, transport.ErrReplayed) { // that it came before is not read once more
		t.Fatal(err)
	}
}

// next decrypts the oldest result of the inbox.
func (h *holder) next(t *testing.T) error {
	t.Helper()
	_, err := h.w.read(t.Context(), h.w.inbox.next(t.Context()), 0)
	return err
}

func (h *holder) waiting() int { return len(h.w.inbox.spool.Entries()) }

// outcome is what is answered to an evaluator that asks about an object.
func (h *holder) outcome(t *testing.T, who string, key *transport.SigningKey, topic string,
	sealed []byte) (string, error) {
	t.Helper()
	body, err := transport.MarshalAsk(transport.Ask{Items: []transport.AskItem{{Object: transport.ObjectID(sealed),
		Topic: topic, Total: 1, Size: len(sealed)}}})
	if err != nil {
		t.Fatal(err)
	}
	q, err := transport.Seal(transport.Meta{Kind: transport.KindAsk, Device: who, BootEpoch: 1,
		Sequence: sequence.Add(1)}, body, key)
	if err == nil {
		q, err = transport.Whole(q, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.rc.waiting, h.rc.items = map[string][]transport.ReceiptItem{}, 0
	err = h.rc.ask(transport.Delivery{Topic: transport.AskTopic(transport.DefaultPrefix, who), Payload: q}, h.w,
		h.w.receiver)
	items := h.rc.waiting[who]
	if err != nil || len(items) != 1 || len(h.rc.waiting) != 1 {
		return "", err
	}
	return items[0].Outcome.String() + items[0].Reason, nil
}

// A result is handed on exactly once, whatever step a kill comes after: in the inbox and
// not saved, saved, handed on and still in the inbox.
func TestInboxSurvives(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	state := filepath.Join(t.TempDir(), "state")
	results := [][]byte{c.result([]float64{0.5}, nil), c.result([]float64{0.25}, nil), c.result([]float64{0.125}, nil)}
	ids := make([][32]byte, len(results))
	for i := range results {
		ids[i] = transport.ObjectID(results[i])
	}
	h := newHolder(t, s, key, state, 0)
	h.take(t, results[0])
	if err := os.Remove(state); err != nil { // as if killed before the numbers were saved
		t.Fatal(err)
	}
	h.kill()

	h = newHolder(t, s, key, state, 0)
	if got, err := h.outcome(t, "cloud", key, "hencedge/v1/res/mean", results[0]); got != "taken" {
		t.Errorf("after a kill: %q, %v", got, err)
	}
	h.take(t, results[0]) // its receipt was lost
	h.take(t, results[1])
	if h.waiting() != 2 || len(h.refused) != 1 || !errors.Is(h.refused[0], transport.ErrReplayed) {
		t.Fatalf("%d wait, refused %v", h.waiting(), h.refused)
	}
	h.fail = errors.New("the output is closed")
	if err := h.next(t); !errors.Is(err, h.fail) || h.waiting() != 2 {
		t.Fatalf("%v, %d wait", err, h.waiting())
	}
	h.kill()

	h = newHolder(t, s, key, state, 0)
	files, err := filepath.Glob(filepath.Join(state+inboxSuffix, "*.obj"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	first, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := h.next(t); err != nil || len(h.read) != 1 || h.read[0] != ids[0] {
		t.Fatalf("read %x, %v", h.read, err)
	}
	h.kill()
	if err := os.WriteFile(files[0], first, 0o600); err != nil { // a crash brought it back
		t.Fatal(err)
	}

	h = newHolder(t, s, key, state, 2)
	h.take(t, results[2])
	if h.waiting() != 2 {
		t.Fatalf("%d wait: what was handed on comes once more", h.waiting())
	}
	if err := h.w.takeAll(t.Context()); err != nil { // it has as many as it will hand on
		t.Fatal(err)
	}
	if err := h.w.readAll(t.Context()); err != nil || len(h.read) != 2 || h.read[0] != ids[1] || h.read[1] != ids[2] {
		t.Fatalf("read %x, %v", h.read, err)
	}
	h.kill()
}

// A result whose body is no ciphertext is taken like any other: its evaluator learns
// nothing. It is told here, kept aside, and disturbs no other.
func TestUnreadable(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	state := filepath.Join(t.TempDir(), "state")
	good := c.result([]float64{0.5}, nil)
	v, err := reader(t, s, ReaderOptions{Signers: trust(key), Archive: true}).Verify("", c.result([]float64{0.5}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		v.Body[len(v.Body)-1-i] = 0xff // residues that no prime allows
	}
	v.Meta.Sequence = sequence.Add(1)
	bad, err := transport.Seal(v.Meta, v.Body[:len(v.Body)-1], key)
	if err != nil {
		t.Fatal(err)
	}
	h := newHolder(t, s, key, state, 0)
	h.take(t, bad)
	h.take(t, good)
	for _, sealed := range [][]byte{bad, good} {
		if got, err := h.outcome(t, "cloud", key, "hencedge/v1/res/mean", sealed); got != "taken" {
			t.Errorf("answered %q, %v", got, err)
		}
	}
	for range 2 {
		if err := h.next(t); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.refused) != 0 || len(h.read) != 1 || h.read[0] != transport.ObjectID(good) || len(h.unread) != 1 ||
		!errors.Is(h.unread[0], ErrUnread) || Class(h.unread[0]) != "unread" {
		t.Errorf("read %x, unread %v, refused %v", h.read, h.unread, h.refused)
	}
	kept, err := filepath.Glob(filepath.Join(state+unreadSuffix, "*"+resultSuffix))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	if b, err := os.ReadFile(kept[0]); err != nil || transport.ObjectID(b) != transport.ObjectID(bad) {
		t.Errorf("%d bytes are kept, %v", len(b), err)
	}
	h.take(t, bad)
	if h.kill(); len(h.unread) != 1 || h.waiting() != 0 {
		t.Errorf("it was taken twice")
	}
	h = newHolder(t, s, key, state, 0)
	defer h.kill()
	if h.take(t, bad); h.waiting() != 0 || !errors.Is(h.refused[0], transport.ErrReplayed) {
		t.Errorf("after a restart: %v", h.refused)
	}
}

// An evaluator learns of its own results only: not of those of another, and nothing about
// topics that carry none of its own.
func TestAskIsBound(t *testing.T) {
	s, key, other := newSet(t), signingKey(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	h := newHolder(t, s, key, "", 0)
	defer h.kill()
	rc, err := NewReceipts(s, ReceiptOptions{Client: h.rc.client, Logger: testrig.Quiet(),
		Evaluators: map[string][]ed25519.PublicKey{"cloud": {key.Public()}, "other": {other.Public()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	h.rc.asks = rc.asks
	taken, refused := c.result([]float64{0.5}, nil), c.result([]float64{0.5}, func(m *transport.Meta) { m.Post = nil })
	h.take(t, taken)
	h.take(t, refused)
	const topic = "hencedge/v1/res/mean"
	for _, tt := range []struct {
		who    string
		key    *transport.SigningKey
		topic  string
		sealed []byte
		want   string
	}{
		{"cloud", key, topic, taken, "taken"},
		{"cloud", key, topic, refused, "refusednot_result"},
		{"cloud", key, topic, []byte("unknown"), "unknown"},
		{"cloud", key, "hencedge/v1/res/secret", []byte("unknown"), "refusednot_approved"},
		{"other", other, topic, taken, "refusednot_approved"},
		{"other", other, topic, refused, "refusednot_approved"},
	} {
		if got, err := h.outcome(t, tt.who, tt.key, tt.topic, tt.sealed); got != tt.want || err != nil {
			t.Errorf("%s about %s: %q, %v, want %q", tt.who, tt.topic, got, err, tt.want)
		}
	}
	if _, err := h.outcome(t, "cloud", key, "hencedge/v1/up/board/s", taken); !errors.Is(err, transport.ErrWrongTopic) {
		t.Errorf("a topic of readings: %v", err)
	}
	if _, err := h.outcome(t, "other", key, topic, taken); !errors.Is(err, transport.ErrUnknownSigner) &&
		!errors.Is(err, transport.ErrSignature) {
		t.Errorf("under another name: %v", err)
	}
}

// Approvals count at once, for exactly their program, and until they are taken back.
func TestApprovals(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	list, err := s.Approvals()
	if err != nil || len(list) != 2 {
		t.Fatalf("%d approvals, %v", len(list), err)
	}
	h := newHolder(t, s, key, "", 0)
	defer h.kill()
	if err := s.Revoke(func(a Approval) bool { return a.Program.Inputs["x"].Stream.Samples == 1 }); err != nil {
		t.Fatal(err)
	}
	one, two := c.result([]float64{0.5}, nil), c.result([]float64{0.5, 0.25}, nil)
	h.take(t, one)
	h.take(t, two)
	if h.waiting() != 1 || len(h.refused) != 1 || !errors.Is(h.refused[0], ErrNotApproved) {
		t.Fatalf("%d wait, refused %v", h.waiting(), h.refused)
	}
	if err := s.Approve(list...); err != nil {
		t.Fatal(err)
	}
	h.take(t, one) // offered again
	if h.waiting() != 2 {
		t.Errorf("after its approval: refused %v", h.refused)
	}
	if list, err := s.Approvals(); err != nil || len(list) != 2 {
		t.Errorf("%d approvals, %v", len(list), err)
	}
	// Windows that are not full: the samples are in the header, and the program for them
	// gives as many values.
	short := c.result([]float64{0.5}, func(m *transport.Meta) {
		m.Layout, m.Present = c.programs[2].Hash(), []uint32{1}
	})
	if h.take(t, short); h.waiting() != 3 {
		t.Errorf("a window that is not full: refused %v", h.refused)
	}
	long := c.result([]float64{0.5}, func(m *transport.Meta) {
		m.Layout, m.Present = c.programs[2].Hash(), []uint32{3}
	})
	if h.take(t, long); h.waiting() != 3 || !errors.Is(h.refused[len(h.refused)-1], ErrWrongProgram) {
		t.Errorf("more samples than a window holds: refused %v", h.refused)
	}
	path := filepath.Join(s.dir, approvalsFile)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Approvals(); !errors.Is(err, ErrPermissions) {
		t.Errorf("a list that others can change: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`[{"evaluator":"cloud","hash":"sha256:00"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if h.take(t, c.result([]float64{0.5}, nil)); h.waiting() != 3 {
		t.Error("a damaged list of approvals approves")
	}
}
