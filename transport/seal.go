package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// sealContext is the external_aad of every signature: it keeps a signature made
// here from being valid in another protocol that uses the same key.
var sealContext = []byte("hencedge object v1")

// envelopeOverhead bounds what the COSE_Sign1 frame, the payload array and the
// signature add to header and body, in bytes.
const envelopeOverhead = 128

// Seal signs meta and body and returns the sealed object: a tagged COSE_Sign1
// whose payload is the deterministic CBOR array [meta, body]. The same input
// always gives the same bytes. body is copied.
func Seal(meta Meta, body []byte, key *SigningKey) ([]byte, error) {
	return SealInPlace(meta, append(make([]byte, SealRoom, SealRoom+len(body)+SealTail), body...), SealRoom, key)
}

// SealInPlace is Seal for a body that stands in b from at on, which it does not copy. That
// needs SealRoom bytes before the body and SealTail bytes of capacity after it. With less
// room the body is copied. The caller must not use b afterwards.
func SealInPlace(meta Meta, b []byte, at int, key *SigningKey) ([]byte, error) {
	if at < 0 || at > len(b) {
		return nil, fmt.Errorf("seal: a body at %d of %d bytes", at, len(b))
	}
	if key == nil {
		return nil, errors.New("seal: no signing key")
	}
	if err := meta.Validate(); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	m, err := marshalMeta(&meta, Version)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	if len(m) > MaxMeta {
		return nil, fmt.Errorf("seal: %w: header of %d bytes, want at most %d", ErrTooLarge, len(m), MaxMeta)
	}
	return sealAt(payloadHead(m, len(b)-at), b, at, key, algEd25519, sealContext)
}

// payloadHead returns what stands before a body of n bytes in the payload [header, body].
func payloadHead(meta []byte, n int) []byte {
	return appendHead(append([]byte{0x82}, meta...), majorBytes, n)
}

// sealAt signs the payload that front and b[at:] make up.
func sealAt(front, b []byte, at int, key *SigningKey, alg int64, context []byte) ([]byte, error) {
	if bytes.Equal(key.priv[:32], make([]byte, 32)) {
		return nil, errors.New("seal: the signing key was wiped")
	}
	// What is signed and what is sent both hold the payload, which may be large; so both
	// are made in one buffer, the second in the place of the first.
	protected := protectedHeader(alg, key.kid)
	signed := signedHead(protected, context)
	sent := append(append([]byte{0xd2, 0x84}, protected...), 0xa0)

	body := len(b) - at
	head := appendHead(nil, majorBytes, len(front)+body)
	if len(signed) < len(sent) {
		return nil, errors.New("seal: the frame does not fit")
	}
	before := len(signed) + len(head) + len(front)
	if at < before || cap(b) < len(b)+SealTail {
		b = append(make([]byte, before, before+body+SealTail), b[at:]...)
		at = before
	}
	b = b[at-before:]
	copy(b[copy(b[copy(b, signed):], head)+len(signed):], front)
	signature := ed25519.Sign(key.priv, b)
	b = append(appendHead(b, majorBytes, len(signature)), signature...)
	b = b[len(signed)-len(sent):]
	copy(b, sent)
	return b, nil
}

// ObjectID returns the name of a sealed object: its SHA-256. Envelopes are
// canonical and carry nothing unsigned but the signature itself, so nobody
// without the signing key can make another name for the same content.
func ObjectID(sealed []byte) [32]byte { return sha256.Sum256(sealed) }

// splitPayload finds header and body in the payload [header, body]. Of the payload it
// decodes no more than the largest header. Both share its memory.
func splitPayload(payload []byte) (header, body []byte, err error) {
	if len(payload) == 0 {
		return nil, nil, fmt.Errorf("%w: the payload is empty", ErrMalformed)
	}
	if payload[0] != 0x82 {
		return nil, nil, fmt.Errorf("%w: the payload is not an array of header and body", ErrMalformed)
	}
	at := payload[1:]
	var raw cbor.RawMessage
	_, err = wireDec.UnmarshalFirst(at[:min(len(at), MaxMeta+1)], &raw)
	switch {
	case err != nil && errors.Is(decodeError("", err), ErrTruncated) && len(at) > MaxMeta, len(raw) > MaxMeta:
		return nil, nil, fmt.Errorf("%w: header of more than %d bytes", ErrTooLarge, MaxMeta)
	case err != nil:
		return nil, nil, decodeError("payload", err)
	}
	header = at[:len(raw)]
	body, rest, err := cutBytes(at[len(raw):])
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%w: body", err)
	case len(rest) > 0:
		return nil, nil, fmt.Errorf("%w: %d bytes after the body", ErrMalformed, len(rest))
	}
	return header, body, nil
}

// PeekMeta returns the header of a sealed object without verifying anything. It is for
// routing and diagnostics only, since an attacker chooses what it returns. Its cost does not
// depend on the size of the object.
func PeekMeta(sealed []byte) (*Meta, error) {
	m, _, err := Peek(sealed)
	return m, err
}

// Peek is PeekMeta that also returns the body, which shares the memory of sealed.
func Peek(sealed []byte) (*Meta, []byte, error) {
	if len(sealed) > DefaultMaxObject {
		return nil, nil, fmt.Errorf("%w: object of %d bytes, want at most %d", ErrTooLarge, len(sealed),
			DefaultMaxObject)
	}
	f, err := cutFrame("envelope", sealed)
	if err != nil {
		return nil, nil, err
	}
	return f.peek()
}

// peek reads the payload of f, verified or not.
func (f *frame) peek() (*Meta, []byte, error) {
	header, body, err := splitPayload(f.payload)
	if err != nil {
		return nil, nil, err
	}
	m, err := unmarshalMeta(header, Version)
	return m, body, err
}
