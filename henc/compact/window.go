package compact

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/keymat"
)

// The bytes of a window: kind, version, set, precision, count (16 bits, low byte first), nonce,
// values. docs/wire-ciphertext.md has them.
const (
	kind    = 0xc3 // no CBOR array begins so
	version = 1

	headBytes = 4 + 2 + NonceBytes
)

// NonceBytes is the length of a window's nonce.
const NonceBytes = 8

// Window is an encrypted window as it is sent. With c1 the uniform polynomial that
// Uniform gives and v_j = Values[j], the coefficient j*Stride of v*q/2^Bits + c1*s is the reading times
// Scale, modulo q, up to an error (Precision.Bound).
type Window struct {
	Params    henc.Parameters // of the board's ring
	Precision Precision
	Nonce     [NonceBytes]byte
	Values    []uint32 // below 2^Precision.Bits, one for each reading
}

// Origin is what a window's uniform half is bound to, besides the window's own fields. A receiver
// knows all of it from the signed header.
type Origin struct {
	Device, Stream string   // at most 255 bytes each
	KeyID          [16]byte // the key pair under whose secret the results are
	KeyEpoch       uint32
	BootEpoch      uint64
	Sequence       uint64
}

// Bytes is the length of a marshalled window of n readings, 0 for an unknown precision.
func Bytes(n int, p Precision) int {
	if p.Bits() == 0 {
		return 0
	}
	return headBytes + (n*p.Bits()+7)/8
}

// Marshal writes the window. It fails with henc.ErrParams for a set that is none of
// this package's, and otherwise as Check does.
func (w *Window) Marshal() ([]byte, error) {
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("write compact window: %w", err)
	}
	set, err := numberOf(w.Params)
	if err != nil {
		return nil, fmt.Errorf("write compact window: %w", err)
	}
	n, bits := len(w.Values), w.Precision.Bits()
	b := make([]byte, 0, Bytes(n, w.Precision)+8)
	b = append(b, kind, version, set, byte(w.Precision))
	b = binary.LittleEndian.AppendUint16(b, uint16(n))
	b = append(b, w.Nonce[:]...)
	acc, have := uint64(0), 0 // the low bits of acc wait to be written
	for _, v := range w.Values {
		acc |= uint64(v) << have
		for have += bits; have >= 8; have -= 8 {
			b = append(b, byte(acc))
			acc >>= 8
		}
	}
	if have > 0 {
		b = append(b, byte(acc))
	}
	return b, nil
}

// Check fails unless the window can be sent: henc.ErrMalformed for the precision, henc.ErrLength for
// the number of values, henc.ErrRange for a value.
func (w *Window) Check() error {
	if w == nil || w.Precision.Bits() == 0 {
		return fmt.Errorf("%w: no window, or one of a precision that is neither 12 nor 16", henc.ErrMalformed)
	}
	if n := len(w.Values); n < 1 || n > w.Params.N() {
		return fmt.Errorf("%w: %d readings, a window of %s has 1..%d", henc.ErrLength, n, w.Params.Name(), w.Params.N())
	}
	for i, v := range w.Values {
		if v>>w.Precision.Bits() != 0 {
			return fmt.Errorf("%w: value %d has more than %d bits", henc.ErrRange, i, w.Precision.Bits())
		}
	}
	return nil
}

// Unmarshal reads what Marshal writes for the set p, and nothing else. It fails with
// henc.ErrTruncated, henc.ErrKind, henc.ErrVersion, henc.ErrParams (another set), henc.ErrLength (the
// number of readings) or henc.ErrMalformed (another precision, bytes after the window, bits that are not zero
// after the last value).
func Unmarshal(p henc.Parameters, b []byte) (*Window, error) {
	w, err := unmarshal(p, b)
	if err != nil {
		return nil, fmt.Errorf("read compact window: %w", err)
	}
	return w, nil
}

