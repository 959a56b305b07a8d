package enroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/transport"
)

// Limits of a Desk.
const (
	maxBoards   = 16               // that ask with one token
	publishing  = 16               // parts of an answer under way
	echoTimeout = 10 * time.Second // for the broker's echo of the desk's own message
	maxStrays   = 64               // messages that Tidy lets lie although nobody here invited who sent them
	strayBytes  = 1 << 20          // of the topics of such messages that a Desk remembers
)

// DeskOptions say what a Desk works with. All but Key and Now are required.
type DeskOptions struct {
	// Client must be live (mqtt.Options.Live): its handlers are called in order, by which OpenDesk
	// knows that it has all that is retained, and the broker keeps no session of it.
	Client transport.Client
	Prefix string // of topics
	Book   *Book
	Key    *transport.SigningKey // of the operator; nil: the desk shows requests and answers none
	Now    func() time.Time      // nil: time.Now
}

// A Desk is where an operator sees requests and answers them. It is safe for concurrent use.
type Desk struct {
	DeskOptions

	mu      sync.Mutex
	asks    map[string]map[string]ask // by invitation and board
	secrets map[string]Secret         // of invitations that are in the book
	changed chan struct{}             // closed at each change of asks
	strays  map[string]struct{}       // topics that are retained and nobody authenticates
	noted   int                       // bytes of strays
}

// ask are the last messages of a board that the secret of its invitation authenticates.
type ask struct{ request, done []byte }

// A Pending request is one that waits for an answer, or whose answer waits for the board.
type Pending struct {
	Invitation Invitation
	Request    *Request
	State      string // of the invitation
	// Again: the board was answered before, has not said that it has the answer, and has made
	// a new request, to which that answer is worth nothing.
	Again bool
	// Rivals are other boards that ask with the same token: somebody may have stolen it.
	Rivals int
}

