package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"github.com/hencedge/hencedge/internal/pieces"
)

// A sealed object is the CBOR array [body, envelope]. The envelope is a COSE_Sign1 over
// [header, digest], and digest is the SHA-256 of the front: of all that stands before the
// envelope. So Ed25519, which hashes what it signs twice, sees a few hundred bytes. The body
// comes first, so that one pass over an object gives both its digest and its id (hashObject).

// sealContext is the external_aad of every signature: it keeps a signature made
// here from being valid in another protocol that uses the same key.
var sealContext = []byte("hencedge object v2")

// What SealInPlace wants before and after a body, in bytes: the head of the front with that of a chunk before it, and
// an envelope whose header has at most 768 bytes.
const (
	SealRoom = 16 + chunkOverhead
	SealTail = 1024
)

// digestItem is the length of a digest in a payload, a byte string with its head.
const digestItem = 2 + sha256.Size

// maxPayload bounds the payload of an envelope: [header, digest].
const maxPayload = 1 + MaxMeta + digestItem

// Seal signs meta and a digest of body and returns the sealed object: the deterministic CBOR
// array [body, COSE_Sign1]. The same input always gives the same bytes. body is copied.
func Seal(meta Meta, body []byte, key *SigningKey) ([]byte, error) {
	return SealInPlace(meta, body, 0, key)
}

// SealInPlace is Seal for a body that stands in b from at on, which it does not copy. That
// needs SealRoom bytes before the body and SealTail bytes of capacity after it. With less
// room the body may be copied. The caller must not use b afterwards.
func SealInPlace(meta Meta, b []byte, at int, key *SigningKey) ([]byte, error) {
	sealed, _, err := SealNamed(meta, b, at, key)
	return sealed, err
}

// SealNamed is SealInPlace that also returns the ObjectID of the object, from the pass over
// the body that the digest takes.
func SealNamed(meta Meta, b []byte, at int, key *SigningKey) (sealed []byte, id [32]byte, err error) {
	o, err := SealToSend(meta, b, at, key)
	return o.Bytes, o.ID, err
}

// Sealed is a sealed object that can be sent without another copy: see Sender.SendSealed.
type Sealed struct {
	Bytes []byte
	ID    [32]byte // ObjectID of Bytes
	chunk []byte   // the object as the one chunk of itself, which ends with Bytes; nil where there was no room
}

// SealToSend is SealInPlace that also returns the ObjectID of the object, and keeps what SendSealed needs.
func SealToSend(meta Meta, b []byte, at int, key *SigningKey) (o Sealed, err error) {
	if at < 0 || at > len(b) {
		return o, fmt.Errorf("seal: a body at %d of %d bytes", at, len(b))
	}
	if key == nil {
		return o, errors.New("seal: no signing key")
	}
	if err := meta.Validate(); err != nil {
		return o, fmt.Errorf("seal: %w", err)
	}
	m, err := marshalMeta(&meta, Version)
	if err != nil {
		return o, fmt.Errorf("seal: %w", err)
	}
	if len(m) > MaxMeta {
		return o, fmt.Errorf("seal: %w: header of %d bytes, want at most %d", ErrTooLarge, len(m), MaxMeta)
	}
	return sealAt(m, b, at, key, algEd25519)
}

// sealAt seals the body b[at:] under an encoded header.
func sealAt(header, b []byte, at int, key *SigningKey, alg int64) (o Sealed, err error) {
	body := len(b) - at
	head := appendHead([]byte{0x82}, majorBytes, body)
	sum := sha256.New()
	sum.Write(head)
	sum.Write(b[at:])
	envelope, err := sign(appendPayload(header, sum.Sum(nil)), key, alg, sealContext)
	if err != nil {
		return o, err
	}
	sum.Write(envelope)
	sum.Sum(o.ID[:0])
	if at < len(head) || cap(b) < len(b)+len(envelope) {
		b = append(make([]byte, len(head), len(head)+body+len(envelope)), b[at:]...)
		at = len(head)
	}
	b = append(b, envelope...)
	begin := at - len(head)
	copy(b[begin:], head)
	o.Bytes = b[begin:]
	piece := Chunk{Object: o.ID, Total: 1, Size: len(o.Bytes), Data: o.Bytes}
	if front := piece.appendFront(make([]byte, 0, chunkOverhead)); begin >= len(front) {
		o.chunk = b[begin-len(front):]
		copy(o.chunk, front)
	}
	return o, nil
}

// appendPayload returns the payload [header, digest].
func appendPayload(header, digest []byte) []byte {
	p := append(make([]byte, 0, 1+len(header)+digestItem), 0x82)
	p = append(p, header...)
	return append(appendHead(p, majorBytes, len(digest)), digest...)
}

// sign returns the COSE_Sign1 of payload.
func sign(payload []byte, key *SigningKey, alg int64, context []byte) ([]byte, error) {
	if bytes.Equal(key.priv[:32], make([]byte, 32)) {
		return nil, errors.New("seal: the signing key was wiped")
	}
	f := frame{protected: protectedHeader(alg, key.kid), payload: payload}
	f.signature = ed25519.Sign(key.priv, f.signed(context))
	b := append(make([]byte, 0, 3+len(f.protected)+2*mostHead+len(payload)+len(f.signature)), 0xd2, 0x84)
	b = append(append(b, f.protected...), 0xa0)
	b = append(appendHead(b, majorBytes, len(payload)), payload...)
	return append(appendHead(b, majorBytes, len(f.signature)), f.signature...), nil
}

