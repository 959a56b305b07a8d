package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fxamacker/cbor/v2"

	"github.com/hencedge/hencedge/cutrantt"
)

var (
	encMode = must(encOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		UTF8:              cbor.UTF8RejectInvalid,
		NaN:               cbor.NaNDecodeForbidden,
		Inf:               cbor.InfDecodeForbidden,
		MaxNestedLevels:   4,
		MaxArrayElements:  16,
		MaxMapPairs:       16,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	}.DecMode())
)

func encOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.NaNConvert = cbor.NaNConvertReject
	o.InfConvert = cbor.InfConvertReject
	o.TagsMd = cbor.TagsForbidden
	return o
}

// must is for the option tables above, which are constant.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// maxHead is the number of elements that fit in an array head of one byte.
const maxHead = 23

// Writer builds one object. The first error sticks and is returned by Bytes.
type Writer struct {
	b   []byte
	err error
}

// NewWriter starts an object of kind with elements elements in all, the three of
// the preamble included; size is a hint of the whole length in bytes.
func NewWriter(kind Kind, params [32]byte, elements, size int) *Writer {
	return NewWriterOn(make([]byte, 0, max(size, 0)+96), kind, params, elements)
}

// NewWriterOn is NewWriter for an object that is appended to b.
func NewWriterOn(b []byte, kind Kind, params [32]byte, elements int) *Writer {
	w := &Writer{b: b}
	w.Array(elements)
	w.Uint(Version)
	w.Uint(uint64(kind))
	w.Blob(params[:])
	return w
}

// Continued is a writer of an object that is appended to b and begins with head, as another did.
func Continued(b, head []byte) *Writer { return &Writer{b: append(b, head...)} }

func (w *Writer) put(v any) {
	if w.err != nil {
		return
	}
	b, err := encMode.Marshal(v)
	if err != nil {
		w.err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return
	}
	w.b = append(w.b, b...)
}

// Array opens an array of n <= 23 elements, which the caller then writes.
func (w *Writer) Array(n int) {
	if n < 0 || n > maxHead {
		w.fail(fmt.Errorf("%w: array of %d elements", ErrMalformed, n))
		return
	}
	w.b = append(w.b, 0x80|byte(n))
}

// Uint writes an unsigned integer.
func (w *Writer) Uint(v uint64) { w.put(v) }

// Float writes a finite number in the shortest form that keeps its value.
func (w *Writer) Float(v float64) { w.put(v) }

// Blob writes a byte string; nil writes null.
func (w *Writer) Blob(v []byte) { w.put(v) }

// pack appends whole limbs.
func (w *Writer) pack(x []uint32, n int, q []uint32) {
	from, at := len(w.b), make([]int, len(q)+1)
	for i, m := range q {
		at[i+1] = at[i] + cutrantt.PackedBytes(n, m)
	}
	w.b = slices.Grow(w.b, at[len(q)])[:from+at[len(q)]]
	share(len(q), len(x), func(i int) {
		PackInto(w.b[from+at[i]:from+at[i+1]], x[i*n:(i+1)*n], q[i])
	})
}

