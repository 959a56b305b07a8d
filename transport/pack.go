package transport

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fxamacker/cbor/v2"
)

// Packed results: many single values in the slots of one ciphertext, in one sealed object.
//
// Its header is that of a result of the program PackProgram, and Meta.Packed counts the
// values. Its body is the CBOR array [list, ciphertext] of two byte strings. The list has
// for each value what the header of a result of its own would say and the pack's header
// does not. So each value has a header of its own, covered by the one signature.

// PackProgram is the program of the header of a pack, and names its topic and its series.
const PackProgram = "packed"

// MaxPacked is the largest number of results in a pack.
const MaxPacked = 256

// maxPackList bounds the list of a pack, in bytes.
const maxPackList = 4 << 20

// packDec reads the list of a pack.
var packDec = must(strictDecOptions(cbor.ExtraDecErrorUnknownField).DecMode())

// MarshalPack returns the body of a pack of results, which have one value each, in slots of
// their own, and the same Device, key, boot epoch, parameters, level and scale. It also
// returns the header of the pack, in which only the sequence number is missing.
func MarshalPack(results []Meta, ciphertext []byte) (Meta, []byte, error) {
	header, err := packHeader(results)
	if err != nil {
		return Meta{}, nil, err
	}
	w := wirePack{Forms: []wireForm{}, Entries: make([]wireEntry, len(results))}
	forms := map[packForm]int{}
	for i := range results {
		m := &results[i]
		f := packForm{m.Program, m.Layout, m.Post.A, m.Post.B, m.Post.Sqrt, m.Post.Bound}
		at, known := forms[f]
		if !known {
			at = len(w.Forms)
			forms[f] = at
			w.Forms = append(w.Forms, wireForm{Program: f.program, Layout: m.Layout[:], A: f.a, B: f.b, Sqrt: f.sqrt,
				Bound: f.bound})
		}
		e := wireEntry{Form: uint32(at), Slot: uint32(m.Post.Slot), Subject: m.Subject, Sequence: m.Sequence,
			After: uint64(m.Start) - uint64(header.Start), Lasts: uint64(m.End) - uint64(m.Start), Samples: m.Samples,
			Inputs: make([]byte, 0, 32*len(m.Inputs)), Present: m.Present}
		for _, id := range m.Inputs {
			e.Inputs = append(e.Inputs, id[:]...)
		}
		if e.Present == nil {
			e.Present = []uint32{}
		}
		w.Entries[i] = e
	}
	list, err := wireEnc.Marshal(&w)
	if err != nil {
		return Meta{}, nil, fmt.Errorf("encode pack: %w", err)
	}
	if len(list) > maxPackList {
		return Meta{}, nil, packTooLarge(list)
	}
	body := make([]byte, 0, len(list)+len(ciphertext)+16)
	body = append(appendHead(append(body, 0x82), majorBytes, len(list)), list...)
	return header, append(appendHead(body, majorBytes, len(ciphertext)), ciphertext...), nil
}