// ObjectID returns the name of a sealed object: its SHA-256. Objects are canonical and
// carry nothing unsigned but the signature itself, so nobody without the signing key can
// make another name for the same content.
func ObjectID(sealed []byte) [32]byte { return sha256.Sum256(sealed) }

// hashObject returns ObjectID(sealed) and, from the same pass, the SHA-256 of the front. Of
// bytes that do not begin like an object, the latter is that of nothing.
func hashObject(sealed []byte) (id, digest [32]byte) {
	h := newObjectHash(len(sealed))
	h.write(sealed)
	return h.sums()
}

// objectHash is hashObject of an object of size bytes that comes in pieces, of which the first has the head.
type objectHash struct {
	hash   hash.Hash
	size   int
	begun  bool
	front  int // bytes of the front that are still to come
	digest [32]byte
}

func newObjectHash(size int) *objectHash { return &objectHash{hash: sha256.New(), size: size} }

func (h *objectHash) write(b []byte) {
	if !h.begun {
		h.begun = true
		if h.front = frontBytes(b, h.size); h.front == 0 {
			h.hash.Sum(h.digest[:0])
		}
	}
	if n := min(h.front, len(b)); n > 0 {
		h.hash.Write(b[:n])
		if h.front -= n; h.front == 0 {
			h.hash.Sum(h.digest[:0])
		}
		b = b[n:]
	}
	h.hash.Write(b)
}

// sums returns what hashObject returns, once everything was written.
func (h *objectHash) sums() (id, digest [32]byte) {
	h.hash.Sum(id[:0])
	return id, h.digest
}

// frontBytes returns the length of the front of an object of size bytes that begins with b, 0 if it does not begin like
// one.
func frontBytes(b []byte, size int) int {
	if len(b) == 0 || b[0] != 0x82 {
		return 0
	}
	major, n, rest, err := cutHead(b[1:])
	head := len(b) - len(rest)
	if err != nil || major != majorBytes || n > uint64(size-head) {
		return 0
	}
	return head + int(n)
}

// object is a sealed object taken apart by offsets: it shares the memory of the object,
// and nothing in it was decoded. Nothing in it is trustworthy before the signature was
// verified, and the body not before the front was compared with the digest.
type object struct {
	frame
	body   []byte
	pieces [][]byte // instead of body
	header []byte
	digest [32]byte // of the front, as the payload has it
}

// cutObject takes b apart. It fails with ErrTruncated, ErrMalformed, ErrTooLarge (payload)
// or, for another algorithm or the form of format version 1, with ErrDowngraded.
func cutObject(b []byte) (o object, err error) {
	_, body, envelope, err := cutFront(b)
	if err != nil {
		return o, err
	}
	o, err = cutEnvelope(envelope)
	o.body = body
	return o, err
}

// cutEnvelope takes the envelope of an object apart.
func cutEnvelope(envelope []byte) (o object, err error) {
	if o.frame, err = cutFrame("envelope", envelope); err != nil {
		return o, err
	}
	n := len(o.payload) - digestItem // where the digest begins
	switch {
	case len(o.payload) > maxPayload:
		return o, fmt.Errorf("%w: payload of %d bytes, want at most %d", ErrTooLarge, len(o.payload), maxPayload)
	case n < 1 || o.payload[0] != 0x82 || o.payload[n] != majorBytes<<5|24 || o.payload[n+1] != sha256.Size:
		return o, fmt.Errorf("%w: the payload is not an array of header and digest", ErrMalformed)
	}
	o.header, o.digest = o.payload[1:n], [32]byte(o.payload[n+2:])
	return o, nil
}

// cut is cutObject without a copy of the body: that of an object in pieces is in pieces too.
func (s *Staged) cut() (object, error) {
	if s.Pieces == nil {
		return cutObject(s.Sealed)
	}
	size := s.Size()
	front := frontBytes(s.Pieces[0], size)
	if front == 0 {
		return cutObject(s.Whole()) // which says what is wrong
	}
	o, err := cutEnvelope(pieces.Join(pieces.Section(s.Pieces, front, size)))
	_, _, rest, _ := cutHead(s.Pieces[0][1:])
	o.pieces = pieces.Section(s.Pieces, len(s.Pieces[0])-len(rest), front)
	return o, err
}

// cutFront cuts b into its front, which ends with the body, and the envelope.
func cutFront(b []byte) (front, body, envelope []byte, err error) {
	switch {
	case len(b) == 0:
		return nil, nil, nil, fmt.Errorf("%w: object of 0 bytes", ErrTruncated)
	case b[0] == 0xd2: // a COSE_Sign1 over all
		return nil, nil, nil, fmt.Errorf("%w: an object as format version 1 has it, want version %d", ErrDowngraded,
			Version)
	case b[0] != 0x82:
		return nil, nil, nil, fmt.Errorf("%w: the object is not an array of body and envelope", ErrMalformed)
	}
	body, envelope, err = cutBytes(b[1:])
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: body", err)
	}
	return b[:len(b)-len(envelope)], body, envelope, nil
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
	o, err := cutObject(sealed)
	if err != nil {
		return nil, nil, err
	}
	m, err := unmarshalMeta(o.header)
	if err != nil {
		return nil, nil, err
	}
	return m, o.body, nil
}
