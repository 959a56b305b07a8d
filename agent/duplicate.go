package agent

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// duplicates notices other boards with this device's identity by their birth messages: a
// status that this device's key has signed, under a boot epoch that this process does
// not have. A board that was started later is answered with a birth message, so that it
// learns of this one, and so that the evaluator sees both boot epochs in turn.
type duplicates struct {
	mu     sync.Mutex
	own    map[uint64]bool // boot epochs of this process
	heard  bool            // a message of this process came back
	others map[uint64]bool // boot epochs of boards that are online
}

// issued notes a boot epoch under which this process signs.
func (d *duplicates) issued(boot uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own == nil {
		d.own, d.others = map[uint64]bool{}, map[uint64]bool{}
	}
	d.own[boot] = true
}

// note takes a verified status of this device. It reports whether it shows another board
// that was not known, and whether that one was started after this process, which began
// at the time since.
func (d *duplicates) note(m *transport.Meta, online, retained bool, since time.Time) (news, later bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := uint64(0)
	for boot := range d.own {
		newest = max(newest, boot)
	}
	boot := m.BootEpoch
	switch {
	case d.own[boot]:
		d.heard = true
		return false, false
	case !online:
		delete(d.others, boot)
		return false, false
	case boot > newest && retained && !d.heard:
		return false, false // of this board, before its state was lost and its clock set back
	case boot < newest && (!role.ClockIsSet(since) || m.Start <= since.UnixNano()):
		return false, false // of this board, before this start
	}
	news = !d.others[boot]
	d.others[boot] = true
	return news, boot > newest
}

func (d *duplicates) health() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.others) == 0 {
		return ""
	}
	return fmt.Sprintf("another board sends with this device's name and signing key, under boot epoch %d: give one "+
		"of them an identity of its own, with a name, a signing key, a state and a spool that are not copies",
		slices.Max(slices.Collect(maps.Keys(d.others))))
}

// watchDuplicates listens to the device's own status topic until stop is called.
func (a *Agent) watchDuplicates(ctx context.Context, client transport.Client) (stop func()) {
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{a.cfg.Device: a.current().Signing.Public()})
	if err != nil {
		a.log.Error("cannot watch for a second board with this identity", "error", err)
		return func() {}
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds: []transport.Kind{transport.KindStatus}, NoReplay: true, TopicPrefix: a.cfg.Broker.TopicPrefix})
	if err != nil {
		a.log.Error("cannot watch for a second board with this identity", "error", err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		topic := transport.StatusTopic(a.cfg.Broker.TopicPrefix, a.cfg.Device)
		err := client.Subscribe(ctx, topic, func(d transport.Delivery) {
			if d.Ack != nil {
				defer d.Ack()
			}
			if a.overheard(v, d) {
				wg.Go(func() { a.answerDuplicate(ctx, client) })
			}
		})
		if err != nil && ctx.Err() == nil {
			a.log.Warn("cannot watch for a second board with this identity: the broker does not let the device read "+
				"its own status", "topic", topic, "error", err)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// overheard takes a message on the device's own status topic, and reports whether it is
// of another board that should learn of this one.
func (a *Agent) overheard(v *transport.Verifier, d transport.Delivery) (answer bool) {
	sealed, err := transport.ReadWhole(d.Payload, transport.DefaultChunkSize)
	if err != nil {
		return false // anybody may write there
	}
	obj, err := v.OpenFrom(d.Topic, sealed)
	if err != nil {
		return false
	}
	st, err := transport.UnmarshalStatus(obj.Body)
	if err != nil {
		return false
	}
	news, later := a.duplicates.note(&obj.Meta, st.Online, d.Retained, a.since.wall)
	if news {
		a.log.Error("another board sends with this device's name and signing key; give one of them its own identity",
			"boot_epoch", obj.Meta.BootEpoch, "started", time.Unix(0, st.Since).UTC(), "own_boot_epoch", a.state.Boot())
	}
	return news && later
}

// answerDelay is how long a board waits before it answers another one, whose clock may be
// ahead: a message that was made before a board's start says nothing to it.
const answerDelay = 2 * time.Second

func (a *Agent) answerDuplicate(ctx context.Context, client transport.Client) {
	if a.clock.Sleep(ctx, answerDelay) != nil {
		return
	}
	m, err := a.status(true)
	if err == nil {
		err = client.Publish(ctx, m.Topic, m.Payload, m.Retain)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("birth message not published", "error", err)
	}
}
