package enroll

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// What HKDF-SHA-256 (RFC 5869) makes of a secret, and the purposes of signatures.
const (
	idInfo        = "hencedge enrolment id v1"
	requestInfo   = "hencedge enrolment request v1"
	answerInfo    = "hencedge enrolment answer v1"
	signedRequest = "enrolment request v1"
	signedAnswer  = "enrolment answer v1"
	noticeInfo    = "hencedge enrolment used v1 " // before the name of an invitation
)

// ID names the invitation on topics and in the book: 80 bits in hexadecimal, from which
// nothing about the secret follows.
func (s Secret) ID() string { return hex.EncodeToString(s.derive(idInfo, 10)) }

func (s Secret) derive(info string, n int) []byte {
	return must(hkdf.Key(sha256.New, s[:], nil, info, n))
}

// mac returns the proof that the sender of a message of a board knows the secret:
// HMAC-SHA-256 over the kind and the length of the body, 8 bytes each, body and signature.
func (s Secret) mac(kind uint64, body, signature []byte) []byte {
	h := hmac.New(sha256.New, s.derive(requestInfo, 32))
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, kind), uint64(len(body))))
	h.Write(body)
	h.Write(signature)
	return h.Sum(nil)
}

// answerKey returns the key of an answer: 32 bytes from an X25519 exchange and the secret,
// bound to the bytes of the request. It fails for a public half of low order.
func (s Secret) answerKey(own *ecdh.PrivateKey, peer *ecdh.PublicKey, request [32]byte) ([]byte, error) {
	shared, err := own.ECDH(peer)
	if err != nil {
		return nil, fmt.Errorf("%w: ephemeral key: %w", ErrMalformed, err)
	}
	return hkdf.Key(sha256.New, append(shared, s[:]...), request[:], answerInfo, 32)
}

func newEphemeral() *ecdh.PrivateKey { return must(ecdh.X25519().GenerateKey(rand.Reader)) }

// BoardID names a board on topics: 64 bits of the SHA-256 of its key, in hexadecimal.
func BoardID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:8])
}

// AskTopic returns <prefix>/join/<invitation>/<board>/ask, where a board asks; retained.
func AskTopic(prefix, invitation, board string) string {
	return prefix + "/join/" + invitation + "/" + board + "/ask"
}

// AnswerTopic returns <prefix>/join/<invitation>/<board>/answer, where the operator answers.
// An answer that lets a board in is retained.
func AnswerTopic(prefix, invitation, board string) string {
	return prefix + "/join/" + invitation + "/" + board + "/answer"
}

// NoticeTopic returns <prefix>/join/<invitation>/used/answer, where the operator tells every board
// that asks later that the token has let one in; retained until the invitation expires.
func NoticeTopic(prefix, invitation string) string { return AnswerTopic(prefix, invitation, "used") }

// noticeHash stands in a notice for the hash of a request: it answers those of one invitation, and is the hash
// of no request.
func noticeHash(invitation string) [32]byte { return sha256.Sum256([]byte(noticeInfo + invitation)) }

// PartTopic returns <prefix>/join/<invitation>/<board>/part/<number>: a part of what an
// answer announces, from 1 on; retained.
func PartTopic(prefix, invitation, board string, number int) string {
	return prefix + "/join/" + invitation + "/" + board + "/part/" + strconv.Itoa(number)
}

// askFilter matches what boards ask.
func askFilter(prefix string) string { return AskTopic(prefix, "+", "+") }

// cutAsk returns the names in an AskTopic.
func cutAsk(prefix, topic string) (invitation, board string, ok bool) {
	rest, ours := strings.CutPrefix(topic, prefix+"/join/")
	rest, ask := strings.CutSuffix(rest, "/ask")
	invitation, board, ok = strings.Cut(rest, "/")
	return invitation, board, ours && ask && ok && !strings.Contains(board, "/")
}
