package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
	"github.com/veraison/go-cose"
)

// COSE algorithm identifiers that an envelope may carry.
const (
	algEd25519 cose.Algorithm = -19 // fully specified Ed25519 (RFC 9864); written
	algEdDSA   cose.Algorithm = -8  // EdDSA (RFC 9053), taken to mean Ed25519; accepted
)

// sealContext is the external_aad of every signature: it keeps a signature made
// here from being valid in another protocol that uses the same key.
var sealContext = []byte("hencedge object v1")

// envelopeOverhead bounds what the COSE_Sign1 frame, the payload array and the
// signature add to header and body, in bytes.
const envelopeOverhead = 128

// edSigner signs with the fully specified algorithm id, which the library's
// own Ed25519 signer does not offer.
type edSigner struct {
	key ed25519.PrivateKey
	alg cose.Algorithm
}

func (s edSigner) Algorithm() cose.Algorithm { return s.alg }

func (s edSigner) Sign(_ io.Reader, content []byte) ([]byte, error) {
	return ed25519.Sign(s.key, content), nil
}

type edVerifier struct {
	key ed25519.PublicKey
	alg cose.Algorithm
}

func (v edVerifier) Algorithm() cose.Algorithm { return v.alg }

func (v edVerifier) Verify(content, signature []byte) error {
	if len(v.key) != ed25519.PublicKeySize || !ed25519.Verify(v.key, content, signature) {
		return cose.ErrVerification
	}
	return nil
}

// wirePayload is what is signed: the array [header, body].
type wirePayload struct {
	_    struct{} `cbor:",toarray"`
	Meta cbor.RawMessage
	Body []byte
}

var payloadDec = must(cbor.DecOptions{
	DupMapKey:        cbor.DupMapKeyEnforcedAPF,
	IndefLength:      cbor.IndefLengthForbidden,
	TagsMd:           cbor.TagsForbidden,
	MaxNestedLevels:  6,
	MaxArrayElements: MaxInputs,
	MaxMapPairs:      64,
}.DecMode())

// Seal signs meta and body and returns the sealed object: a tagged COSE_Sign1
// whose payload is the deterministic CBOR array [meta, body]. The same input
// always gives the same bytes. body is copied.
func Seal(meta Meta, body []byte, key *SigningKey) ([]byte, error) {
	return SealInPlace(meta, append(make([]byte, SealRoom, SealRoom+len(body)+SealTail), body...), SealRoom, key)
}

// What SealInPlace wants before and after a body, in bytes.
const (
	SealRoom = 1024
	SealTail = 2 + ed25519.SignatureSize
)

// SealInPlace is Seal for a body that stands in b from at on, with room before it
// and, in its capacity, after it: a large body is not copied. With less than
// SealRoom before or SealTail after it works too, by a copy. b must not be used
// any more.
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
	return sealAt(m, b, at, key, algEd25519)
}

func sealRaw(meta, body []byte, key *SigningKey, alg cose.Algorithm) ([]byte, error) {
	return sealAt(meta, body, 0, key, alg)
}

// sealAt seals the body b[at:].
func sealAt(meta, b []byte, at int, key *SigningKey, alg cose.Algorithm) ([]byte, error) {
	if bytes.Equal(key.priv[:32], make([]byte, 32)) {
		return nil, errors.New("seal: the signing key was wiped")
	}
	// What is signed is the Sig_structure ["Signature1", protected, aad, payload]
	// and what is sent the tagged array [protected, {}, payload, signature]
	// (RFC 9052, sections 4.2 and 4.4). Both hold the payload, which may be large;
	// so both are made in one buffer, the second in the place of the first.
	protected := protectedHeader(alg, key.kid)
	signed := append([]byte{0x84, 0x6a}, "Signature1"...)
	signed = append(signed, protected...)
	signed = append(appendHead(signed, 2, len(sealContext)), sealContext...)
	sent := append(append([]byte{0xd2, 0x84}, protected...), 0xa0)

	frame := append([]byte{0x82}, meta...) // the payload [meta, body] up to its body
	body := len(b) - at
	frame = appendHead(frame, 2, body)
	head := appendHead(nil, 2, len(frame)+body)
	if len(signed) < len(sent) {
		return nil, errors.New("seal: the frame does not fit")
	}
	before := len(signed) + len(head) + len(frame)
	if at < before || cap(b) < len(b)+SealTail {
		b = append(make([]byte, before, before+body+SealTail), b[at:]...)
		at = before
	}
	b = b[at-before:]
	copy(b[copy(b[copy(b, signed):], head)+len(signed):], frame)
	signature, err := edSigner{key.priv, alg}.Sign(nil, b)
	if err != nil {
		return nil, fmt.Errorf("seal: sign: %w", err)
	}
	b = append(appendHead(b, 2, len(signature)), signature...)
	b = b[len(signed)-len(sent):]
	copy(b, sent)
	return b, nil
}

