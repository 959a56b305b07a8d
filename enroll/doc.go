// Package enroll lets an operator take a board into a class of an evaluator's devices, with
// one short token. The broker between them is not trusted.
//
//	Token     what the operator hands over: where the broker is, whom to trust, a secret
//	Book      the operator's invitations on disk; each is good for one board
//	Desk      the operator's side: lists requests, answers them, clears up
//	Board     the board's side: asks, waits, checks the answer
//
// The board signs its request with its own key and authenticates it with the token's secret.
// The answer is encrypted for an ephemeral key of that request and signed by the operator.
// docs/security.md says what each party knows, docs/wire-format.md has the bytes.
//
// The package knows nothing of keys for encryption: files cross as bytes, and whoever calls
// verifies them.
package enroll

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Errors of this package. Those of decoders wrap ErrMalformed.
var (
	// ErrMalformed: bytes or text that are no token or message.
	ErrMalformed = errors.New("malformed")
	// ErrExpired: the time of an invitation is over.
	ErrExpired = errors.New("the invitation has expired")
	// ErrRevoked: the operator has taken an invitation back.
	ErrRevoked = errors.New("the invitation was revoked")
	// ErrUsed: an invitation has let another board in.
	ErrUsed = errors.New("the invitation was used by another board")
	// ErrRefused: the operator refused the request.
	ErrRefused = errors.New("the operator refused the request")
	// ErrForged: a message was not made by whom it should come from.
	ErrForged = errors.New("not authentic")
	// ErrNoKey: a desk without the operator's key answers nobody.
	ErrNoKey = errors.New("the operator's key is not here")
	// ErrUnknown: the book has no such invitation or request.
	ErrUnknown = errors.New("unknown")
)

// encMode and decMode are deterministic CBOR (RFC 8949, section 4.2.1), read strictly.
var (
	encMode = must(cbor.EncOptions{Sort: cbor.SortCoreDeterministic}.EncMode())
	decMode = must(cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		TagsMd: cbor.TagsForbidden, MaxNestedLevels: 4, MaxArrayElements: 16, MaxMapPairs: 32,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, UTF8: cbor.UTF8RejectInvalid}.DecMode())
)

// decode reads what encMode wrote, and nothing else. what names it in errors.
func decode(what string, b []byte, out any) error {
	if err := decMode.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
	}
	if again, err := encMode.Marshal(out); err != nil || !bytes.Equal(again, b) {
		return fmt.Errorf("%w: %s is not in deterministic encoding", ErrMalformed, what)
	}
	return nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options that are constants
	}
	return v
}
