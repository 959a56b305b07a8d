package transport

import (
	"crypto/ed25519"
	"fmt"
)

// RemoteConfig is a part of a device's configuration that its operator sends: a
// tagged COSE_Sign1 (RFC 9052) under an Ed25519 key of the operator, which the
// device's own file names. The payload is the deterministic CBOR map
// {0: device, 1: version, 2: text}, with 3: until where that is not 0.
type RemoteConfig struct {
	Device  string // the only device that it is for
	Version uint64 // grows with every message; above 0
	Text    []byte // YAML, at most MaxRemoteText bytes
	// Until is the Unix time, in seconds, after which no device takes it any more; 0
	// is for ever. One that has taken it before keeps it.
	Until int64
}

// MaxRemoteText bounds the text of a remote configuration, bytes: with its
// envelope it must fit one MQTT message everywhere.
const MaxRemoteText = 96 << 10

// maxRemote bounds a sealed remote configuration, bytes.
const maxRemote = MaxRemoteText + 512

// remoteContext is the external_aad: no other message under the same key is ever
// valid as a configuration, nor a configuration as another message.
var remoteContext = []byte("hencedge remote configuration v1")

func (r *RemoteConfig) validate() error {
	if err := CheckName(r.Device); err != nil {
		return fmt.Errorf("remote configuration: device: %w", err)
	}
	switch {
	case r.Version == 0 || r.Version > 1<<62:
		return fmt.Errorf("%w: remote configuration with version %d, want 1 or more", ErrMalformed, r.Version)
	case r.Until < 0:
		return fmt.Errorf("%w: remote configuration until %d, want a Unix time", ErrMalformed, r.Until)
	case len(r.Text) == 0:
		return fmt.Errorf("%w: remote configuration without text", ErrMalformed)
	case len(r.Text) > MaxRemoteText:
		return fmt.Errorf("%w: remote configuration with %d bytes of text, want at most %d", ErrTooLarge, len(r.Text),
			MaxRemoteText)
	}
	return nil
}

// RemoteTopic returns <prefix>/cfg/<device>; its message is retained.
func RemoteTopic(prefix, device string) string { return prefix + "/cfg/" + device }

// SealRemote signs a remote configuration with the operator's key.
func SealRemote(r RemoteConfig, key *SigningKey) ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	payload, err := wireEnc.Marshal(wireRemote(r))
	if err != nil {
		return nil, fmt.Errorf("remote configuration: encode: %w", err)
	}
	out, err := sign(payload, key, algEd25519, remoteContext)
	if err != nil {
		return nil, fmt.Errorf("remote configuration: %w", err)
	}
	return out, nil
}

// OpenRemote checks that operator signed sealed for device, and returns what it
// says. It fails with ErrMalformed, ErrTruncated, ErrTooLarge, ErrDowngraded
// (another algorithm), ErrSignature or ErrUnknownSigner (another device, key id).
func OpenRemote(sealed []byte, operator ed25519.PublicKey, device string) (*RemoteConfig, error) {
	if len(sealed) > maxRemote {
		return nil, fmt.Errorf("%w: remote configuration of %d bytes", ErrTooLarge, len(sealed))
	}
	f, err := cutFrame("remote configuration", sealed)
	switch {
	case err != nil:
		return nil, err
	case f.alg != algEd25519:
		return nil, fmt.Errorf("%w: remote configuration: algorithm %d, want Ed25519 (-19)", ErrDowngraded, f.alg)
	case f.kid != keyHint(operator):
		return nil, fmt.Errorf("%w: the remote configuration is not under the operator's key", ErrUnknownSigner)
	case !ed25519.Verify(operator, f.signed(remoteContext), f.signature):
		return nil, fmt.Errorf("%w: remote configuration", ErrSignature)
	}
	var w wireRemote
	if err := wireDec.Unmarshal(f.payload, &w); err != nil {
		return nil, decodeError("remote configuration", err)
	}
	r := RemoteConfig(w)
	if err := r.validate(); err != nil {
		return nil, err
	}
	if r.Device != device {
		return nil, fmt.Errorf("%w: the remote configuration is for %q, this is %q", ErrUnknownSigner, r.Device, device)
	}
	return &r, nil
}

type wireRemote struct {
	Device  string `cbor:"0,keyasint"`
	Version uint64 `cbor:"1,keyasint"`
	Text    []byte `cbor:"2,keyasint"`
	Until   int64  `cbor:"3,keyasint,omitempty"`
}
