package transport

import (
	"fmt"
	"math"
	"slices"
)

// Version is the format version that Seal writes. It is the first field of the
// signed header; Open refuses older versions (ErrDowngraded) and newer ones
// (ErrUnsupportedVersion).
const Version = 2

// Limits of the signed header.
const (
	MaxMeta    = 16 << 10 // encoded header, in bytes
	MaxLevel   = 63       // highest level
	MaxScale   = 0x1p120  // largest scale
	MaxSamples = 1 << 17  // most samples of a window per channel
	MaxInputs  = 256      // most inputs of a result
	MaxSlots   = 1 << 16  // slots of the largest ring, N = 2^17
)

// DefaultMaxObject is the largest sealed object that is taken unless the
// options say otherwise: a public-key ciphertext of the largest parameter set
// (21 MiB) fits.
const DefaultMaxObject = 32 << 20

// Meta is the signed header of an object. What a field means depends on Kind:
//
//	            reading            result              status, receipt, ask, program
//	Device      the device         the evaluator       the sender
//	Stream      the stream         optional            optional
//	Program     empty              the program         optional (program: required)
//	Subject     empty              of a class program  empty
//	KeyID ...   of the ciphertext  of the ciphertext   optional
//	Layout      of the stream      optional            optional
//	Inputs      empty              object ids          optional
//	Post        nil                how to read it      nil
//	Present     empty              samples by input    empty
//	Fleet       nil                of several devices  nil
//	Packed      0                  of a pack           0
//	Place       of the device      0                   0
type Meta struct {
	Kind    Kind
	Device  string // CheckName
	Stream  string // CheckName, or empty
	Program string // CheckName, or empty
	// Subject is the device that a result of a program for a class is about. CheckName, or
	// empty.
	Subject string

	KeyID    [16]byte // key set that the body is encrypted under
	KeyEpoch uint32   // epoch of that key set

	BootEpoch uint64 // grows with every start of the sender
	Sequence  uint64 // grows with every object of one sender and stream

	Params [32]byte // parameter hash
	Layout [32]byte // slot layout hash of the stream, or program hash
	Level  int      // of the ciphertext, 0..MaxLevel
	Scale  float64  // of the ciphertext, (0, MaxScale]; 0 for status and receipt

	Start, End int64  // the window, unix nanoseconds, Start <= End
	Samples    uint32 // filled samples per channel, at most MaxSamples

	Inputs [][32]byte // ids of the objects that a result was computed from
	Post   *Post      // what the key holder does after decryption
	// Present are the samples per channel of each of Inputs; empty: all windows are full.
	Present []uint32
	// Fleet is there if a result was computed across the devices of a class. Inputs are then
	// there only up to MaxInputs windows, in ascending order.
	Fleet *Fleet
	// Packed is how many results a pack carries; see Results. 0: it is none.
	Packed uint32
	// Place is where the samples of a reading stand in the slots, in a stream whose windows at
	// different places are added up; below MaxSlots.
	Place uint32
}

// Post tells the key holder how to read a decrypted result:
//
//	value_i = A*Re(slot[Slot+i]) + B, i < Count; its square root when Sqrt is set
//
// in natural units, with an error of at most Bound.
type Post struct {
	A, B  float64 // finite, A not 0
	Sqrt  bool    // take the square root (negative noise reads as 0)
	Slot  int     // first slot
	Count int     // number of values, at least 1; Slot+Count <= MaxSlots
	Bound float64 // promised |error| in result units, >= 0
}

