package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
)

// The encoder is core deterministic CBOR; the decoders refuse what a
// deterministic encoder cannot have written, and cap counts before allocation.
// They are built once; the options are constant, so a failure is a programming
// error that the first test run shows.
var (
	wireEnc = must(cbor.EncOptions{
		Sort:          cbor.SortCoreDeterministic,
		ShortestFloat: cbor.ShortestFloat16,
		NaNConvert:    cbor.NaNConvertReject,
		InfConvert:    cbor.InfConvertReject,
		IndefLength:   cbor.IndefLengthForbidden,
		TagsMd:        cbor.TagsForbidden,
	}.EncMode())
	wireDec = must(strictDecOptions(cbor.ExtraDecErrorUnknownField).DecMode())
	peekDec = must(strictDecOptions(cbor.ExtraDecErrorNone).DecMode())
)

func strictDecOptions(extra cbor.ExtraDecErrorCond) cbor.DecOptions {
	return cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		MaxNestedLevels:   5,
		MaxArrayElements:  MaxInputs,
		MaxMapPairs:       64,
		ExtraReturnErrors: extra,
		UTF8:              cbor.UTF8RejectInvalid,
		NaN:               cbor.NaNDecodeForbidden,
		Inf:               cbor.InfDecodeForbidden,
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// decodeError classifies an error of the CBOR decoder.
func decodeError(what string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: %w", ErrTruncated, what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
}

func marshalMeta(m *Meta, version uint64) ([]byte, error) {
	w := wireMeta{
		Version: version, Kind: uint8(m.Kind), Device: m.Device, Stream: m.Stream, Program: m.Program,
		KeyID: m.KeyID[:], KeyEpoch: m.KeyEpoch, BootEpoch: m.BootEpoch, Sequence: m.Sequence,
		Params: m.Params[:], Layout: m.Layout[:], Level: uint8(m.Level), Scale: m.Scale,
		Start: m.Start, End: m.End, Samples: m.Samples, Present: m.Present,
		Subject: m.Subject, Packed: m.Packed, Place: m.Place,
	}
	if f := m.Fleet; f != nil {
		w.Fleet = &wireFleet{f.Devices, f.Windows, f.Samples, f.Digest[:]}
	}
	for i := range m.Inputs {
		w.Inputs = append(w.Inputs, m.Inputs[i][:])
	}
	if p := m.Post; p != nil {
		w.Post = &wirePost{A: p.A, B: p.B, Sqrt: p.Sqrt, Slot: uint32(p.Slot), Count: uint32(p.Count), Bound: p.Bound}
	}
	b, err := wireEnc.Marshal(&w)
	if err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	return b, nil
}

// unmarshalMeta decodes a header strictly: canonical encoding only, known keys only, every
// field in range, and no version but the one that this build reads.
func unmarshalMeta(b []byte) (*Meta, error) {
	if len(b) > MaxMeta {
		return nil, fmt.Errorf("%w: header of %d bytes, want at most %d", ErrTooLarge, len(b), MaxMeta)
	}
	if !current(b) {
		if err := otherVersion(b); err != nil {
			return nil, err
		}
	}
	var w wireMeta
	if err := wireDec.Unmarshal(b, &w); err != nil {
		return nil, decodeError("header", err)
	}
	m := &Meta{
		Kind: Kind(w.Kind), Device: w.Device, Stream: w.Stream, Program: w.Program,
		KeyEpoch: w.KeyEpoch, BootEpoch: w.BootEpoch, Sequence: w.Sequence,
		Level: int(w.Level), Scale: w.Scale, Start: w.Start, End: w.End, Samples: w.Samples, Present: w.Present,
		Subject: w.Subject, Packed: w.Packed, Place: w.Place,
	}
	for _, f := range []struct {
		what string
		dst  []byte
		src  []byte
	}{{"key id", m.KeyID[:], w.KeyID}, {"parameter hash", m.Params[:], w.Params},
		{"layout hash", m.Layout[:], w.Layout}} {
		if len(f.src) != len(f.dst) {
			return nil, fmt.Errorf("%w: header: %s of %d bytes, want %d", ErrMalformed, f.what, len(f.src), len(f.dst))
		}
		copy(f.dst, f.src)
	}
	for _, id := range w.Inputs {
		if len(id) != 32 {
			return nil, fmt.Errorf("%w: header: input id of %d bytes, want 32", ErrMalformed, len(id))
		}
		m.Inputs = append(m.Inputs, [32]byte(id))
	}
	if f := w.Fleet; f != nil {
		if len(f.Digest) != 32 {
			return nil, fmt.Errorf("%w: header: digest of inputs of %d bytes, want 32", ErrMalformed, len(f.Digest))
		}
		m.Fleet = &Fleet{f.Devices, f.Windows, f.Samples, [32]byte(f.Digest)}
	}
	if p := w.Post; p != nil {
		if p.Slot > MaxSlots || p.Count > MaxSlots {
			return nil, fmt.Errorf("%w: header: %d values from slot %d, want within %d slots", ErrMalformed, p.Count,
				p.Slot, MaxSlots)
		}
		m.Post = &Post{A: p.A, B: p.B, Sqrt: p.Sqrt, Slot: int(p.Slot), Count: int(p.Count), Bound: p.Bound}
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	again, err := marshalMeta(m, Version)
	if err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: header is not in canonical form", ErrMalformed)
	}
	return m, nil
}

// current reports whether a header begins as one of this version does in canonical form, with the version.
func current(b []byte) bool {
	major, _, rest, err := cutHead(b)
	if err != nil || major != majorMap || len(rest) < 2 || rest[0] != 0 { // key 0
		return false
	}
	v, _, err := cutUint(rest[1:])
	return err == nil && v == Version
}

// otherVersion says why a header is not one of this version. It returns nil for one that says so in another place.
func otherVersion(b []byte) error {
	var peek struct {
		Version *uint64 `cbor:"0,keyasint"`
	}
	if err := peekDec.Unmarshal(b, &peek); err != nil {
		return decodeError("header", err)
	}
	switch {
	case peek.Version == nil:
		return fmt.Errorf("%w: header has no version", ErrMalformed)
	case *peek.Version < Version:
		return fmt.Errorf("%w: format version %d, want %d", ErrDowngraded, *peek.Version, Version)
	case *peek.Version > Version:
		return fmt.Errorf("%w: format version %d, this build reads %d", ErrUnsupportedVersion, *peek.Version, Version)
	}
	return nil
}

// wireMeta is Meta as it travels: a CBOR map with integer keys in ascending
// order (RFC 8949, section 4.2.1). Names and keys 16 to 22 are left out when
// empty; everything else is always there.
type wireMeta struct {
	Version   uint64     `cbor:"0,keyasint"`
	Kind      uint8      `cbor:"1,keyasint"`
	Device    string     `cbor:"2,keyasint"`
	Stream    string     `cbor:"3,keyasint,omitempty"`
	Program   string     `cbor:"4,keyasint,omitempty"`
	KeyID     []byte     `cbor:"5,keyasint"`
	KeyEpoch  uint32     `cbor:"6,keyasint"`
	BootEpoch uint64     `cbor:"7,keyasint"`
	Sequence  uint64     `cbor:"8,keyasint"`
	Params    []byte     `cbor:"9,keyasint"`
	Layout    []byte     `cbor:"10,keyasint"`
	Level     uint8      `cbor:"11,keyasint"`
	Scale     float64    `cbor:"12,keyasint"`
	Start     int64      `cbor:"13,keyasint"`
	End       int64      `cbor:"14,keyasint"`
	Samples   uint32     `cbor:"15,keyasint"`
	Inputs    [][]byte   `cbor:"16,keyasint,omitempty"`
	Post      *wirePost  `cbor:"17,keyasint,omitempty"`
	Present   []uint32   `cbor:"18,keyasint,omitempty"`
	Subject   string     `cbor:"19,keyasint,omitempty"`
	Fleet     *wireFleet `cbor:"20,keyasint,omitempty"`
	Packed    uint32     `cbor:"21,keyasint,omitempty"`
	Place     uint32     `cbor:"22,keyasint,omitempty"`
}

// wireFleet is Fleet as it travels.
type wireFleet struct {
	Devices uint32 `cbor:"0,keyasint"`
	Windows uint32 `cbor:"1,keyasint"`
	Samples uint64 `cbor:"2,keyasint"`
	Digest  []byte `cbor:"3,keyasint"`
}

// wirePost is Post as it travels.
type wirePost struct {
	A     float64 `cbor:"0,keyasint"`
	B     float64 `cbor:"1,keyasint"`
	Sqrt  bool    `cbor:"2,keyasint"`
	Slot  uint32  `cbor:"3,keyasint"`
	Count uint32  `cbor:"4,keyasint"`
	Bound float64 `cbor:"5,keyasint"`
}
