package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/spool"
)

// An object that was never sent, and whose number the receiver has from somebody else,
// goes out under a new number in its place. What an earlier process may have sent is
// not: it may be the one that is there.
func TestRenumber(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	maybe, used, next, renumbered := object(1, 5000), object(2, 5000), object(3, 5000), object(4, 6000)
	end.outcome = func(id [32]byte) transport.ReceiptItem {
		it := transport.ReceiptItem{Object: id, Outcome: transport.Taken}
		if id == transport.ObjectID(used) || id == transport.ObjectID(maybe) {
			it.Outcome, it.Reason = transport.Refused, "replayed"
		}
		return it
	}
	dir := t.TempDir()
	put(t, newSpool(t, dir), "env", maybe)
	s := newSpool(t, dir)
	put(t, s, "env", used)
	put(t, s, "env", next)
	s.Close()
	failures := 1 // the state cannot be written at first
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) {
		o.Receipt = time.Minute
		o.Renumber = func(sealed []byte) ([]byte, error) {
			if transport.ObjectID(sealed) != transport.ObjectID(used) {
				t.Errorf("object %x gets a new number", transport.ObjectID(sealed))
			}
			if failures--; failures == 0 {
				return nil, errors.New("the disk is full")
			}
			return slices.Clone(renumbered), nil
		}
	})
	run(t, cr)
	var got [][32]byte
	for _, o := range end.got {
		got = append(got, transport.ObjectID(o))
	}
	id := transport.ObjectID
	if want := [][32]byte{id(maybe), id(used), id(renumbered), id(next)}; !slices.Equal(got, want) {
		t.Errorf("%d objects came: %x", len(got), got)
	}
	if st := cr.Stats(); st.Renumbered != 1 || st.Dropped != 1 || st.Delivered != 2 || s.Stats().Objects != 0 {
		t.Errorf("%+v", st)
	}
}

// One that cannot get a new number, since it was signed with an earlier key or is bound to its number, does not
// hold up those after it.
func TestRenumberCannot(t *testing.T) {
	for cause, renumbered := range map[error]uint64{transport.ErrUnknownSigner: 0, ErrNumbered: 1} {
		t.Run(cause.Error(), func(t *testing.T) { testRenumberCannot(t, cause, renumbered) })
	}
}

func testRenumberCannot(t *testing.T, cause error, renumbered uint64) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	used, next := object(1, 5000), object(2, 5000)
	end.outcome = func(id [32]byte) transport.ReceiptItem {
		if id == transport.ObjectID(used) {
			return transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: "replayed"}
		}
		return transport.ReceiptItem{Object: id, Outcome: transport.Taken}
	}
	s := newSpool(t, t.TempDir())
	put(t, s, "env", used)
	put(t, s, "env", next)
	s.Close()
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) {
		o.Receipt = time.Minute
		o.Renumber = func([]byte) ([]byte, error) {
			return nil, fmt.Errorf("not this one: %w", cause)
		}
	})
	run(t, cr)
	if st := cr.Stats(); st.Dropped != 1 || st.Delivered != 1 || st.Renumbered != renumbered ||
		s.Stats().Objects != 0 {
		t.Errorf("%+v", st)
	}
}

// The topic of a message is that of today's configuration, not of the day when its
// object was made.
func TestTopic(t *testing.T) {
	s := newSpool(t, t.TempDir())
	put(t, s, "env", object(1, 2000))
	s.Close()
	client := &topicClient{}
	run(t, courier(t, s, client, func(o *Options) {
		o.Level, o.Topic = Broker, func(l *spool.Lease) string { return "elsewhere/up/board/" + l.Stream }
	}))
	if want := []string{"elsewhere/up/board/env"}; !slices.Equal(client.topics, want) {
		t.Errorf("published under %q", client.topics)
	}
}

type topicClient struct {
	fakeClient
	topics []string
}

func (c *topicClient) Publish(ctx context.Context, topic string, payload []byte, _ bool) error {
	c.topics = append(c.topics, topic)
	return ctx.Err()
}

// While the receiver takes nothing, or reads nothing of the stream, what it was sent is
// asked about and not sent again, and nothing passes it.
func TestBusy(t *testing.T) {
	for _, reason := range []string{transport.ReasonBusy, transport.ReasonUnread} {
		t.Run(reason, func(t *testing.T) { testBusy(t, reason) })
	}
}

func testBusy(t *testing.T, reason string) {
	b := testrig.Broker(t, broker.Options{})
	end := newFarEnd(t, b.URL())
	sealed := object(1, 30_000)
	id := transport.ObjectID(sealed)
	busy := transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: reason}
	refusals, questions := 1, 5
	end.outcome = func(object [32]byte) transport.ReceiptItem {
		if refusals--; refusals >= 0 {
			end.rx.Forget(transport.ReadingTopic(transport.DefaultPrefix, "board", "env"), id)
			end.mu.Lock()
			delete(end.taken, id)
			end.mu.Unlock()
			return busy
		}
		return transport.ReceiptItem{Object: object, Outcome: transport.Taken}
	}
	end.asked = func([32]byte) *transport.ReceiptItem {
		if questions--; questions >= 0 {
			return &busy
		}
		return nil
	}
	s := newSpool(t, t.TempDir())
	put(t, s, "env", sealed)
	put(t, s, "env", object(2, 100))
	s.Close()
	cr := courier(t, s, dial(t, b.URL(), "board"), func(o *Options) { o.ChunkSize, o.Receipt = 10<<10, time.Minute })
	run(t, cr)
	pieces, _ := transport.Split(sealed, 10<<10)
	if len(end.got) != 3 || transport.ObjectID(end.got[1]) != id {
		t.Errorf("%d objects came, or not in order", len(end.got))
	}
	if st := cr.Stats(); st.Delivered != 2 || st.Asks != 6 || st.Chunks != uint64(2*len(pieces)+1) ||
		st.Refused+st.Dropped != 0 {
		t.Errorf("%d chunks, %+v", len(pieces), st)
	}
}
