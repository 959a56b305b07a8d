package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// A device's windows are numbered by boot epoch and sequence, and each number is for
// one window. That breaks when a board is started from a copy of another one's disk,
// or from an old copy of its own. The boot epoch follows the clock, so that usually
// nothing is numbered twice even then; where it is, the evaluator refuses the second
// window of a number, and the agent notices here.

// renumber signs a window of this device again, under the number that comes next. The
// ciphertext stays as it is. The first time in a boot epoch it begins another one. A compact window is encrypted under
// its number, so it fails with delivery.ErrNumbered.
func (a *Agent) renumber(sealed []byte) ([]byte, error) {
	if transport.IsShort(sealed) {
		m, err := transport.PeekShort(sealed)
		if err == nil && m.BootEpoch == a.state.Boot() {
			err = a.state.Renew(a.clock.Now())
		}
		return nil, errors.Join(fmt.Errorf("a compact window: %w", delivery.ErrNumbered), err)
	}
	keys := a.current()
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{a.cfg.Device: keys.Signing.Public()})
	if err != nil {
		return nil, err
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds:     []transport.Kind{transport.KindReading},
		AnyParams: true, AnyKey: true, NoReplay: true, MaxObject: spool.MaxObject})
	if err != nil {
		return nil, err
	}
	obj, err := transport.Open(sealed, v)
	if err != nil {
		return nil, fmt.Errorf("not a window of this device and key: %w", err)
	}
	if obj.Meta.BootEpoch == a.state.Boot() {
		if err := a.state.Renew(a.clock.Now()); err != nil {
			return nil, err
		}
	}
	m := obj.Meta
	if m.Sequence, err = a.state.Take(m.Stream); err != nil {
		return nil, err
	}
	m.BootEpoch = a.state.Boot()
	return transport.Seal(m, obj.Body, keys.Signing)
}

// ErrSpool: the spool cannot be used by this device.
var ErrSpool = errors.New("spool")

// foreign refuses windows in the spool that another device made: their receipts would
// never come here, and they would hold up their streams for ever.
func foreign(s *spool.Spool, device, dir string) error {
	count, whose := 0, ""
	for _, e := range s.Entries() { // under <prefix>/up/<device>/<stream>
		if parts := strings.Split(e.Topic, "/"); len(parts) >= 3 && parts[len(parts)-2] != device {
			count, whose = count+1, parts[len(parts)-2]
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s holds %d windows of the device %q, and this is %q; deliver them as that device (its "+
		"configuration, signing key and state), or give this one a directory of its own",
		ErrSpool, dir, count, whose, device)
}

// watchDuplicates listens to the device's own status topic until stop is called.
func (a *Agent) watchDuplicates(ctx context.Context, client transport.Client) (stop func()) {
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{a.cfg.Device: a.current().Signing.Public()})
	if err != nil {
		a.log.Error("cannot watch for a second board with this identity", "error", err)
		return func() {}
	}
	v, err := transport.NewStatusVerifier(trust, a.cfg.Broker.TopicPrefix)
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
	st, err := transport.OpenStatus(v, d)
	if err != nil {
		return false // anybody may write there
	}
	news, later := a.duplicates.note(&st.Object.Meta, st.Online, d.Retained, a.since.wall)
	if news {
		a.log.Error("another board sends with this device's name and signing key; give one of them its own identity",
			"boot_epoch", st.Object.Meta.BootEpoch, "started", time.Unix(0, st.Since).UTC(),
			"own_boot_epoch", a.state.Boot())
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
	a.announce(ctx, client)
}
