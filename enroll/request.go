package enroll

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// The kinds of messages of a board.
const (
	kindRequest = 1 // lets me in
	kindDone    = 2 // has checked and kept the answer
)

// maxAsk bounds a message of a board, bytes.
const maxAsk = 4 << 10

// A Request is what a board asks for.
type Request struct {
	Device    string
	PublicKey ed25519.PublicKey // of the board, which has signed the request
	Host      string            // what the board is, for people: at most 128 printable bytes
	Made      time.Time         // by the board's clock, whole seconds
	ephemeral []byte            // X25519
	hash      [32]byte          // of the bytes
}

// Fingerprint returns what board and operator compare.
func (r *Request) Fingerprint() string { return transport.Fingerprint(r.PublicKey) }

func (r *Request) validate() error {
	switch {
	case transport.CheckName(r.Device) != nil:
		return fmt.Errorf("%w: request: device %q", ErrMalformed, r.Device)
	case len(r.PublicKey) != ed25519.PublicKeySize || len(r.ephemeral) != 32:
		return fmt.Errorf("%w: request: keys of %d and %d bytes", ErrMalformed, len(r.PublicKey), len(r.ephemeral))
	case !printable(r.Host, maxText):
		return fmt.Errorf("%w: request: a description of %d bytes, want at most %d, printable", ErrMalformed,
			len(r.Host), maxText)
	}
	return nil
}

// sealRequest returns the bytes of a request, and sets its hash.
func sealRequest(r *Request, key *transport.SigningKey, s Secret) ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	body, err := encMode.Marshal(wireRequest{r.Device, r.PublicKey, r.ephemeral, r.Host, r.Made.Unix()})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	b, err := sealAsk(kindRequest, body, key, s)
	r.hash = sha256.Sum256(b)
	return b, err
}

// openRequest checks that the sender knows the secret and holds the key that it names. It
// fails with ErrMalformed or ErrForged.
func openRequest(b []byte, s Secret) (*Request, error) {
	a, err := openAsk(b, s)
	if err != nil {
		return nil, err
	}
	if a.Kind != kindRequest {
		return nil, fmt.Errorf("%w: message of kind %d, want a request", ErrMalformed, a.Kind)
	}
	var w wireRequest
	if err := decode("request", a.Body, &w); err != nil {
		return nil, err
	}
	r := &Request{w.Device, w.PublicKey, w.Host, time.Unix(w.Made, 0).UTC(), w.Ephemeral, sha256.Sum256(b)}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r, a.signedBy(r.PublicKey)
}

// sealDone returns the message that a board has kept an answer.
func sealDone(answer [32]byte, key *transport.SigningKey, s Secret) ([]byte, error) {
	return sealAsk(kindDone, answer[:], key, s)
}

// isDone reports whether b says that the board with this key has kept the answer.
func isDone(b []byte, answer [32]byte, pub ed25519.PublicKey, s Secret) bool {
	a, err := openAsk(b, s)
	return err == nil && a.Kind == kindDone && bytes.Equal(a.Body, answer[:]) && a.signedBy(pub) == nil
}

// isDoneForm reports whether b is such a message of anyone who knows the secret.
func isDoneForm(b []byte, s Secret) bool {
	a, err := openAsk(b, s)
	return err == nil && a.Kind == kindDone
}

// wireAsk is a message of a board. The signature is that of its key over the kind and the
// body, the MAC is Secret.mac.
type wireAsk struct {
	_         struct{} `cbor:",toarray"`
	Kind      uint64
	Body      []byte
	Signature []byte
	MAC       []byte
}

type wireRequest struct {
	Device    string `cbor:"0,keyasint"`
	PublicKey []byte `cbor:"1,keyasint"`
	Ephemeral []byte `cbor:"2,keyasint"`
	Host      string `cbor:"3,keyasint,omitempty"`
	Made      int64  `cbor:"4,keyasint"`
}

func sealAsk(kind uint64, body []byte, key *transport.SigningKey, s Secret) ([]byte, error) {
	signature, err := key.SignText(signedRequest, numbered(kind, body))
	if err != nil {
		return nil, err
	}
	b, err := encMode.Marshal(wireAsk{Kind: kind, Body: body, Signature: signature, MAC: s.mac(kind, body, signature)})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return b, nil
}

// openAsk checks the MAC, which comes before everything else that costs time.
func openAsk(b []byte, s Secret) (a wireAsk, err error) {
	if len(b) > maxAsk {
		return a, fmt.Errorf("%w: request of %d bytes, want at most %d", ErrMalformed, len(b), maxAsk)
	}
	if err := decode("request", b, &a); err != nil {
		return a, err
	}
	if !hmac.Equal(a.MAC, s.mac(a.Kind, a.Body, a.Signature)) {
		return a, fmt.Errorf("%w: whoever made the request does not have the token", ErrForged)
	}
	return a, nil
}

func (a *wireAsk) signedBy(pub ed25519.PublicKey) error {
	if !transport.VerifyText(pub, signedRequest, numbered(a.Kind, a.Body), a.Signature) {
		return fmt.Errorf("%w: the signature of the request is not that of its key", ErrForged)
	}
	return nil
}

// numbered returns the kind of a message, 8 bytes big-endian, and its body.
func numbered(kind uint64, body []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, kind), body...)
}