// share calls f for every limb, on several processors where there are enough
// residues for them to do.
func share(limbs, residues int, f func(i int)) {
	workers := min(limbs, residues>>14, runtime.GOMAXPROCS(0))
	if workers < 2 {
		for i := range limbs {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(limbs); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	all.Wait()
}

// ResiduesBy writes a byte string of packed residues, len(q) limbs of n each. Limb i
// is modulo q[i]. next returns limb i, and perhaps some that follow it; they are used
// before the next call.
func (w *Writer) ResiduesBy(n int, q []uint32, next func(i int) ([]uint32, error)) {
	if w.err != nil {
		return
	}
	w.b = appendBlobHead(w.b, uint64(ResiduesLen(n, q)))
	for i := 0; i < len(q); {
		x, err := next(i)
		if err != nil {
			w.fail(err)
			return
		}
		k := len(x) / max(n, 1)
		if k < 1 || i+k > len(q) || len(x) != k*n || n%16 != 0 {
			w.fail(fmt.Errorf("%w: %d residues in limbs of %d", ErrLength, len(x), n))
			return
		}
		w.pack(x, n, q[i:i+k])
		i += k
	}
}

// Room writes a byte string of size bytes, size > 0, that the caller fills, and returns where they
// begin in what Bytes returns.
func (w *Writer) Room(size int) (at int) {
	w.b = appendBlobHead(w.b, uint64(size))
	at = len(w.b)
	w.b = slices.Grow(w.b, size)[:at+size]
	return at
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// FlushTo writes the bytes so far to dst and empties the buffer.
func (w *Writer) FlushTo(dst io.Writer) error {
	if w.err == nil {
		_, w.err = dst.Write(w.b)
		w.b = w.b[:0]
	}
	return w.err
}

// Bytes returns the object, after what it was appended to, or what follows the last
// FlushTo.
func (w *Writer) Bytes() ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	return w.b, nil
}

// ResiduesLen is the length of the content of the byte string that ResiduesBy writes.
func ResiduesLen(n int, q []uint32) int {
	size := 0
	for _, m := range q {
		size += cutrantt.PackedBytes(n, m)
	}
	return size
}

// appendBlobHead appends the shortest head of a byte string of n bytes.
func appendBlobHead(b []byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, 0x40|byte(n))
	case n < 1<<8:
		return append(b, 0x58, byte(n))
	case n < 1<<16:
		return append(b, 0x59, byte(n>>8), byte(n))
	case n < 1<<32:
		return append(b, 0x5a, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(
		b, 0x5b, byte(n>>56), byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n),
	)
}

// Reader takes one object apart. The first error sticks; reads after it return
// zero values, so a decoder may check Err once after several reads.
type Reader struct {
	b    []byte
	src  io.Reader // what follows b; nil: nothing
	err  error
	Head Head
}

// Head is the preamble of an object.
type Head struct {
	Elements int // of the whole array
	Version  uint64
	Kind     Kind
	Params   [32]byte // hash of the parameters
}

// NewReader reads the preamble. It fails with ErrVersion for another format version,
// ErrKind for another kind of object, ErrMalformed unless the array has elements
// elements in canonical form, or ErrTruncated.
func NewReader(b []byte, kind Kind, elements int) (*Reader, error) {
	return (&Reader{b: b}).begin(kind, elements)
}

// NewReaderFrom is NewReader for an object that is read from src, piece by piece: the largest
// item is the most that is in memory at a time, and twice that while it is read.
func NewReaderFrom(src io.Reader, kind Kind, elements int) (*Reader, error) {
	return (&Reader{src: src}).begin(kind, elements)
}

func (r *Reader) begin(kind Kind, elements int) (*Reader, error) {
	n := r.Array()
	v := r.Uint()
	if r.err == nil && v != Version {
		return nil, fmt.Errorf(
			"%w: version %d, this program speaks version %d only; make the object anew", ErrVersion, v, Version,
		)
	}
	k := Kind(r.Uint())
	if r.err == nil && k != kind {
		return nil, fmt.Errorf("%w: %s where a %s belongs", ErrKind, k, kind)
	}
	if r.err == nil && n != elements {
		return nil, fmt.Errorf("%w: a %s has %d elements, not %d", ErrMalformed, kind, elements, n)
	}
	h := r.Blob(32)
	if r.err != nil {
		return nil, r.err
	}
	r.Head = Head{Elements: n, Version: v, Kind: k}
	copy(r.Head.Params[:], h)
	return r, nil
}

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Rest returns the bytes that were not read yet, of an object that NewReader was given.
func (r *Reader) Rest() []byte { return r.b }

// BlobHead returns what stands before a byte string of n bytes.
func BlobHead(n int) []byte { return appendBlobHead(nil, uint64(n)) }

// Close fails if an error occurred or bytes are left.
func (r *Reader) Close() error {
	r.fill(1)
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%w: %d bytes after the object", ErrMalformed, len(r.b))
	}
	return r.err
}

// fill reads until n bytes are there, or all that are left.
func (r *Reader) fill(n int) {
	if r.src == nil || len(r.b) >= n || r.err != nil {
		return
	}
	b := make([]byte, max(n, 4096)) // a new one: what Blob returned lies in the old one
	have := copy(b, r.b)
	more, err := io.ReadAtLeast(r.src, b[have:], n-have)
	r.b = b[:have+more]
	switch {
	case err == nil:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		r.src = nil
	default:
		r.fail(err)
	}
}