// OpenDesk subscribes to what boards ask, and returns when the broker has given it all
// requests that wait.
func OpenDesk(ctx context.Context, o DeskOptions) (*Desk, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Desk{DeskOptions: o, asks: map[string]map[string]ask{}, secrets: map[string]Secret{},
		changed: make(chan struct{}), strays: map[string]struct{}{}}
	list, err := o.Book.List()
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		if i.Secret != (Secret{}) {
			d.secrets[i.ID] = i.Secret
		}
	}
	// A broker delivers what is retained when the subscription is made. So its echo of a
	// message of our own comes after that.
	echo, heard := AskTopic(o.Prefix, NewSecret().ID(), "echo"), make(chan struct{})
	var once sync.Once
	err = o.Client.Subscribe(ctx, askFilter(o.Prefix), func(m transport.Delivery) {
		if m.Topic == echo {
			once.Do(func() { close(heard) })
		} else {
			d.take(m)
		}
		m.Ack()
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe %s: %w", askFilter(o.Prefix), err)
	}
	if err := o.Client.Publish(ctx, echo, []byte{0}, false); err != nil {
		return nil, fmt.Errorf("publish %s: %w", echo, err)
	}
	late := time.NewTimer(echoTimeout)
	defer late.Stop()
	select {
	case <-heard:
		return d, nil
	case <-late.C:
		return nil, fmt.Errorf("the broker does not let this user publish and read %s/join/#", o.Prefix)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take keeps a message that comes from the owner of a token. All others cost a MAC.
func (d *Desk) take(m transport.Delivery) {
	id, board, ok := cutAsk(d.Prefix, m.Topic)
	d.mu.Lock()
	defer d.mu.Unlock()
	var secret Secret
	if ok {
		secret, ok = d.secretOf(id)
	}
	if !ok {
		d.stray(m)
		return
	}
	now, again := d.asks[id][board]
	switch r, err := openRequest(m.Payload, secret); {
	case len(m.Payload) == 0:
		delete(d.asks[id], board)
		d.forgetStray(m.Topic)
	case !again && len(d.asks[id]) >= maxBoards:
		d.stray(m)
		return
	case err == nil && BoardID(r.PublicKey) == board:
		now.request = m.Payload
	case isDoneForm(m.Payload, secret): // its signature is checked with the key of the board
		now.done = m.Payload
	default:
		d.stray(m)
		return
	}
	if len(m.Payload) > 0 {
		d.forgetStray(m.Topic)
		if d.asks[id] == nil {
			d.asks[id] = map[string]ask{}
		}
		d.asks[id][board] = now
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

// stray notes a message that no board of this operator sent, as far as there is room. It needs mu.
func (d *Desk) stray(m transport.Delivery) {
	d.forgetStray(m.Topic)
	if len(m.Payload) > 0 && m.Retained && d.noted+len(m.Topic) <= strayBytes {
		d.strays[m.Topic] = struct{}{}
		d.noted += len(m.Topic)
	}
}

// forgetStray notes that a topic has no such message any more. It needs mu.
func (d *Desk) forgetStray(topic string) {
	if _, known := d.strays[topic]; known {
		delete(d.strays, topic)
		d.noted -= len(topic)
	}
}

// clearStrays removes the messages of guests without a token once there are more than maxStrays.
// Fewer may be those of boards that another operator has invited; such boards ask again.
func (d *Desk) clearStrays(ctx context.Context) error {
	d.mu.Lock()
	var topics []string
	if len(d.strays) > maxStrays {
		topics = slices.Sorted(maps.Keys(d.strays))
		d.noted = 0
		clear(d.strays)
	}
	d.mu.Unlock()
	return d.clear(ctx, topics...)
}

// secretOf returns the secret of an invitation, which may be younger than the desk. d.mu is held.
func (d *Desk) secretOf(id string) (Secret, bool) {
	if secret, known := d.secrets[id]; known {
		return secret, true
	}
	i, err := d.Book.Find(id)
	if err != nil || i.Secret == (Secret{}) {
		return Secret{}, false
	}
	d.secrets[id] = i.Secret
	return i.Secret, true
}

// Changed returns a channel that is closed when a board has asked, or taken its request back.
func (d *Desk) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// ask returns the messages of a board, and a channel that is closed when any has changed.
func (d *Desk) ask(id, board string) (ask, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asks[id][board], d.changed
}

// Pending returns the requests that wait, the oldest invitation first.
func (d *Desk) Pending() ([]Pending, error) {
	list, err := d.Book.List()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Pending
	for _, i := range list {
		first := len(out)
		for _, a := range d.asks[i.ID] {
			if r, err := openRequest(a.request, i.Secret); err == nil {
				out = append(out, Pending{Invitation: i, Request: r, State: i.State(d.Now()), Again: asksAnew(&i, r)})
			}
		}
		mine := out[first:]
		for k := range mine {
			mine[k].Rivals = len(mine) - 1
		}
		slices.SortFunc(mine, func(x, y Pending) int {
			return cmp.Or(x.Request.Made.Compare(y.Request.Made),
				strings.Compare(x.Request.Fingerprint(), y.Request.Fingerprint()))
		})
	}
	return out, nil
}

// asksAnew reports whether a board that was let in has made another request than the one that was
// answered.
func asksAnew(i *Invitation, r *Request) bool {
	return i.Board != nil && !i.Board.Joined && i.Board.PublicKey == transport.FormatPublicKey(r.PublicKey) &&
		i.Board.Request != r.hash
}

// Approve lets the board of a request in: it marks the invitation as used, calls admit,
// which tells the evaluator, publishes the answer, and tells other boards that ask with the same
// token that it is used. It fails with ErrExpired, ErrRevoked or ErrUsed, and otherwise may be
// repeated until the board has the answer. Without a key it fails with ErrNoKey. If the invitation
// was revoked meanwhile, ErrRevoked may come after a call of admit, which is to be undone.
func (d *Desk) Approve(ctx context.Context, p *Pending, w *Welcome, admit func() error) error {
	if d.Key == nil {
		return ErrNoKey
	}
	head, parts, err := sealWelcome(w, p.Request, d.Key, p.Invitation.Secret)
	if err != nil {
		return err
	}
	id, board := p.Invitation.ID, BoardID(p.Request.PublicKey)
	stale := 0
	err = d.Book.Change(id, func(i *Invitation) error {
		key := transport.FormatPublicKey(p.Request.PublicKey)
		switch {
		case i.Revoked:
			return ErrRevoked
		case i.Board != nil && i.Board.PublicKey != key:
			return fmt.Errorf("%w: %s, at %s", ErrUsed, i.Board.Device, i.Board.At.Format(time.RFC3339))
		case i.State(d.Now()) == StateExpired:
			return fmt.Errorf("%w at %s", ErrExpired, i.Expires.Format(time.RFC3339))
		case i.Board != nil && i.Board.Joined:
			return fmt.Errorf("%w: the board has joined", ErrUsed)
		case i.Board != nil:
			stale = i.Board.Parts
		}
		i.Board = &Admitted{Device: p.Request.Device, PublicKey: key, At: d.Now().UTC(),
			Request: p.Request.hash, Answer: hashOf(head), Parts: max(stale, len(parts))}
		return nil
	})
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w; it was revoked, or has expired", err)
	}
	if err != nil {
		return err
	}
	if err := admit(); err != nil {
		return err
	}
	if err := errors.Join(d.publish(ctx, id, board, head, parts), d.stands(ctx, p, len(parts))); err != nil {
		return err
	}
	return d.turnAway(ctx, &p.Invitation, board, used)
}

// What boards are told whose token is of no use to them.
const (
	used    = "another board was let in with this token"
	revoked = "the operator revoked the token"
	joined  = "a board has joined with this token already; hencedge invite makes another one"
)

func (d *Desk) publish(ctx context.Context, id, board string, head []byte, parts [][]byte) error {
	g, asking := errgroup.WithContext(ctx)
	g.SetLimit(publishing)
	for i, part := range parts {
		g.Go(func() error { return d.Client.Publish(asking, PartTopic(d.Prefix, id, board, i+1), part, true) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("publish the answer: %w", err)
	}
	if err := d.Client.Publish(ctx, AnswerTopic(d.Prefix, id, board), head, true); err != nil {
		return fmt.Errorf("publish the answer: %w", err)
	}
	return nil
}

// stands fails with ErrRevoked if an invitation was revoked after a board was marked in the book,
// and takes back the answer, which Revoke may have missed.
func (d *Desk) stands(ctx context.Context, p *Pending, parts int) error {
	i, err := d.Book.Find(p.Invitation.ID)
	if err == nil && !i.Revoked {
		return nil
	}
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	gone := Invitation{ID: p.Invitation.ID,
		Board: &Admitted{PublicKey: transport.FormatPublicKey(p.Request.PublicKey), Parts: parts}}
	return errors.Join(fmt.Errorf("%w while %s was being let in: its answer was taken back", ErrRevoked,
		p.Request.Device), d.sweep(ctx, &gone))
}

// turnAway refuses the boards that ask with a token, other than one, for a reason. Without a key
// they are not told.
func (d *Desk) turnAway(ctx context.Context, i *Invitation, but, reason string) error {
	if d.Key == nil || i.Secret == (Secret{}) {
		return nil
	}
	d.mu.Lock()
	var asking []*Request
	for board, a := range d.asks[i.ID] {
		if r, err := openRequest(a.request, i.Secret); err == nil && board != but {
			asking = append(asking, r)
		}
	}
	d.mu.Unlock()
	for _, r := range asking {
		if err := d.refuse(ctx, i.ID, r, reason); err != nil {
			return err
		}
	}
	return nil
}

// Refuse tells a board that waits that it is not let in. The invitation stays as it is. Without a
// key it fails with ErrNoKey.
func (d *Desk) Refuse(ctx context.Context, p *Pending, reason string) error {
	if d.Key == nil {
		return ErrNoKey
	}
	return d.refuse(ctx, p.Invitation.ID, p.Request, reason)
}

func (d *Desk) refuse(ctx context.Context, id string, r *Request, reason string) error {
	head, err := sealRefusal(reason, r, d.Key)
	if err != nil {
		return err
	}
	board := BoardID(r.PublicKey)
	if err := d.Client.Publish(ctx, AnswerTopic(d.Prefix, id, board), head, false); err != nil {
		return fmt.Errorf("publish the answer: %w", err)
	}
	return d.clear(ctx, AskTopic(d.Prefix, id, board))
}

// Joined waits until the board of a request that was approved has kept the answer, and
// removes from the broker what lies there for it.
func (d *Desk) Joined(ctx context.Context, p *Pending) error {
	for {
		_, changed := d.ask(p.Invitation.ID, BoardID(p.Request.PublicKey))
		if i, err := d.Book.Find(p.Invitation.ID); err != nil || d.hasJoined(i) {
			return errors.Join(err, d.finish(ctx, i))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hasJoined reports whether the board that was let in has said that it kept the answer.
func (d *Desk) hasJoined(i *Invitation) bool {
	if i.Board == nil {
		return false
	}
	pub, err := transport.ParsePublicKey(i.Board.PublicKey)
	if err != nil {
		return false
	}
	a, _ := d.ask(i.ID, BoardID(pub))
	return i.Board.Joined || isDone(a.done, i.Board.Answer, pub, i.Secret)
}

// finish notes that a board has joined, and forgets the secret once nothing lies at the broker
// for it any more. Until then Tidy tries again.
func (d *Desk) finish(ctx context.Context, i *Invitation) error {
	if i == nil {
		return nil
	}
	err := d.Book.Change(i.ID, func(now *Invitation) error {
		if now.Board != nil {
			now.Board.Joined = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.retire(ctx, i); err != nil {
		return err
	}
	return d.notice(ctx, i.ID)
}

// notice leaves at the broker that a token was used, for boards that ask later, until the invitation expires: its
// secret, by which they would be known, is forgotten. Without a key there is no notice.
func (d *Desk) notice(ctx context.Context, id string) error {
	i, err := d.Book.Find(id)
	if err != nil {
		return err
	}
	over := d.Now().After(i.Expires)
	var payload []byte
	switch {
	case i.Revoked || i.Board == nil || !i.Board.Joined || i.Noticed != over:
		return nil // there is none to be, or it is as it should be
	case !over && d.Key == nil:
		return nil
	case !over:
		if payload, err = sealNotice(id, d.Key); err != nil {
			return err
		}
	}
	if err := d.Client.Publish(ctx, NoticeTopic(d.Prefix, id), payload, true); err != nil {
		return fmt.Errorf("publish that the token was used: %w", err)
	}
	err = d.Book.Change(id, func(now *Invitation) error { now.Noticed = !over; return nil })
	if errors.Is(err, ErrUnknown) { // it was revoked meanwhile
		if err := d.clear(ctx, NoticeTopic(d.Prefix, id)); err != nil {
			return err
		}
	}
	return err
}

// retire forgets the secret of an invitation that is of no use any more, once nothing lies at the
// broker for it.
func (d *Desk) retire(ctx context.Context, i *Invitation) error {
	if err := d.sweep(ctx, i); err != nil {
		return err
	}
	return d.Book.Change(i.ID, func(now *Invitation) error { now.Secret = Secret{}; return nil })
}

// forget removes an invitation from the book, once nothing lies at the broker for it.
func (d *Desk) forget(ctx context.Context, i *Invitation) error {
	if err := d.sweep(ctx, i); err != nil {
		return err
	}
	last, err := d.Book.Remove(i.ID)
	if err != nil || i.Noticed || !last.Noticed {
		return err
	}
	return d.clear(ctx, NoticeTopic(d.Prefix, i.ID)) // another process has left one since i was read
}

// Tidy notes which boards have joined, removes from the broker what lies there for them and
// under expired and revoked invitations, and forgets revoked ones, and expired ones that let
// nobody in. Boards that ask with a used token are told so. Of others' messages it leaves 64 at
// most. Who asks with the token of a board that has joined finds a notice at the broker.
func (d *Desk) Tidy(ctx context.Context) error {
	list, err := d.Book.List()
	if err != nil {
		return err
	}
	for k := range list {
		i := &list[k]
		if err := d.turnLate(ctx, i); err != nil {
			return err
		}
		switch {
		case i.Revoked:
			err = d.forget(ctx, i)
		case i.Secret == (Secret{}):
			err = d.notice(ctx, i.ID)
		case d.hasJoined(i):
			err = d.finish(ctx, i)
		case i.State(d.Now()) != StateExpired:
		case i.Board != nil:
			err = d.retire(ctx, i)
		default:
			err = d.forget(ctx, i)
		}
		if err != nil && !errors.Is(err, ErrUnknown) {
			return err
		}
	}
	return d.clearStrays(ctx)
}

// turnLate tells boards that ask with a token that was used or revoked.
func (d *Desk) turnLate(ctx context.Context, i *Invitation) error {
	if i.Revoked {
		return d.turnAway(ctx, i, "", revoked)
	}
	if i.Board == nil {
		return nil
	}
	pub, err := transport.ParsePublicKey(i.Board.PublicKey)
	if err != nil {
		return nil // whose board that was is not known
	}
	return d.turnAway(ctx, i, BoardID(pub), used)
}

// Revoke makes a token worthless, and tells boards that ask with it. A board that it has let in,
// which is returned, stays in, but an answer that it has not fetched is removed. If Revoke fails
// later than on disk, the token is worthless all the same, and Tidy does the rest.
func (d *Desk) Revoke(ctx context.Context, id string) (*Admitted, error) {
	var now Invitation
	err := d.Book.Change(id, func(i *Invitation) error {
		i.Revoked = true
		now = *i
		return nil
	})
	if err != nil {
		return nil, err
	}
	if now.Board != nil {
		now.Board.Joined = d.hasJoined(&now)
	}
	err = errors.Join(d.turnAway(ctx, &now, "", revoked), d.forget(ctx, &now))
	if errors.Is(err, ErrUnknown) { // another process has revoked it meanwhile
		err = nil
	}
	return now.Board, err
}

// sweep removes from the broker what is retained under an invitation.
func (d *Desk) sweep(ctx context.Context, i *Invitation) error {
	d.mu.Lock()
	var topics []string
	for board := range d.asks[i.ID] {
		topics = append(topics, AskTopic(d.Prefix, i.ID, board))
	}
	d.mu.Unlock()
	if i.Board != nil {
		if pub, err := transport.ParsePublicKey(i.Board.PublicKey); err == nil {
			board := BoardID(pub)
			topics = append(topics, AnswerTopic(d.Prefix, i.ID, board))
			for n := range i.Board.Parts {
				topics = append(topics, PartTopic(d.Prefix, i.ID, board, n+1))
			}
		}
	}
	if i.Noticed {
		topics = append(topics, NoticeTopic(d.Prefix, i.ID))
	}
	return d.clear(ctx, topics...)
}

func (d *Desk) clear(ctx context.Context, topics ...string) error {
	g, asking := errgroup.WithContext(ctx)
	g.SetLimit(publishing)
	for _, topic := range topics {
		g.Go(func() error { return d.Client.Publish(asking, topic, nil, true) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("clear what the broker keeps: %w", err)
	}
	return nil
}