func unmarshal(p henc.Parameters, b []byte) (*Window, error) {
	set, err := numberOf(p)
	if err != nil {
		return nil, err
	}
	if len(b) > 0 && b[0] != kind {
		return nil, fmt.Errorf("%w: it begins with %#02x", henc.ErrKind, b[0])
	}
	if len(b) > 1 && b[1] != version {
		return nil, fmt.Errorf("%w: %d", henc.ErrVersion, b[1])
	}
	if len(b) < headBytes {
		return nil, fmt.Errorf("%w: %d bytes", henc.ErrTruncated, len(b))
	}
	if b[2] != set {
		return nil, fmt.Errorf("%w: the window is for %s, not for %s", henc.ErrParams, nameOf(b[2]), p.Name())
	}
	w := &Window{Params: p, Precision: Precision(b[3])}
	bits := w.Precision.Bits()
	if bits == 0 {
		return nil, fmt.Errorf("%w: a precision of %d bits", henc.ErrMalformed, b[3])
	}
	n := int(binary.LittleEndian.Uint16(b[4:]))
	if n < 1 || n > p.N() {
		return nil, fmt.Errorf("%w: %d readings, a window of %s has 1..%d", henc.ErrLength, n, p.Name(), p.N())
	}
	switch want := Bytes(n, w.Precision); {
	case len(b) < want:
		return nil, fmt.Errorf("%w: %d bytes, %d readings take %d", henc.ErrTruncated, len(b), n, want)
	case len(b) > want:
		return nil, fmt.Errorf("%w: %d bytes after the window", henc.ErrMalformed, len(b)-want)
	}
	w.Nonce = [NonceBytes]byte(b[6:])
	w.Values = make([]uint32, n)
	b = b[headBytes:]
	acc, have := uint64(0), 0 // the low bits of acc are read but not used
	for i := range w.Values {
		for ; have < bits; have += 8 {
			acc |= uint64(b[0]) << have
			b = b[1:]
		}
		w.Values[i] = uint32(acc & (1<<bits - 1))
		acc >>= bits
		have -= bits
	}
	if acc != 0 {
		return nil, fmt.Errorf("%w: a bit after the last value is not zero", henc.ErrMalformed)
	}
	return w, nil
}

// Uniform returns the coefficients of c1, uniform modulo q. They are public and follow from
// the origin and from all fields of the window but the values. It fails with henc.ErrLength for a name that is
// too long.
func (w *Window) Uniform(o Origin) ([]uint32, error) {
	c1 := make([]uint32, w.Params.N())
	if err := w.FillUniform(c1, o); err != nil {
		return nil, err
	}
	return c1, nil
}

// FillUniform is Uniform into N coefficients that the caller has. It fails with henc.ErrLength for another number of
// them.
func (w *Window) FillUniform(c1 []uint32, o Origin) error {
	if len(c1) == 0 || len(c1) != w.Params.N() {
		return fmt.Errorf("compact window: %w: room for %d coefficients of %d", henc.ErrLength, len(c1), w.Params.N())
	}
	if len(o.Device) > 255 || len(o.Stream) > 255 {
		return fmt.Errorf("compact window: %w: a name of more than 255 bytes", henc.ErrLength)
	}
	hash := w.Params.Hash()
	b := append([]byte("hencedge compact window v1\x00"), hash[:]...)
	b = append(b, byte(w.Precision))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(w.Values)))
	b = append(append(b, w.Nonce[:]...), o.Encode()...)
	seed := sha256.Sum256(b)
	prng.Uniform(c1, &seed, keymat.LabelCompactA, 0, modulus)
	return nil
}

// Encode writes the origin as one string of bytes, which no other origin with names of at most 255
// bytes has.
func (o Origin) Encode() []byte {
	b := append([]byte{byte(len(o.Device))}, o.Device...)
	b = append(append(b, byte(len(o.Stream))), o.Stream...)
	b = append(b, o.KeyID[:]...)
	b = binary.LittleEndian.AppendUint32(b, o.KeyEpoch)
	b = binary.LittleEndian.AppendUint64(b, o.BootEpoch)
	return binary.LittleEndian.AppendUint64(b, o.Sequence)
}
