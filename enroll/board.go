package enroll

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// BoardOptions say who asks to be let in. All but Now and Doubt are required.
type BoardOptions struct {
	Client transport.Client
	Token  *Token
	Key    *transport.SigningKey // of the board
	Device string
	Host   string           // what the board is, for people
	Now    func() time.Time // nil: time.Now
	// Doubt is told of answers that do not count, and why.
	Doubt func(error)
}

// A Board asks to be let in.
type Board struct {
	BoardOptions
	id, board string
	own       *ecdh.PrivateKey
	request   *Request
	again     time.Duration // after which it asks once more

	mu      sync.Mutex
	answer  *answer
	parts   map[int][]byte // from 1 on
	changed chan struct{}  // has room for one
}

// withdrawing bounds how long Join takes to take its request back.
const withdrawing = 5 * time.Second

// askAgain is how often a board repeats its request: the broker may have lost it, or a guest
// overwritten it.
const askAgain = time.Minute

// NewBoard prepares a request. It fails as Token.Admits does.
func NewBoard(o BoardOptions) (*Board, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Doubt == nil {
		o.Doubt = func(error) {}
	}
	if err := o.Token.Admits(o.Device, o.Now()); err != nil {
		return nil, err
	}
	own := newEphemeral()
	return &Board{BoardOptions: o, id: o.Token.Secret.ID(), board: BoardID(o.Key.Public()), own: own,
		request: &Request{Device: o.Device, PublicKey: o.Key.Public(), Host: o.Host, Made: o.Now().UTC(),
			ephemeral: own.PublicKey().Bytes()},
		again: askAgain, parts: map[int][]byte{}, changed: make(chan struct{}, 1)}, nil
}

// Fingerprint returns what the operator compares before the board is let in.
func (b *Board) Fingerprint() string { return b.request.Fingerprint() }

// Join asks to be let in and waits for the answer. It fails with ErrRefused. When ctx ends
// first, it takes the request back.
func (b *Board) Join(ctx context.Context) (*Welcome, error) {
	prefix := b.Token.Broker.Prefix
	raw, err := sealRequest(b.request, b.Key, b.Token.Secret)
	if err != nil {
		return nil, err
	}
	if err := b.subscribe(ctx, AnswerTopic(prefix, b.id, b.board), b.takeAnswer); err != nil {
		return nil, err
	}
	if err := b.subscribe(ctx, NoticeTopic(prefix, b.id), b.takeNotice); err != nil {
		b.Doubt(err) // a broker may have other rules: without the notice it waits
	}
	topic := AskTopic(prefix, b.id, b.board)
	ask := func() error {
		if err := b.Client.Publish(ctx, topic, raw, true); err != nil {
			return fmt.Errorf("publish the request: %w", err)
		}
		return nil
	}
	if err := ask(); err != nil {
		return nil, err
	}
	w, err := b.await(ctx, prefix, ask)
	if err != nil {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawing)
		defer cancel()
		_ = b.Client.Publish(bye, topic, nil, true) // the operator's list shows it until the token expires
	}
	return w, err
}

// Done tells the operator that the board has kept the answer. Without it the answer stays at
// the broker until the invitation expires.
func (b *Board) Done(ctx context.Context) error {
	b.mu.Lock()
	a := b.answer
	b.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%w: there is no answer", ErrUnknown)
	}
	raw, err := sealDone(a.hash, b.Key, b.Token.Secret)
	if err != nil {
		return err
	}
	return b.Client.Publish(ctx, AskTopic(b.Token.Broker.Prefix, b.id, b.board), raw, true)
}

func (b *Board) subscribe(ctx context.Context, filter string, h func(transport.Delivery)) error {
	if err := b.Client.Subscribe(ctx, filter, func(m transport.Delivery) { h(m); m.Ack() }); err != nil {
		return fmt.Errorf("subscribe %s: %w", filter, err)
	}
	return nil
}

// await waits for an answer, and then for its parts. It calls ask from time to time.
func (b *Board) await(ctx context.Context, prefix string, ask func() error) (*Welcome, error) {
	again := time.NewTicker(b.again)
	defer again.Stop()
	for asked := false; ; {
		a, parts := b.state()
		switch {
		case a == nil:
		case !a.accepted && a.reason != "":
			return nil, fmt.Errorf("%w: %s", ErrRefused, a.reason)
		case !a.accepted:
			return nil, ErrRefused
		case !asked: // only now it is known how much will come
			asked = true
			filter := strings.TrimSuffix(PartTopic(prefix, b.id, b.board, 1), "1") + "+"
			if err := b.subscribe(ctx, filter, b.takePart); err != nil {
				return nil, err
			}
			continue
		case parts != nil:
			w, err := openWelcome(parts, a, b.own, b.Token.Secret)
			if err == nil {
				return w, nil
			}
			b.Doubt(err)
		}
		select {
		case <-b.changed:
		case <-again.C:
			_ = ask() // the next one may succeed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// state returns the answer, and its parts once there are all.
func (b *Board) state() (*answer, [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answer == nil || !b.answer.accepted {
		return b.answer, nil
	}
	var parts [][]byte
	for n := range b.answer.parts() {
		part, ok := b.parts[n+1]
		if !ok {
			return b.answer, nil
		}
		parts = append(parts, part)
	}
	return b.answer, parts
}

func (b *Board) takeAnswer(m transport.Delivery) {
	if len(m.Payload) == 0 {
		return
	}
	a, err := openAnswer(m.Payload, b.Token.Operator, b.request.hash)
	if err != nil {
		b.Doubt(err)
		return
	}
	b.mu.Lock()
	b.answer = a
	b.mu.Unlock()
	b.tell()
}

// takeNotice ends a board that has no answer: its token has let another one in.
func (b *Board) takeNotice(m transport.Delivery) {
	if len(m.Payload) == 0 {
		return
	}
	a, err := openAnswer(m.Payload, b.Token.Operator, noticeHash(b.id))
	if err == nil && a.accepted {
		err = fmt.Errorf("%w: a notice that lets boards in", ErrMalformed)
	}
	if err != nil {
		b.Doubt(err)
		return
	}
	b.mu.Lock()
	if b.answer == nil {
		b.answer = a
	}
	b.mu.Unlock()
	b.tell()
}

// takePart keeps a part if the answer has one of this number. A later one replaces it.
func (b *Board) takePart(m transport.Delivery) {
	n, err := strconv.Atoi(m.Topic[strings.LastIndexByte(m.Topic, '/')+1:])
	b.mu.Lock()
	keep := err == nil && b.answer != nil && n >= 1 && n <= b.answer.parts() && len(m.Payload) > 0 &&
		len(m.Payload) <= sealedPart
	if keep {
		b.parts[n] = m.Payload
	}
	b.mu.Unlock()
	if keep {
		b.tell()
	}
}

func (b *Board) tell() {
	select {
	case b.changed <- struct{}{}:
	default: // the reader will see this change too
	}
}

func hashOf(b []byte) [32]byte { return sha256.Sum256(b) }