// packHeader returns the header of a pack, or fails with ErrMalformed where its results do
// not go together.
func packHeader(results []Meta) (Meta, error) {
	if len(results) < 1 || len(results) > MaxPacked {
		return Meta{}, fmt.Errorf("%w: pack of %d results, want 1 to %d", ErrMalformed, len(results), MaxPacked)
	}
	first := &results[0]
	h := Meta{Kind: KindResult, Device: first.Device, Program: PackProgram, KeyID: first.KeyID,
		KeyEpoch: first.KeyEpoch, BootEpoch: first.BootEpoch, Params: first.Params, Level: first.Level,
		Scale: first.Scale, Start: first.Start, End: first.End, Packed: uint32(len(results))}
	type number struct {
		program  string
		sequence uint64
	}
	slots, numbers := map[int]bool{}, map[number]bool{}
	for i := range results {
		m := &results[i]
		if err := m.Validate(); err != nil {
			return Meta{}, fmt.Errorf("pack: result %d: %w", i, err)
		}
		n := number{m.Program, m.Sequence}
		switch {
		case m.Kind != KindResult || m.Packed != 0 || m.Stream != "" || m.Fleet != nil || m.Post == nil ||
			m.Post.Count != 1 ||
			len(m.Inputs) == 0:
			return Meta{}, fmt.Errorf("%w: pack: number %d is no result of one value", ErrMalformed, i)
		case m.Device != h.Device || m.KeyID != h.KeyID || m.KeyEpoch != h.KeyEpoch || m.BootEpoch != h.BootEpoch ||
			m.Params != h.Params || m.Level != h.Level || m.Scale != h.Scale:
			return Meta{}, fmt.Errorf("%w: pack: result %d is of another evaluator, key or ciphertext", ErrMalformed, i)
		case slots[m.Post.Slot]:
			return Meta{}, fmt.Errorf("%w: pack: slot %d holds two results", ErrMalformed, m.Post.Slot)
		case numbers[n]:
			return Meta{}, fmt.Errorf("%w: pack: two results of program %q have the number %d", ErrMalformed, n.program,
				n.sequence)
		}
		slots[m.Post.Slot], numbers[n] = true, true
		h.Start, h.End = min(h.Start, m.Start), max(h.End, m.End)
	}
	return h, nil
}

// Results returns the results that an object with header m and this body carries, each with
// the header that it would have alone, and the ciphertext. Of a result that is not packed
// that is m, and body. It fails with ErrTruncated, ErrTooLarge or ErrMalformed: for a list
// that is not in its one form, a slot or a number that occurs twice, or results that
// do not agree with m.
func (m *Meta) Results(body []byte) (results []Meta, ciphertext []byte, err error) {
	if m.Packed == 0 {
		return []Meta{*m}, body, nil
	}
	list, ciphertext, err := cutPack(body)
	if err != nil {
		return nil, nil, err
	}
	var w wirePack
	if err := packDec.Unmarshal(list, &w); err != nil {
		return nil, nil, decodeError("pack", err)
	}
	if len(w.Entries) != int(m.Packed) {
		return nil, nil, fmt.Errorf("%w: pack of %d results, its header says %d", ErrMalformed, len(w.Entries),
			m.Packed)
	}
	for i := range w.Entries {
		r, err := w.result(m, i)
		if err != nil {
			return nil, nil, err
		}
		results = append(results, r)
	}
	again, packed, err := MarshalPack(results, nil)
	if err != nil {
		return nil, nil, err
	}
	again.Sequence = m.Sequence
	if !m.equal(&again) {
		return nil, nil, fmt.Errorf("%w: pack: its header is not that of its results", ErrMalformed)
	}
	if canonical, _, err := cutPack(packed); err != nil || !bytes.Equal(canonical, list) {
		return nil, nil, fmt.Errorf("%w: pack is not in canonical form", ErrMalformed)
	}
	return results, ciphertext, nil
}

// cutPack cuts the body of a pack.
func cutPack(body []byte) (list, ciphertext []byte, err error) {
	switch {
	case len(body) == 0:
		return nil, nil, fmt.Errorf("%w: pack of 0 bytes", ErrTruncated)
	case body[0] != 0x82:
		return nil, nil, fmt.Errorf("%w: a pack is an array of list and ciphertext", ErrMalformed)
	}
	list, rest, err := cutBytes(body[1:])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: pack: list", err)
	}
	if len(list) > maxPackList {
		return nil, nil, packTooLarge(list)
	}
	ciphertext, rest, err = cutBytes(rest)
	if err == nil && len(rest) > 0 {
		err = ErrMalformed
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: pack: ciphertext", err)
	}
	return list, ciphertext, nil
}

func packTooLarge(list []byte) error {
	return fmt.Errorf("%w: pack: list of %d bytes, want at most %d", ErrTooLarge, len(list), maxPackList)
}

