package keyset

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/transport"
)

// AnyHolder, in place of a key or fingerprint, waives the check of who signed.
const AnyHolder = "none"

// A Trust says whose exports are accepted. The zero value trusts nobody.
type Trust struct {
	any          bool
	fingerprints []string
}

// Anyone accepts exports of every key holder: what a signature then shows is only
// that nothing was damaged.
func Anyone() Trust { return Trust{any: true} }

// Trusted reads whom to trust: public keys ("ed25519:...") and fingerprints (see
// transport.Fingerprint), or AnyHolder alone. It fails with ErrNoHolder without
// any, and with transport.ErrMalformed or transport.ErrFingerprint.
func Trusted(holders ...string) (Trust, error) {
	var t Trust
	for _, h := range holders {
		h = strings.TrimSpace(h)
		switch {
		case h == "":
		case h == AnyHolder && len(holders) == 1:
			return Anyone(), nil
		case h == AnyHolder:
			return t, fmt.Errorf("%w: %q stands beside other holders", transport.ErrMalformed, AnyHolder)
		case strings.Contains(h, ":"):
			pub, err := transport.ParsePublicKey(h)
			if err != nil {
				return t, fmt.Errorf("key holder: %w", err)
			}
			t.fingerprints = append(t.fingerprints, transport.Fingerprint(pub))
		default:
			f, err := transport.ParseFingerprint(h)
			if err != nil {
				return t, fmt.Errorf("key holder: %w", err)
			}
			t.fingerprints = append(t.fingerprints, f)
		}
	}
	if len(t.fingerprints) == 0 {
		return t, ErrNoHolder
	}
	return t, nil
}

// Check fails with ErrHolder unless pub is trusted.
func (t Trust) Check(pub ed25519.PublicKey) error {
	if t.any {
		return nil
	}
	if len(t.fingerprints) == 0 {
		return ErrNoHolder
	}
	got := transport.Fingerprint(pub)
	for _, f := range t.fingerprints {
		if f == got {
			return nil
		}
	}
	return fmt.Errorf("%w: they are signed by %s, and %s is trusted", ErrHolder, got,
		strings.Join(t.fingerprints, " or "))
}

// Names reports whether t trusts a holder that is named as for Trusted, or may trust
// it: AnyHolder on either side.
func (t Trust) Names(holder string) bool {
	other, err := Trusted(holder)
	return err == nil && (t.any || other.any || slices.Contains(t.fingerprints, other.fingerprints[0]))
}
