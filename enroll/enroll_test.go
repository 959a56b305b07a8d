package enroll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

const prefix = "hencedge/v1"

func newKey(t testing.TB) *transport.SigningKey {
	t.Helper()
	k, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// house is an operator with a broker and one invitation.
type house struct {
	url      string
	clock    *testrig.Clock
	book     *Book
	operator *transport.SigningKey
	token    *Token
}

func newHouse(t *testing.T) *house {
	t.Helper()
	book, err := OpenBook(filepath.Join(t.TempDir(), "invitations"))
	if err != nil {
		t.Fatal(err)
	}
	h := &house{url: testrig.Broker(t, broker.Options{}).URL(), clock: testrig.NewClock(), book: book,
		operator: newKey(t)}
	h.token = h.invite(t)
	return h
}

func (h *house) invite(t *testing.T) *Token {
	t.Helper()
	now := h.clock.Now()
	token := &Token{Expires: now.Add(time.Hour).Truncate(time.Second), Secret: NewSecret(),
		Operator: PrintOf(h.operator.Public()), Broker: Broker{URL: h.url, Prefix: prefix}}
	if err := h.book.Add(Invitation{ID: token.Secret.ID(), Secret: token.Secret, Class: "pump", Created: now,
		Expires: token.Expires}); err != nil {
		t.Fatal(err)
	}
	return token
}

func (h *house) client(t *testing.T, id string) transport.Client {
	t.Helper()
	c, err := mqtt.Dial(t.Context(), mqtt.Options{URL: h.url, ClientID: id, Live: true, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func (h *house) desk(t *testing.T, id string) *Desk {
	t.Helper()
	d, err := OpenDesk(t.Context(), DeskOptions{Client: h.client(t, id), Prefix: prefix, Book: h.book, Key: h.operator,
		Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// board is a board that asks.
type board struct {
	*Board
	client transport.Client
	end    chan outcome
	stop   func()
}

type outcome struct {
	welcome *Welcome
	err     error
}

func (h *house) board(t *testing.T, device string, token *Token) *board {
	t.Helper()
	client := h.client(t, device)
	b, err := NewBoard(BoardOptions{Client: client, Token: token, Key: newKey(t), Device: device, Host: "test",
		Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out := &board{b, client, make(chan outcome, 1), stop}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w, err := b.Join(ctx)
		out.end <- outcome{w, err}
	}()
	t.Cleanup(func() { stop(); <-done })
	return out
}

// pending waits until n requests wait.
func pending(t *testing.T, d *Desk, n int) (list []Pending) {
	t.Helper()
	testrig.Eventually(t, "requests", func() bool {
		var err error
		list, err = d.Pending()
		return err == nil && len(list) == n
	})
	return list
}

func welcome(size int) *Welcome {
	return &Welcome{Class: "pump", CA: []byte("ca"), Username: "pump17", Password: "sesame", Streams: []byte("streams"),
		Files: map[string][]byte{"public.key": testrig.Pattern(size), "keyset.json": []byte("{}")}}
}

func admitted() error { return nil }

// retained returns what the broker keeps for boards, by topic.
func (h *house) retained(t *testing.T) map[string][]byte {
	t.Helper()
	c := h.client(t, "reader")
	defer c.Close(context.Background())
	got := map[string][]byte{}
	end := make(chan struct{})
	last := prefix + "/join/end/of/all"
	if err := c.Subscribe(t.Context(), prefix+"/join/#", func(m transport.Delivery) {
		defer m.Ack()
		if m.Topic == last {
			close(end)
			return
		}
		// One without bytes takes away what was kept. The broker acknowledges it before it tells subscribers.
		if len(m.Payload) > 0 {
			got[m.Topic] = m.Payload
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(t.Context(), last, []byte{0}, false); err != nil {
		t.Fatal(err)
	}
	<-end
	return got
}

// TestJoin: a board gets what the operator gives it, in several parts, and nothing stays at
// the broker. What crosses the broker shows neither password nor secret.
func TestJoin(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	b := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	if p.Request.Fingerprint() != b.Fingerprint() || p.Request.Device != "pump17" || p.Request.Host != "test" ||
		p.State != StateOpen || p.Rivals != 0 {
		t.Fatalf("the operator sees %+v", p)
	}
	calls := 0
	want := welcome(3 * partSize)
	if err := d.Approve(t.Context(), &p, want, func() error { calls++; return nil }); err != nil {
		t.Fatal(err)
	}
	got := testrig.Receive(t, "an answer", b.end)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.welcome.Password != "sesame" || calls != 1 ||
		!bytes.Equal(got.welcome.Files["public.key"], want.Files["public.key"]) {
		t.Errorf("the board got %d files, %q; admitted %d times", len(got.welcome.Files), got.welcome.Password, calls)
	}
	kept := h.retained(t)
	if len(kept) != 6 { // request, answer, parts
		t.Errorf("the broker keeps %d messages", len(kept))
	}
	for topic, payload := range kept {
		if bytes.Contains(payload, []byte("sesame")) || bytes.Contains(payload, h.token.Secret[:]) {
			t.Errorf("%s shows a secret", topic)
		}
	}
	if err := b.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Joined(testrig.Context(t), &p); err != nil {
		t.Fatal(err)
	}
	if kept := h.retained(t); len(kept) != 1 || kept[NoticeTopic(prefix, p.Invitation.ID)] == nil {
		t.Errorf("the broker keeps %d messages of a board that has joined, want a notice", len(kept))
	}
	i, err := h.book.Find(p.Invitation.ID)
	if err != nil || i.State(h.clock.Now()) != StateJoined || i.Secret != (Secret{}) {
		t.Errorf("the book has %+v, %v", i, err)
	}
}

// TestOneBoard: a token lets one board in. That one may ask again, also from another process
// of the operator.
func TestOneBoard(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	first := h.board(t, "pump17", h.token)
	one := pending(t, d, 1)[0]
	thief := h.board(t, "pump18", h.token)
	both := pending(t, d, 2)
	if both[0].Rivals != 1 || both[1].Rivals != 1 {
		t.Errorf("two boards with a token are not shown: %+v", both)
	}
	if err := d.Approve(t.Context(), &one, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	if got := testrig.Receive(t, "an answer", first.end); got.err != nil {
		t.Fatal(got.err)
	}
	if got := testrig.Receive(t, "a refusal", thief.end); !errors.Is(got.err, ErrRefused) ||
		!strings.Contains(got.err.Error(), used) {
		t.Errorf("the other board ends with %v", got.err)
	}
	other := h.desk(t, "desk2")
	pending(t, other, 1)
	for _, p := range both {
		called := false
		err := other.Approve(t.Context(), &p, welcome(10), func() error { called = true; return nil })
		if again := p.Request.Device == "pump17"; again != (err == nil) || called != again || !again &&
			!errors.Is(err, ErrUsed) {
			t.Errorf("%s is answered a second time with %v, admitted: %v", p.Request.Device, err, called)
		}
	}
	late := h.board(t, "pump19", h.token)
	pending(t, other, 2)
	if err := other.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testrig.Receive(t, "a refusal", late.end); !errors.Is(got.err, ErrRefused) {
		t.Errorf("a board that asks later ends with %v", got.err)
	}
	pending(t, other, 1)
}

// TestUsedToken: a board that asks with the token of one that has joined is told at once, with no desk open. Only
// the operator can say so, of this token alone, and nothing stays at the broker once it has expired.
func TestUsedToken(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	first := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	if got := testrig.Receive(t, "an answer", first.end); got.err != nil {
		t.Fatal(got.err)
	}
	if err := first.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Joined(testrig.Context(t), &p); err != nil {
		t.Fatal(err)
	}
	if err := d.Client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := h.board(t, "pump18", h.token)
	if got := testrig.Receive(t, "a refusal", late.end); !errors.Is(got.err, ErrRefused) ||
		!strings.Contains(got.err.Error(), joined) {
		t.Errorf("a board with a used token ends with %v", got.err)
	}

	genuine := h.retained(t)[NoticeTopic(prefix, p.Invitation.ID)]
	forged, err := sealNotice(p.Invitation.ID, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBoard(BoardOptions{Client: late.client, Token: h.invite(t), Key: newKey(t), Device: "pump19",
		Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string][]byte{"of another token": genuine, "of somebody else": forged,
		"empty": nil} {
		if b.takeNotice(transport.Delivery{Payload: payload}); b.answer != nil {
			t.Errorf("a notice %s ends the board", name)
		}
	}

	h.clock.Advance(2 * time.Hour)
	if err := h.desk(t, "desk2").Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := h.retained(t); len(kept) > 0 {
		t.Errorf("the broker keeps %d messages of an invitation that has expired", len(kept))
	}
}

// TestRevokeBesideNotice: a revocation that has read the book before another process left a notice takes it away too,
// and none comes after it.
func TestRevokeBesideNotice(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	first := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	if got := testrig.Receive(t, "an answer", first.end); got.err != nil {
		t.Fatal(got.err)
	}
	if err := first.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := p.Invitation.ID
	before, err := h.book.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Joined(testrig.Context(t), &p); err != nil {
		t.Fatal(err)
	}
	if h.retained(t)[NoticeTopic(prefix, id)] == nil {
		t.Fatal("there is no notice")
	}
	if err := d.forget(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if kept := h.retained(t); len(kept) > 0 {
		t.Errorf("the broker keeps %d messages of an invitation that was revoked", len(kept))
	}

	before.Board.Joined, before.Revoked = true, true
	if err := errors.Join(h.book.Add(*before), d.notice(t.Context(), id)); err != nil {
		t.Fatal(err)
	}
	if kept := h.retained(t); len(kept) > 0 {
		t.Errorf("the broker keeps %d messages of an invitation that is being revoked", len(kept))
	}
}

// TestTwoBoards: of two boards with one token that two commands approve at once, one is let in. The
// other is told, and so is who approved it.
func TestTwoBoards(t *testing.T) {
	h := newHouse(t)
	desks := []*Desk{h.desk(t, "desk"), h.desk(t, "desk2")}
	for round := range 8 {
		token := h.invite(t)
		boards := map[string]*board{}
		for _, name := range []string{fmt.Sprint("left", round), fmt.Sprint("right", round)} {
			boards[name] = h.board(t, name, token)
		}
		var asks []Pending
		for _, d := range desks { // each has heard of both
			testrig.Eventually(t, "both requests", func() bool {
				list, err := d.Pending()
				asks = slices.DeleteFunc(list, func(p Pending) bool { return p.Invitation.ID != token.Secret.ID() })
				return err == nil && len(asks) == 2
			})
		}
		ends := make([]error, 2)
		var both sync.WaitGroup
		for k, d := range desks {
			both.Go(func() { ends[k] = d.Approve(t.Context(), &asks[k], welcome(10), admitted) })
		}
		both.Wait()
		won := 0
		if ends[0] != nil {
			won = 1
		}
		if ends[won] != nil || !errors.Is(ends[1-won], ErrUsed) {
			t.Fatalf("two boards are let in with %v", ends)
		}
		if got := testrig.Receive(t, "an answer", boards[asks[won].Request.Device].end); got.err != nil {
			t.Errorf("the board that was let in ends with %v", got.err)
		}
		if got := testrig.Receive(t, "a refusal", boards[asks[1-won].Request.Device].end); !errors.Is(got.err,
			ErrRefused) || !strings.Contains(got.err.Error(), used) {
			t.Errorf("the other board ends with %v", got.err)
		}
	}
}

// TestRevokeInApprove: of a revocation and an approval at the same time one wins, and the other
// says so. Where the revocation does, nothing stays at the broker, and the board is told.
func TestRevokeInApprove(t *testing.T) {
	for name, when := range map[string]string{"before": "", "while the device is listed": "listed",
		"while the answer is published": "published"} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			other := h.desk(t, "desk2")
			revoke := func() {
				if _, err := other.Revoke(t.Context(), h.token.Secret.ID()); err != nil {
					t.Error(err)
				}
			}
			client := &hooked{Client: h.client(t, "desk")}
			d, err := OpenDesk(t.Context(), DeskOptions{Client: client, Prefix: prefix, Book: h.book, Key: h.operator,
				Now: h.clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			b := h.board(t, "pump17", h.token)
			p := pending(t, d, 1)[0]
			pending(t, other, 1)
			calls := 0
			switch when {
			case "":
				revoke()
			case "published":
				client.before = revoke
			}
			err = d.Approve(t.Context(), &p, welcome(3*partSize), func() error {
				if calls++; when == "listed" {
					revoke()
				}
				return nil
			})
			want := ErrRevoked
			if when == "" {
				want = ErrUnknown // it is forgotten
			}
			if !errors.Is(err, want) || (calls > 0) != (when != "") {
				t.Errorf("approved with %v, the device was listed %d times", err, calls)
			}
			if got := testrig.Receive(t, "a refusal", b.end); !errors.Is(got.err, ErrRefused) ||
				!strings.Contains(got.err.Error(), revoked) {
				t.Errorf("the board ends with %v", got.err)
			}
			if kept := h.retained(t); len(kept) > 0 {
				t.Errorf("the broker keeps %d messages", len(kept))
			}
			if list, err := h.book.List(); err != nil || len(list) != 0 {
				t.Errorf("the book has %d invitations, %v", len(list), err)
			}
		})
	}
}

// TestRevokeBesideApprove: whatever the order of a revocation and an approval, they agree.
func TestRevokeBesideApprove(t *testing.T) {
	h := newHouse(t)
	if _, err := h.desk(t, "desk0").Revoke(t.Context(), h.token.Secret.ID()); err != nil {
		t.Fatal(err)
	}
	d, other := h.desk(t, "desk"), h.desk(t, "desk2")
	won := 0
	for round := range 20 {
		token := h.invite(t)
		b := h.board(t, fmt.Sprint("pump", round), token)
		p := pending(t, d, 1)[0]
		pending(t, other, 1)
		var approved, revoked error
		var admittedBoard *Admitted
		var both sync.WaitGroup
		both.Go(func() { approved = d.Approve(t.Context(), &p, welcome(10), admitted) })
		both.Go(func() { admittedBoard, revoked = other.Revoke(t.Context(), token.Secret.ID()) })
		both.Wait()
		if revoked != nil {
			t.Fatal(revoked)
		}
		switch {
		case approved == nil && admittedBoard == nil, approved != nil && !errors.Is(approved, ErrRevoked) &&
			!errors.Is(approved, ErrUnknown):
			t.Errorf("approved with %v, revoked after %+v", approved, admittedBoard)
		case approved == nil:
			won++
		}
		if got := testrig.Receive(t, "an end", b.end); got.err != nil && !errors.Is(got.err, ErrRefused) {
			t.Errorf("the board ends with %v", got.err)
		}
		pending(t, d, 0)
		pending(t, other, 0)
		if kept := h.retained(t); len(kept) > 0 {
			t.Errorf("the broker keeps %d messages", len(kept))
		}
	}
	t.Logf("%d of 20 approvals came first", won)
}

// hooked is a client that does something before it publishes an answer.
type hooked struct {
	transport.Client
	before func()
	once   sync.Once
}

func (c *hooked) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if retain && len(payload) > 0 && c.before != nil {
		c.once.Do(c.before)
	}
	return c.Client.Publish(ctx, topic, payload, retain)
}

// TestExpired: after its time a token gives nothing, whether the board or the operator is late.
func TestExpired(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	h.clock.Advance(2 * time.Hour)
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); !errors.Is(err, ErrExpired) {
		t.Errorf("approved with %v", err)
	}
	_, err := NewBoard(BoardOptions{Client: h.client(t, "late"), Token: h.token, Key: newKey(t), Device: "late",
		Now: h.clock.Now})
	if !errors.Is(err, ErrExpired) {
		t.Errorf("a board asks with %v", err)
	}
	if err := d.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := h.book.List(); err != nil || len(list) != 0 {
		t.Errorf("the book has %d invitations, %v", len(list), err)
	}
	if kept := h.retained(t); len(kept) > 0 {
		t.Errorf("the broker keeps %d messages", len(kept))
	}
}

// TestRefuse: a board that is refused says why, and the token stays good for another.
func TestRefuse(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	b := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	if err := d.Refuse(t.Context(), &p, "not ours"); err != nil {
		t.Fatal(err)
	}
	if got := testrig.Receive(t, "an answer", b.end); !errors.Is(got.err, ErrRefused) ||
		!strings.Contains(got.err.Error(), "not ours") {
		t.Errorf("the board ends with %v", got.err)
	}
	pending(t, d, 0)
	h.board(t, "pump18", h.token)
	pending(t, d, 1)
	if _, err := d.Revoke(t.Context(), h.token.Secret.ID()); err != nil {
		t.Fatal(err)
	}
	pending(t, d, 0)
	if kept := h.retained(t); len(kept) > 0 {
		t.Errorf("the broker keeps %d messages", len(kept))
	}
}

// TestTidyAfterFailure: what could not be removed from the broker when a board had joined is
// removed later.
func TestTidyAfterFailure(t *testing.T) {
	h := newHouse(t)
	client := &keeping{Client: h.client(t, "desk")}
	d, err := OpenDesk(t.Context(), DeskOptions{Client: client, Prefix: prefix, Book: h.book, Key: h.operator,
		Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	b := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	if got := testrig.Receive(t, "an answer", b.end); got.err != nil {
		t.Fatal(got.err)
	}
	if err := b.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Joined(testrig.Context(t), &p); !errors.Is(err, errKept) {
		t.Fatalf("joined with %v", err)
	}
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); !errors.Is(err, ErrUsed) {
		t.Errorf("a board that has joined is answered with %v", err)
	}
	if err := h.desk(t, "desk2").Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := h.retained(t); len(kept) != 1 || kept[NoticeTopic(prefix, p.Invitation.ID)] == nil {
		t.Errorf("the broker keeps %d messages, want a notice", len(kept))
	}
	i, err := h.book.Find(p.Invitation.ID)
	if err != nil || i.State(h.clock.Now()) != StateJoined || i.Secret != (Secret{}) {
		t.Errorf("the book has %+v, %v", i, err)
	}
}

// keeping is a client that cannot remove what the broker retains.
type keeping struct{ transport.Client }

var errKept = errors.New("the broker keeps it")

func (c *keeping) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if len(payload) == 0 {
		return errKept
	}
	return c.Client.Publish(ctx, topic, payload, retain)
}

// TestRevokeAfterFailure: a token is worthless once the operator has revoked it, also if the broker
// keeps what lies there for it, and that is removed later.
func TestRevokeAfterFailure(t *testing.T) {
	h := newHouse(t)
	d, err := OpenDesk(t.Context(), DeskOptions{Client: &keeping{Client: h.client(t, "desk")}, Prefix: prefix,
		Book: h.book, Key: h.operator, Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	if board, err := d.Revoke(t.Context(), p.Invitation.ID); !errors.Is(err, errKept) || board == nil ||
		board.Device != "pump17" {
		t.Fatalf("revoked with %v, after %+v", err, board)
	}
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); !errors.Is(err, ErrRevoked) {
		t.Errorf("a board with a token that was revoked is answered with %v", err)
	}
	if i, err := h.book.Find(p.Invitation.ID); err != nil || i.State(h.clock.Now()) != StateRevoked {
		t.Errorf("the book has %+v, %v", i, err)
	}
	if err := h.desk(t, "desk2").Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := h.retained(t); len(kept) > 0 {
		t.Errorf("the broker keeps %d messages", len(kept))
	}
	if list, err := h.book.List(); err != nil || len(list) != 0 {
		t.Errorf("the book has %d invitations, %v", len(list), err)
	}
}

// TestExpiredAnswer: an answer that no board fetched in time is removed once, and the secret is
// forgotten with it.
func TestExpiredAnswer(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	b := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	b.stop()
	testrig.Receive(t, "the end", b.end)
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	h.clock.Advance(2 * time.Hour)
	if err := d.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := h.retained(t); len(kept) > 0 {
		t.Errorf("the broker keeps %d messages", len(kept))
	}
	i, err := h.book.Find(p.Invitation.ID)
	if err != nil || i.State(h.clock.Now()) != StateExpired || i.Secret != (Secret{}) {
		t.Errorf("the book has %+v, %v", i, err)
	}
}

// TestAsksAnew: the operator sees that a board was interrupted before it had its answer.
func TestAsksAnew(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	b := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	if p.Again {
		t.Error("a first request is said to come anew")
	}
	b.stop()
	testrig.Receive(t, "the end", b.end)
	pending(t, d, 0)
	if err := d.Approve(t.Context(), &p, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	anew, err := NewBoard(b.BoardOptions)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sealRequest(anew.request, anew.Key, h.token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	topic := AskTopic(prefix, p.Invitation.ID, anew.board)
	if err := h.client(t, "again").Publish(t.Context(), topic, raw, true); err != nil {
		t.Fatal(err)
	}
	again := pending(t, d, 1)[0]
	if !again.Again || again.State != StateApproved {
		t.Errorf("the operator sees %+v", again)
	}
	if err := d.Approve(t.Context(), &again, welcome(10), admitted); err != nil {
		t.Fatal(err)
	}
	if answered := pending(t, d, 1)[0]; answered.Again {
		t.Error("a request that was answered is said to come anew")
	}
}

// TestStrays: guests without a token cannot fill the topics for good. A few messages stay: boards
// that another operator has invited may have sent them.
func TestStrays(t *testing.T) {
	h := newHouse(t)
	guest := h.client(t, "guest")
	send := func(from, to int) {
		for n := range to - from {
			topic := AskTopic(prefix, fmt.Sprintf("%020x", from+n), "x")
			if n%2 == 1 {
				topic = AskTopic(prefix, h.token.Secret.ID(), fmt.Sprint(from+n))
			}
			if err := guest.Publish(t.Context(), topic, []byte("x"), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.board(t, "pump17", h.token)
	pending(t, h.desk(t, "first"), 1)
	for _, c := range []struct{ from, to, kept int }{{0, maxStrays, maxStrays + 1}, {maxStrays, maxStrays + 1, 1}} {
		send(c.from, c.to)
		d := h.desk(t, fmt.Sprintf("desk%d", c.to))
		if err := d.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept := h.retained(t); len(kept) != c.kept {
			t.Errorf("after %d messages of a guest the broker keeps %d, want %d", c.to, len(kept), c.kept)
		}
		pending(t, d, 1)
	}
}

// TestAskAgain: a request that a guest has overwritten comes again.
func TestAskAgain(t *testing.T) {
	h := newHouse(t)
	b, err := NewBoard(BoardOptions{Client: h.client(t, "pump17"), Token: h.token, Key: newKey(t), Device: "pump17",
		Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	b.again = 50 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() {
		_, err := b.Join(ctx)
		end <- err
	}()
	pending(t, h.desk(t, "early"), 1)
	topic := AskTopic(prefix, h.token.Secret.ID(), BoardID(b.Key.Public()))
	if err := h.client(t, "guest").Publish(t.Context(), topic, []byte("x"), true); err != nil {
		t.Fatal(err)
	}
	pending(t, h.desk(t, "late"), 1)
	stop()
	if err := testrig.Receive(t, "the end", end); !errors.Is(err, context.Canceled) {
		t.Errorf("the board ends with %v", err)
	}
}

// TestForgeries: messages of those who have no token, or a token and not the operator's key,
// change nothing for the others.
func TestForgeries(t *testing.T) {
	h := newHouse(t)
	d := h.desk(t, "desk")
	b := h.board(t, "pump17", h.token)
	p := pending(t, d, 1)[0]
	id, name := h.token.Secret.ID(), BoardID(p.Request.PublicKey)
	attacker := h.client(t, "attacker")
	publish := func(topic string, payload []byte) {
		t.Helper()
		if err := attacker.Publish(t.Context(), topic, payload, true); err != nil {
			t.Fatal(err)
		}
	}
	made := *p.Request
	made.Device, made.PublicKey = "pump666", newKey(t).Public()
	without, err := sealRequest(&made, newKey(t), NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	// Another's key: who asks must hold the key that the request names.
	unsigned, err := sealRequest(&made, newKey(t), h.token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	done, err := sealDone([32]byte{}, newKey(t), h.token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range [][]byte{without, unsigned, done, []byte("x"), make([]byte, maxAsk+1)} {
		publish(AskTopic(prefix, id, name), payload)
		publish(AskTopic(prefix, id, "0123456789abcdef"), payload)
		publish(AskTopic(prefix, "00000000000000000000", name), payload)
	}
	// An answer of somebody else who knows the token, and the parts of it.
	head, parts, err := sealWelcome(welcome(10), p.Request, newKey(t), h.token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	publish(AnswerTopic(prefix, id, name), head)
	publish(PartTopic(prefix, id, name, 1), parts[0])
	publish(PartTopic(prefix, id, name, 100), parts[0])
	// An old answer of the operator to another request.
	old := *p.Request
	old.hash[0] ^= 1
	if head, _, err = sealWelcome(welcome(10), &old, h.operator, h.token.Secret); err != nil {
		t.Fatal(err)
	}
	publish(AnswerTopic(prefix, id, name), head)
	if again := pending(t, d, 1)[0]; again.Request.Fingerprint() != b.Fingerprint() {
		t.Errorf("the operator sees %s", again.Request.Fingerprint())
	}
	if err := d.Approve(t.Context(), &p, welcome(partSize), admitted); err != nil {
		t.Fatal(err)
	}
	if got := testrig.Receive(t, "an answer", b.end); got.err != nil || got.welcome.Password != "sesame" {
		t.Errorf("the board ends with %+v, %v", got.welcome, got.err)
	}
}

// TestAnswerLengths: a signed answer of an impossible length is refused before anything is
// allocated for it.
func TestAnswerLengths(t *testing.T) {
	operator, request := newKey(t), [32]byte{1}
	for _, length := range []int{math.MinInt, -1, 0, 15, 16, maxParts * sealedPart, maxParts*sealedPart + 1,
		math.MaxInt} {
		head, err := sealAnswer(wireAnswer{Request: request[:], Accepted: true, Length: length,
			Digest: make([]byte, 32)}, operator)
		if err != nil {
			t.Fatal(err)
		}
		_, err = openAnswer(head, PrintOf(operator.Public()), request)
		if possible := length == 16 || length == maxParts*sealedPart; possible != (err == nil) ||
			!possible && !errors.Is(err, ErrMalformed) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

// TestTamperedParts: a broker that changes, drops or exchanges parts delays the answer.
func TestTamperedParts(t *testing.T) {
	h := newHouse(t)
	r := &Request{Device: "pump17", PublicKey: newKey(t).Public(), Made: h.clock.Now()}
	own := newEphemeral()
	r.ephemeral = own.PublicKey().Bytes()
	if _, err := sealRequest(r, newKey(t), h.token.Secret); err != nil {
		t.Fatal(err)
	}
	head, parts, err := sealWelcome(welcome(2*partSize), r, h.operator, h.token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	a, err := openAnswer(head, h.token.Operator, r.hash)
	if err != nil || a.parts() != len(parts) || len(parts) != 3 {
		t.Fatalf("%d parts, announced %d: %v", len(parts), a.parts(), err)
	}
	if _, err := openWelcome(parts, a, own, h.token.Secret); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(parts[1])
	changed[7] ^= 1
	for name, bad := range map[string][][]byte{"changed": {parts[0], changed, parts[2]},
		"exchanged": {parts[1], parts[0], parts[2]}, "dropped": parts[:2]} {
		if _, err := openWelcome(bad, a, own, h.token.Secret); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The token alone opens nothing, nor does the key of the exchange alone.
	if _, err := openWelcome(parts, a, newEphemeral(), h.token.Secret); !errors.Is(err, ErrForged) {
		t.Errorf("with the token: %v", err)
	}
	if _, err := openWelcome(parts, a, own, NewSecret()); !errors.Is(err, ErrForged) {
		t.Errorf("without the token: %v", err)
	}
}

func TestToken(t *testing.T) {
	want := &Token{Expires: time.Unix(1800000000, 0).UTC(), Secret: NewSecret(), Operator: Print{1}, Holder: Print{2},
		CA: Print{3}, Broker: Broker{URL: "tls://broker.example:8883", Prefix: prefix, ServerName: "b", ALPN: "mqtt",
			Username: "guest", Password: "s3cret"}, Device: "pump17"}
	text, err := want.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{text, strings.ToUpper(text), text[:40] + "\n " + text[40:]} {
		if got, err := ParseToken(typed); err != nil || *got != *want {
			t.Errorf("%q gives %+v, %v", typed, got, err)
		}
	}
	for i := len(tokenPrefix); i < len(text); i++ { // each typing error is found
		wrong := []byte(text)
		if wrong[i] == 'a' {
			wrong[i] = 'b'
		} else {
			wrong[i] = 'a'
		}
		if _, err := ParseToken(string(wrong)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%s: %v", wrong, err)
		}
	}
	pub := newKey(t).Public()
	if got, want := PrintOf(pub).String(), transport.Fingerprint(pub); got != want {
		t.Errorf("print %s, fingerprint %s", got, want)
	}
	for name, spoil := range map[string]func(*Token){"no broker": func(t *Token) { t.Broker.URL = "" },
		"no prefix": func(t *Token) { t.Broker.Prefix = "" }, "wildcard": func(t *Token) { t.Broker.Prefix = "a/#" },
		"no secret":   func(t *Token) { t.Secret = Secret{} },
		"a path":      func(t *Token) { t.Device = "../x" },
		"no time":     func(t *Token) { t.Expires = time.Unix(0, 0) },
		"a long name": func(t *Token) { t.Broker.Username = strings.Repeat("x", maxText+1) }} {
		bad := *want
		spoil(&bad)
		if _, err := bad.Text(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBook: secrets lie in files that only their owner reads.
func TestBook(t *testing.T) {
	h := newHouse(t)
	id := h.token.Secret.ID()
	info, err := os.Stat(filepath.Join(h.book.dir, id+fileSuffix))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if _, err := h.book.Find("../" + id); !errors.Is(err, ErrUnknown) {
		t.Errorf("a path: %v", err)
	}
	failed := errors.New("no")
	if err := h.book.Change(id, func(i *Invitation) error { i.Class = "x"; return failed }); !errors.Is(err, failed) {
		t.Errorf("change: %v", err)
	}
	if i, err := h.book.Find(id); err != nil || i.Class != "pump" || i.Secret != h.token.Secret {
		t.Errorf("the book has %+v, %v", i, err)
	}
	if last, err := h.book.Remove(id); err != nil || last.ID != id {
		t.Fatalf("removed: %+v, %v", last, err)
	}
	if _, err := h.book.Remove(id); !errors.Is(err, ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	if err := os.Chmod(h.book.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBook(h.book.dir); err == nil {
		t.Error("a directory that others read is taken")
	}
}

// TestWitness: the broker must have shown a certificate of the authority that the token names.
func TestWitness(t *testing.T) {
	right, wrong := newCA(t), newCA(t)
	server, err := right.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	b := testrig.Broker(t, broker.Options{TLS: server})
	for name, c := range map[string]struct {
		host      string
		authority []byte
		want      []byte
		err       error
	}{
		"right":       {"127.0.0.1", right.PEM(), right.PEM(), nil},
		"other name":  {"broker.example", right.PEM(), right.PEM(), ErrForged},
		"other token": {"127.0.0.1", right.PEM(), wrong.PEM(), ErrForged},
		"other CA":    {"127.0.0.1", wrong.PEM(), wrong.PEM(), ErrForged},
		"no CA":       {"127.0.0.1", []byte("x"), right.PEM(), ErrMalformed},
	} {
		w := NewWitness(c.host)
		client, err := mqtt.Dial(t.Context(), mqtt.Options{URL: b.URL(), ClientID: "w", TLS: w.TLS(), Live: true,
			Logger: testrig.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		client.Close(t.Context())
		want, err := Authority(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Check(c.authority, want); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func newCA(t *testing.T) *tlsutil.DevCA {
	t.Helper()
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestLookingDesk: a desk without the operator's key shows requests, also with a token that is
// younger than the desk, and answers none.
func TestLookingDesk(t *testing.T) {
	h := newHouse(t)
	d, err := OpenDesk(t.Context(), DeskOptions{Client: h.client(t, "desk"), Prefix: prefix, Book: h.book,
		Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	changed := d.Changed()
	h.board(t, "pump17", h.invite(t))
	testrig.Receive(t, "a change", changed)
	p := pending(t, d, 1)[0]
	if p.Request.Device != "pump17" || p.State != StateOpen {
		t.Errorf("the desk shows %+v", p)
	}
	if err := d.Approve(t.Context(), &p, welcome(1), admitted); !errors.Is(err, ErrNoKey) {
		t.Errorf("it lets boards in: %v", err)
	}
	if err := d.Refuse(t.Context(), &p, "no"); !errors.Is(err, ErrNoKey) {
		t.Errorf("it refuses boards: %v", err)
	}
	if i, err := h.book.Find(p.Invitation.ID); err != nil || i.Board != nil {
		t.Errorf("the invitation is %+v, %v", i, err)
	}
}
