package agent

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// A device's windows are numbered by boot epoch and sequence, and each number is for
// one window. That breaks when a board is started from a copy of another one's disk,
// or from an old copy of its own. The boot epoch follows the clock, so that usually
// nothing is numbered twice even then; where it is, the evaluator refuses the second
// window of a number, and the agent notices here.

// renumber signs a window of this device again, under the number that comes next. The
// ciphertext stays as it is. The first time in a boot epoch it begins another one.
func (a *Agent) renumber(sealed []byte) ([]byte, error) {
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
