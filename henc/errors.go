package henc

import (
	"errors"

	"github.com/hencedge/hencedge/henc/internal/wire"
)

// Errors that this package wraps; test with errors.Is.
var (
	// ErrParams: the parameters are invalid, or an object belongs to others.
	ErrParams = errors.New("henc: wrong parameters")
	// ErrSecurity: the parameters are above the security table.
	ErrSecurity = errors.New("henc: parameters are not secure")
	// ErrUnknownSet: no parameter set has this name.
	ErrUnknownSet = errors.New("henc: unknown parameter set")
	// ErrLevel: a level does not exist, or the levels of two operands differ.
	ErrLevel = errors.New("henc: wrong level")
	// ErrScale: a scale is out of range, or the scales of two operands differ.
	ErrScale = errors.New("henc: wrong scale")
	// ErrMessage: values cannot be encoded: not finite, too many, or too large
	// for the modulus of the level.
	ErrMessage = errors.New("henc: message cannot be encoded")
	// ErrNoKey: an evaluation key that the operation needs is missing.
	ErrNoKey = errors.New("henc: missing evaluation key")

	// ErrMalformed: the bytes are not a canonical encoding of the object.
	ErrMalformed = wire.ErrMalformed
	// ErrTruncated: the bytes end early.
	ErrTruncated = wire.ErrTruncated
	// ErrVersion: the format version is not the one that this package speaks.
	ErrVersion = wire.ErrVersion
	// ErrKind: the bytes hold another kind of object.
	ErrKind = wire.ErrKind
	// ErrTooLarge: the bytes exceed the cap for the parameters.
	ErrTooLarge = errors.New("henc: encoding too large")
	// ErrLength: a part of an object has the wrong length.
	ErrLength = wire.ErrLength
	// ErrDegree: an object has the wrong number of polynomials.
	ErrDegree = errors.New("henc: wrong degree")
	// ErrDomain: the domain tag names no arrangement of residues.
	ErrDomain = errors.New("henc: wrong domain")
	// ErrRange: a residue is not below its modulus.
	ErrRange = wire.ErrRange
	// ErrSeed: the c1 of a ciphertext does not come from the seed that it names.
	ErrSeed = errors.New("henc: c1 does not come from the seed")
	// ErrDegenerate: a ciphertext hides nothing: its c1 is zero.
	ErrDegenerate = errors.New("henc: degenerate ciphertext")
)