// maxItem is the largest encoding of a number.
const maxItem = 9

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Array reads the head of an array of at most 23 elements and returns their number.
func (r *Reader) Array() int {
	r.fill(1)
	switch {
	case r.err != nil:
		return 0
	case len(r.b) == 0:
		r.fail(fmt.Errorf("%w: an array is missing", ErrTruncated))
		return 0
	case r.b[0] < 0x80 || r.b[0] > 0x80|maxHead:
		r.fail(
			fmt.Errorf("%w: byte 0x%02x where an array of at most %d elements begins", ErrMalformed, r.b[0], maxHead),
		)
		return 0
	}
	n := int(r.b[0] & 0x1f)
	r.b = r.b[1:]
	return n
}

// next decodes the first item into v, a pointer, and returns the item's bytes.
func (r *Reader) next(v any) []byte {
	r.fill(maxItem)
	if r.err != nil {
		return nil
	}
	rest, err := decMode.UnmarshalFirst(r.b, v)
	if err != nil {
		cut := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if cut && r.src == nil { // with more to come it is too long for a number
			r.fail(fmt.Errorf("%w: %w", ErrTruncated, err))
		} else {
			r.fail(fmt.Errorf("%w: %w", ErrMalformed, err))
		}
		return nil
	}
	item := r.b[:len(r.b)-len(rest)]
	r.b = rest
	return item
}

// canonical fails unless item is what encoding v gives.
func (r *Reader) canonical(item []byte, v any) {
	if r.err != nil {
		return
	}
	want, err := encMode.Marshal(v)
	if err != nil || !bytes.Equal(item, want) {
		r.fail(fmt.Errorf("%w: % x is not the canonical encoding of %v", ErrMalformed, item[:min(len(item), 12)], v))
	}
}

// Uint reads an unsigned integer.
func (r *Reader) Uint() uint64 {
	var v uint64
	r.canonical(r.next(&v), v)
	if r.err != nil {
		return 0
	}
	return v
}

// Float reads a finite number.
func (r *Reader) Float() float64 {
	var v float64
	r.canonical(r.next(&v), v)
	if r.err != nil {
		return 0
	}
	return v
}

// Blob reads a byte string of exactly size bytes (ErrLength otherwise), without
// copying it: the result shares memory with the input.
func (r *Reader) Blob(size int) []byte {
	v := r.OptionalBlob(size)
	if r.err == nil && v == nil {
		r.fail(fmt.Errorf("%w: null where a byte string of %d bytes belongs", ErrMalformed, size))
	}
	return v
}

// OptionalBlob is Blob where null may stand instead, for which it returns nil.
func (r *Reader) OptionalBlob(size int) []byte {
	const null = 0xf6
	r.fill(1)
	switch {
	case r.err != nil:
		return nil
	case len(r.b) == 0:
		r.fail(fmt.Errorf("%w: a byte string of %d bytes is missing", ErrTruncated, size))
		return nil
	case r.b[0] == null:
		r.b = r.b[1:]
		return nil
	case r.b[0]>>5 != 2:
		r.fail(fmt.Errorf("%w: byte 0x%02x where a byte string begins", ErrMalformed, r.b[0]))
		return nil
	}
	// Only the one head that says size in the shortest way is right.
	want := appendBlobHead(nil, uint64(size))
	r.fill(len(want))
	have := r.b[:min(len(want), len(r.b))]
	if !bytes.Equal(have, want[:len(have)]) {
		r.fail(fmt.Errorf("%w: a byte string of %d bytes belongs where % x begins", ErrLength, size, have))
		return nil
	}
	if len(have) == len(want) {
		r.fill(len(want) + size)
	}
	rest := r.b[len(have):]
	if len(rest) < size {
		r.fail(fmt.Errorf("%w: %d of %d bytes of a byte string", ErrTruncated, len(rest), size))
		return nil
	}
	r.b = rest[size:]
	return rest[:size:size]
}