// appendHead appends the shortest head of a CBOR item of the major type with n
// as its argument (RFC 8949, section 3).
func appendHead(b []byte, major byte, n int) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), uint64(n))
}

// ObjectID is the name of a sealed object: its SHA-256. Envelopes are
// canonical and carry nothing unsigned but the signature itself, so nobody
// without the signing key can make another name for the same content.
func ObjectID(sealed []byte) [32]byte { return sha256.Sum256(sealed) }

// envelope is a parsed, not yet verified object.
type envelope struct {
	msg  cose.Sign1Message
	alg  cose.Algorithm
	kid  [8]byte
	meta *Meta
	body []byte
}

// protectedHeader is the only protected header, in bytes, for an algorithm and
// key id: the map {1: alg, 4: kid} inside a byte string.
func protectedHeader(alg cose.Algorithm, kid [8]byte) []byte {
	m := []byte{0xa2, 0x01, byte(-1-alg) | 0x20, 0x04, 0x48}
	m = append(m, kid[:]...)
	return append([]byte{0x40 | byte(len(m))}, m...)
}

// parseEnvelope takes a sealed object of at most maxSize bytes apart. Nothing
// in the result is trustworthy before verify.
func parseEnvelope(sealed []byte, maxSize int, minVersion uint64) (*envelope, error) {
	if len(sealed) > maxSize {
		return nil, fmt.Errorf("%w: object of %d bytes, want at most %d", ErrTooLarge, len(sealed), maxSize)
	}
	if len(sealed) < 2 {
		return nil, fmt.Errorf("%w: object of %d bytes", ErrTruncated, len(sealed))
	}
	e := &envelope{}
	if err := e.msg.UnmarshalCBOR(sealed); err != nil {
		return nil, decodeError("envelope", err)
	}
	alg, err := e.msg.Headers.Protected.Algorithm()
	if err != nil {
		return nil, fmt.Errorf("%w: envelope: algorithm: %w", ErrMalformed, err)
	}
	if alg != algEd25519 && alg != algEdDSA {
		return nil, fmt.Errorf("%w: envelope: algorithm %d, want Ed25519 (-19)", ErrDowngraded, int64(alg))
	}
	kid, ok := e.msg.Headers.Protected[cose.HeaderLabelKeyID].([]byte)
	if !ok || len(kid) != 8 {
		return nil, fmt.Errorf("%w: envelope: no key id of 8 bytes", ErrMalformed)
	}
	e.alg, e.kid = alg, [8]byte(kid)
	protected := protectedHeader(alg, e.kid)
	size := 2 + len(protected) + 1 + byteStringSize(len(e.msg.Payload)) + byteStringSize(ed25519.SignatureSize)
	switch {
	case len(e.msg.Signature) != ed25519.SignatureSize:
		return nil, fmt.Errorf("%w: envelope: signature of %d bytes, want %d", ErrMalformed, len(e.msg.Signature), ed25519.SignatureSize)
	case !bytes.Equal(e.msg.Headers.RawProtected, protected), !bytes.Equal(e.msg.Headers.RawUnprotected, []byte{0xa0}), len(sealed) != size:
		return nil, fmt.Errorf("%w: envelope is not in canonical form", ErrMalformed)
	}
	var p wirePayload
	if err := payloadDec.Unmarshal(e.msg.Payload, &p); err != nil {
		return nil, decodeError("payload", err)
	}
	if len(e.msg.Payload) != 1+len(p.Meta)+byteStringSize(len(p.Body)) || e.msg.Payload[1+len(p.Meta)]>>5 != 2 {
		return nil, fmt.Errorf("%w: payload is not in canonical form", ErrMalformed)
	}
	if e.meta, err = unmarshalMeta(p.Meta, minVersion); err != nil {
		return nil, err
	}
	e.body = p.Body
	return e, nil
}

// verify checks the signature with pub.
func (e *envelope) verify(pub ed25519.PublicKey) error {
	if err := e.msg.Verify(sealContext, edVerifier{pub, e.alg}); err != nil {
		return fmt.Errorf("%w: %v of %q: %w", ErrSignature, e.meta.Kind, e.meta.Device, err)
	}
	return nil
}

// byteStringSize is the size of a canonical CBOR byte string of n bytes.
func byteStringSize(n int) int {
	switch {
	case n < 24:
		return 1 + n
	case n < 1<<8:
		return 2 + n
	case n < 1<<16:
		return 3 + n
	case uint64(n) < 1<<32:
		return 5 + n
	}
	return 9 + n
}

// PeekMeta reads the header of a sealed object without verifying anything. It
// is for routing and diagnostics only: an attacker chooses what it returns.
func PeekMeta(sealed []byte) (*Meta, error) {
	m, _, err := Peek(sealed)
	return m, err
}

// Peek is PeekMeta with the body.
func Peek(sealed []byte) (*Meta, []byte, error) {
	e, err := parseEnvelope(sealed, DefaultMaxObject, Version)
	if err != nil {
		return nil, nil, err
	}
	return e.meta, e.body, nil
}