// equal reports whether two headers of packs are equal.
func (m *Meta) equal(o *Meta) bool {
	a, errA := marshalMeta(m, Version)
	b, errB := marshalMeta(o, Version)
	return errors.Join(errA, errB) == nil && bytes.Equal(a, b)
}

// PeekResults is PeekMeta that returns the headers of all results of an object, as
// Meta.Results does.
func PeekResults(sealed []byte) ([]Meta, error) {
	m, body, err := Peek(sealed)
	if err != nil {
		return nil, err
	}
	results, _, err := m.Results(body)
	return results, err
}

// packForm is what results of one program, for windows that are equally full, have in
// common.
type packForm struct {
	program string
	layout  [32]byte
	a, b    float64
	sqrt    bool
	bound   float64
}

// wirePack is the list of a pack as it travels.
type wirePack struct {
	_       struct{} `cbor:",toarray"`
	Forms   []wireForm
	Entries []wireEntry
}

// wireForm is a packForm as it travels.
type wireForm struct {
	_       struct{} `cbor:",toarray"`
	Program string
	Layout  []byte
	A, B    float64
	Sqrt    bool
	Bound   float64
}

// wireEntry is one result of a pack as it travels.
type wireEntry struct {
	_        struct{} `cbor:",toarray"`
	Form     uint32   // index
	Slot     uint32
	Subject  string
	Sequence uint64
	After    uint64 // nanoseconds from the start of the pack to that of the window
	Lasts    uint64 // nanoseconds
	Samples  uint32
	Inputs   []byte   // 32 for each
	Present  []uint32 // empty: all windows are full
}

// result returns the header of entry i of a pack with header m.
func (w *wirePack) result(m *Meta, i int) (Meta, error) {
	e := &w.Entries[i]
	switch {
	case int64(e.Form) >= int64(len(w.Forms)):
		return Meta{}, fmt.Errorf("%w: pack: result %d has form %d of %d", ErrMalformed, i, e.Form, len(w.Forms))
	case e.Slot >= MaxSlots:
		return Meta{}, fmt.Errorf("%w: pack: result %d is in slot %d", ErrMalformed, i, e.Slot)
	case len(e.Inputs)%32 != 0:
		return Meta{}, fmt.Errorf("%w: pack: result %d has %d bytes of input ids", ErrMalformed, i, len(e.Inputs))
	case e.After > until(m.Start) || e.Lasts > until(m.Start)-e.After:
		return Meta{}, fmt.Errorf("%w: pack: the window of result %d ends after all time", ErrMalformed, i)
	}
	f := &w.Forms[e.Form]
	if len(f.Layout) != 32 {
		return Meta{}, fmt.Errorf("%w: pack: program hash of %d bytes, want 32", ErrMalformed, len(f.Layout))
	}
	r := Meta{Kind: KindResult, Device: m.Device, Program: f.Program, Subject: e.Subject, KeyID: m.KeyID,
		KeyEpoch: m.KeyEpoch, BootEpoch: m.BootEpoch, Sequence: e.Sequence, Params: m.Params,
		Layout: [32]byte(f.Layout), Level: m.Level, Scale: m.Scale, Start: int64(uint64(m.Start) + e.After),
		Samples: e.Samples,
		Post:    &Post{A: f.A, B: f.B, Sqrt: f.Sqrt, Slot: int(e.Slot), Count: 1, Bound: f.Bound},
		Present: slices.Clone(e.Present)}
	r.End = int64(uint64(r.Start) + e.Lasts)
	if len(r.Present) == 0 {
		r.Present = nil
	}
	for ids := e.Inputs; len(ids) > 0; ids = ids[32:] {
		r.Inputs = append(r.Inputs, [32]byte(ids[:32]))
	}
	return r, nil
}

// until returns the nanoseconds from a time to the last one that a header can name.
func until(start int64) uint64 { return uint64(math.MaxInt64) - uint64(start) }
