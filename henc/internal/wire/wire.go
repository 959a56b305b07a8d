// Package wire holds what every serialised object of henc has in common: the
// strict, deterministic CBOR (RFC 8949, section 4.2.1) of flat arrays, and the
// packing of residues. The format is described in docs/wire-ciphertext.md.
//
// An object is one CBOR array that starts with [version, kind, parameter hash].
// Decoding accepts exactly the bytes that encoding produces: shortest heads and
// floats, definite lengths, no tags, nothing after the array.
package wire

import (
	"errors"
	"fmt"
)

// Version is the format version, the first element of every object. Version 1 drew
// uniform residues from seeds by masks, which gives other polynomials.
const Version = 2

// Kind is the second element of every object.
type Kind uint64

// The kinds.
const (
	KindCiphertext     Kind = 1
	KindPublicKey      Kind = 2
	KindEvaluationKeys Kind = 3
	KindSecretKey      Kind = 4
	KindSwitchingKey   Kind = 5
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case KindCiphertext:
		return "ciphertext"
	case KindPublicKey:
		return "public key"
	case KindEvaluationKeys:
		return "evaluation keys"
	case KindSecretKey:
		return "secret key"
	case KindSwitchingKey:
		return "switching key"
	}
	return fmt.Sprintf("kind %d", uint64(k))
}

// Errors; package henc exports them.
var (
	ErrMalformed = errors.New("henc: malformed encoding")
	ErrTruncated = errors.New("henc: truncated encoding")
	ErrVersion   = errors.New("henc: unsupported format version")
	ErrKind      = errors.New("henc: wrong kind of object")
	ErrLength    = errors.New("henc: part of the wrong length")
	ErrRange     = errors.New("henc: residue out of range")
)