// Validate checks every field of m; it fails with ErrMalformed.
func (m *Meta) Validate() error {
	if err := CheckName(m.Device); err != nil {
		return fmt.Errorf("header: device: %w", err)
	}
	for _, f := range []struct {
		what, name string
		need, bar  bool
	}{
		{"stream", m.Stream, m.Kind == KindReading, false},
		{"program", m.Program, m.Kind == KindResult || m.Kind == KindProgram, m.Kind == KindReading},
		{"subject", m.Subject, false, m.Kind != KindResult},
	} {
		switch {
		case f.name == "" && f.need:
			return fmt.Errorf("%w: header: a %v names no %s", ErrMalformed, m.Kind, f.what)
		case f.name != "" && f.bar:
			return fmt.Errorf("%w: header: a %v has no %s, got %q", ErrMalformed, m.Kind, f.what, f.name)
		case f.name != "":
			if err := CheckName(f.name); err != nil {
				return fmt.Errorf("header: %s: %w", f.what, err)
			}
		}
	}
	encrypted := false
	switch m.Kind {
	case KindReading, KindResult:
		encrypted = true
	case KindStatus, KindReceipt, KindAsk, KindProgram:
	default:
		return fmt.Errorf("%w: header: kind %d", ErrMalformed, m.Kind)
	}
	switch {
	case m.Level < 0 || m.Level > MaxLevel:
		return fmt.Errorf("%w: header: level %d, want 0 to %d", ErrMalformed, m.Level, MaxLevel)
	case !(m.Scale >= 0 && m.Scale <= MaxScale), encrypted && m.Scale == 0:
		return fmt.Errorf("%w: header: scale %g, want above 0 and at most 2^120", ErrMalformed, m.Scale)
	case m.Start > m.End:
		return fmt.Errorf("%w: header: window starts at %d after its end %d", ErrMalformed, m.Start, m.End)
	case m.Samples > MaxSamples:
		return fmt.Errorf("%w: header: %d samples, want at most %d", ErrMalformed, m.Samples, MaxSamples)
	case len(m.Inputs) > MaxInputs:
		return fmt.Errorf("%w: header: %d inputs, want at most %d", ErrMalformed, len(m.Inputs), MaxInputs)
	case m.Kind == KindReading && len(m.Inputs) > 0:
		return fmt.Errorf("%w: header: a reading has no inputs, got %d", ErrMalformed, len(m.Inputs))
	case len(m.Present) > 0 && (m.Kind != KindResult || len(m.Present) != len(m.Inputs)):
		return fmt.Errorf("%w: header: a %v with %d inputs and samples of %d", ErrMalformed, m.Kind, len(m.Inputs),
			len(m.Present))
	case slices.ContainsFunc(m.Present, func(n uint32) bool { return n < 1 || n > MaxSamples }):
		return fmt.Errorf("%w: header: samples of inputs %d, want 1 to %d", ErrMalformed, m.Present, MaxSamples)
	case m.Fleet != nil && (m.Kind != KindResult || m.Subject != "" || len(m.Present) > 0):
		return fmt.Errorf("%w: header: only a result that is about no single device and names no samples by input is "+
			"about several devices", ErrMalformed)
	case m.Place >= MaxSlots, m.Place > 0 && m.Kind != KindReading:
		return fmt.Errorf("%w: header: a %v at place %d", ErrMalformed, m.Kind, m.Place)
	case m.Packed > 0 && !m.isPack():
		return fmt.Errorf("%w: header: a %v of program %q packs %d results", ErrMalformed, m.Kind, m.Program, m.Packed)
	case m.Post != nil && m.Kind != KindResult:
		return fmt.Errorf("%w: header: only a result has a post-processing step", ErrMalformed)
	case m.Fleet != nil:
		if err := m.Fleet.validate(m.Inputs); err != nil {
			return err
		}
	}
	if m.Post != nil {
		return m.Post.validate()
	}
	return nil
}

// isPack reports whether the fields of a header with Packed are those of a pack.
func (m *Meta) isPack() bool {
	return m.Kind == KindResult && m.Program == PackProgram && m.Packed <= MaxPacked && m.Layout == [32]byte{} &&
		m.Stream == "" && m.Subject == "" && m.Samples == 0 && len(m.Inputs) == 0 && m.Post == nil && m.Fleet == nil
}

func (p *Post) validate() error {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	switch {
	case !finite(p.A) || !finite(p.B) || p.A == 0:
		return fmt.Errorf("%w: header: post-processing %g*x + %g", ErrMalformed, p.A, p.B)
	case !finite(p.Bound) || p.Bound < 0:
		return fmt.Errorf("%w: header: error bound %g", ErrMalformed, p.Bound)
	case p.Slot < 0 || p.Count < 1 || p.Slot > MaxSlots || p.Count > MaxSlots-p.Slot:
		return fmt.Errorf("%w: header: %d values from slot %d, want within %d slots", ErrMalformed, p.Count, p.Slot,
			MaxSlots)
	}
	return nil
}

// CheckBody compares what the signature covers with what the body's own header
// says: parameter hash (ErrWrongParams), level and scale (ErrBodyMismatch).
// The receiver calls it with the values that it read from the body before it
// computes; transport itself does not look into bodies.
func (m *Meta) CheckBody(params [32]byte, level int, scale float64) error {
	switch {
	case params != m.Params:
		return fmt.Errorf("%w: body %x, header %x", ErrWrongParams, params[:4], m.Params[:4])
	case level != m.Level:
		return fmt.Errorf("%w: body level %d, header %d", ErrBodyMismatch, level, m.Level)
	case math.Float64bits(scale) != math.Float64bits(m.Scale):
		return fmt.Errorf("%w: body scale %g, header %g", ErrBodyMismatch, scale, m.Scale)
	}
	return nil
}

// Object is a verified object.
type Object struct {
	Meta   Meta
	Body   []byte   // nil where there are Pieces
	Pieces [][]byte // of the body of an object that was opened in pieces
	ID     [32]byte // SHA-256 of the sealed bytes: the name of the object
	Signer [32]byte // Ed25519 public key that signed it
}

// InPieces returns the body in pieces, at least one.
func (o *Object) InPieces() [][]byte {
	if len(o.Pieces) == 0 {
		return [][]byte{o.Body}
	}
	return o.Pieces
}

// Kind says what an object is.
type Kind uint8

// The kinds.
const (
	KindReading Kind = 1 // one encrypted window of one stream, signed by its device
	KindResult  Kind = 2 // one encrypted program result, signed by an evaluator
	KindStatus  Kind = 3 // birth or last will of a client, in clear, retained
	KindReceipt Kind = 4 // what became of objects, signed by who took them: see Receipt
	KindAsk     Kind = 5 // asks for a receipt, signed by the sender of the objects: see Ask
	KindProgram Kind = 6 // what a program computes on what, signed by its evaluator, in clear, retained
)

// String returns the label of the kind in logs and metrics.
func (k Kind) String() string {
	switch k {
	case KindReading:
		return "reading"
	case KindResult:
		return "result"
	case KindStatus:
		return "status"
	case KindReceipt:
		return "receipt"
	case KindAsk:
		return "ask"
	case KindProgram:
		return "program"
	}
	return "invalid"
}
