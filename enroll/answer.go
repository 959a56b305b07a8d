package enroll

import (
	"bytes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/hencedge/hencedge/transport"
)

// Limits of an answer.
const (
	maxWelcome = 64 << 20 // bytes: the largest public key has half of that
	partSize   = 96 << 10 // bytes of a welcome in one message
	maxParts   = (maxWelcome + partSize - 1) / partSize
	maxAnswer  = 1 << 10 // bytes of an answer without its parts
	maxReason  = 256
	maxFiles   = 8
)

// A Welcome is what a board needs to work: all that an operator gives it.
type Welcome struct {
	Class    string
	CA       []byte // PEM; empty: the system's authorities
	Username string // at the broker
	Password string // at the broker; empty: none
	// Streams are those of the class: the body of a transport.Status.
	Streams []byte
	// Files are the export of keys, by name.
	Files map[string][]byte
}

func (w *Welcome) validate() error {
	if !printable(w.Username, maxText) || !printable(w.Password, maxText) {
		return fmt.Errorf("%w: welcome: a user name or password is longer than %d bytes, or not printable",
			ErrMalformed, maxText)
	}
	if len(w.Files) > maxFiles {
		return fmt.Errorf("%w: welcome: %d files, want at most %d", ErrMalformed, len(w.Files), maxFiles)
	}
	if err := transport.CheckName(w.Class); err != nil {
		return fmt.Errorf("%w: welcome: class: %w", ErrMalformed, err)
	}
	for name := range w.Files { // becomes a file of the board
		if err := transport.CheckName(name); err != nil || name[0] == '.' {
			return fmt.Errorf("%w: welcome: a file %q", ErrMalformed, name)
		}
	}
	return nil
}

// answer is a decoded answer, without its parts.
type answer struct {
	accepted bool
	reason   string // why not
	request  [32]byte
	peer     []byte   // X25519, of this answer
	length   int      // of the parts together
	digest   [32]byte // of the parts together
	hash     [32]byte // of these bytes
}

func (a *answer) parts() int { return (a.length + sealedPart - 1) / sealedPart }

const sealedPart = partSize + chacha20poly1305.Overhead

// sealWelcome returns the answer to a request, and the parts that it announces.
func sealWelcome(w *Welcome, r *Request, key *transport.SigningKey, s Secret) (head []byte, parts [][]byte, err error) {
	if err := w.validate(); err != nil {
		return nil, nil, err
	}
	plain, err := encMode.Marshal(wireWelcome(*w))
	if err != nil {
		return nil, nil, fmt.Errorf("encode answer: %w", err)
	}
	defer clear(plain)
	if len(plain) > maxWelcome {
		return nil, nil, fmt.Errorf("%w: answer of %d bytes, want at most %d", ErrMalformed, len(plain), maxWelcome)
	}
	own := newEphemeral()
	aead, err := s.answerAEAD(own, r.ephemeral, r.hash)
	if err != nil {
		return nil, nil, err
	}
	sum, length := sha256.New(), 0
	for i := 0; i*partSize < len(plain); i++ {
		part := aead.Seal(nil, partNonce(i), plain[i*partSize:min((i+1)*partSize, len(plain))], nil)
		parts = append(parts, part)
		sum.Write(part)
		length += len(part)
	}
	body := wireAnswer{Request: r.hash[:], Accepted: true, Ephemeral: own.PublicKey().Bytes(), Length: length,
		Digest: sum.Sum(nil)}
	head, err = sealAnswer(body, key)
	return head, parts, err
}

// sealRefusal returns an answer that lets nobody in.
func sealRefusal(reason string, r *Request, key *transport.SigningKey) ([]byte, error) {
	if !printable(reason, maxReason) {
		return nil, fmt.Errorf("%w: a reason of %d bytes, want at most %d, printable", ErrMalformed, len(reason),
			maxReason)
	}
	return sealAnswer(wireAnswer{Request: r.hash[:], Reason: reason}, key)
}

// sealNotice returns what boards are told that ask with the token of an invitation after another has joined.
func sealNotice(invitation string, key *transport.SigningKey) ([]byte, error) {
	hash := noticeHash(invitation)
	return sealAnswer(wireAnswer{Request: hash[:], Reason: joined}, key)
}

func sealAnswer(a wireAnswer, key *transport.SigningKey) ([]byte, error) {
	body, err := encMode.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	signature, err := key.SignText(signedAnswer, body)
	if err != nil {
		return nil, err
	}
	b, err := encMode.Marshal(wireSigned{Body: body, Signer: key.Public(), Signature: signature})
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return b, nil
}

// openAnswer checks that the operator signed an answer and that it answers this request. It
// fails with ErrMalformed or ErrForged.
func openAnswer(b []byte, operator Print, request [32]byte) (*answer, error) {
	if len(b) > maxAnswer {
		return nil, fmt.Errorf("%w: answer of %d bytes, want at most %d", ErrMalformed, len(b), maxAnswer)
	}
	var signed wireSigned
	if err := decode("answer", b, &signed); err != nil {
		return nil, err
	}
	if len(signed.Signer) != ed25519.PublicKeySize || PrintOf(signed.Signer) != operator {
		return nil, fmt.Errorf("%w: the answer is not of the operator %s", ErrForged, operator)
	}
	if !transport.VerifyText(signed.Signer, signedAnswer, signed.Body, signed.Signature) {
		return nil, fmt.Errorf("%w: the signature of the answer is wrong", ErrForged)
	}
	var w wireAnswer
	if err := decode("answer", signed.Body, &w); err != nil {
		return nil, err
	}
	if !bytes.Equal(w.Request, request[:]) {
		return nil, fmt.Errorf("%w: the answer is to another request", ErrForged)
	}
	a := &answer{accepted: w.Accepted, reason: w.Reason, request: request, peer: w.Ephemeral, length: w.Length,
		hash: sha256.Sum256(b)}
	if !printable(a.reason, maxReason) || a.accepted &&
		(a.length < chacha20poly1305.Overhead || a.length > maxParts*sealedPart || copy(a.digest[:], w.Digest) != 32) {
		return nil, fmt.Errorf("%w: answer of %d bytes with a digest of %d", ErrMalformed, a.length, len(w.Digest))
	}
	return a, nil
}

// openWelcome decrypts the parts of an answer. It fails with ErrForged or
// ErrMalformed.
func openWelcome(parts [][]byte, a *answer, own *ecdh.PrivateKey, s Secret) (*Welcome, error) {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write(p)
	}
	if !bytes.Equal(sum.Sum(nil), a.digest[:]) {
		return nil, fmt.Errorf("%w: the answer is not the one that the operator signed", ErrForged)
	}
	aead, err := s.answerAEAD(own, a.peer, a.request)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, 0, a.length)
	for i, p := range parts {
		if plain, err = aead.Open(plain, partNonce(i), p, nil); err != nil {
			return nil, fmt.Errorf("%w: part %d of the answer cannot be decrypted", ErrForged, i+1)
		}
	}
	defer clear(plain)
	return parseWelcome(plain)
}

func parseWelcome(plain []byte) (*Welcome, error) {
	var w wireWelcome
	if err := decode("answer", plain, &w); err != nil {
		return nil, err
	}
	out := Welcome(w)
	if err := out.validate(); err != nil {
		return nil, err
	}
	return &out, nil
}

// answerAEAD returns ChaCha20-Poly1305 under the key of one answer, which encrypts each part
// once.
func (s Secret) answerAEAD(own *ecdh.PrivateKey, peer []byte, request [32]byte) (cipher.AEAD, error) {
	public, err := ecdh.X25519().NewPublicKey(peer)
	if err != nil {
		return nil, fmt.Errorf("%w: ephemeral key: %w", ErrMalformed, err)
	}
	key, err := s.answerKey(own, public, request)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	return chacha20poly1305.New(key)
}

// partNonce returns the nonce of a part: its number, 12 bytes big-endian.
func partNonce(i int) []byte { return binary.BigEndian.AppendUint64(make([]byte, 4, 12), uint64(i)) }

// wireSigned is an answer: the signature is that of the operator's key over the body.
type wireSigned struct {
	_         struct{} `cbor:",toarray"`
	Body      []byte
	Signer    []byte
	Signature []byte
}

type wireAnswer struct {
	Request   []byte `cbor:"0,keyasint"`
	Accepted  bool   `cbor:"1,keyasint"`
	Reason    string `cbor:"2,keyasint,omitempty"`
	Ephemeral []byte `cbor:"3,keyasint,omitempty"`
	Length    int    `cbor:"4,keyasint,omitempty"`
	Digest    []byte `cbor:"5,keyasint,omitempty"`
}

type wireWelcome struct {
	Class    string            `cbor:"0,keyasint"`
	CA       []byte            `cbor:"1,keyasint,omitempty"`
	Username string            `cbor:"2,keyasint,omitempty"`
	Password string            `cbor:"3,keyasint,omitempty"`
	Streams  []byte            `cbor:"4,keyasint"`
	Files    map[string][]byte `cbor:"5,keyasint"`
}
