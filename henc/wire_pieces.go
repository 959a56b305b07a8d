package henc

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/wire"
	"github.com/hencedge/hencedge/internal/pieces"
)

// Staged is a ciphertext as it was sent, on its way to a context.
type Staged struct {
	of      *Context
	reading reading
	done    func() // gives back the memory for the device; nil: there is none
}

// Stage prepares a ciphertext for UnmarshalStaged. It lies in pieces, which follow each other and may be cut anywhere;
// nobody may change them until Done, which has to be called. A device that loads residues as they travel takes them
// from memory to which Stage copies them, where there is room, else from the pieces: so many may stage at once what
// then is loaded together.
func (c *Context) Stage(body [][]byte) *Staged {
	s := &Staged{of: c, reading: *c.readPieces(body)}
	if s.reading.err != nil {
		return s
	}
	if ring, ok := c.ring.(cutrantt.Packed); ok {
		if staged, done := ring.Stage(s.reading.packed); done != nil {
			s.reading.pieces, s.reading.packed, s.done = body, [][]byte{staged}, done
		}
	}
	return s
}

// Done says that no call uses s any more. It may be called twice, but not from two goroutines at a time.
func (s *Staged) Done() {
	if s == nil {
		return
	}
	s.of = nil
	if s.done != nil {
		s.done()
		s.done = nil
	}
}

// UnmarshalStaged is UnmarshalCiphertexts for what the context's Stage made; for others, and after Done, the error is
// ErrParams. It may be called again for the same ones.
func (c *Context) UnmarshalStaged(staged []*Staged) ([]*Ciphertext, []error) {
	all := make([]*reading, len(staged))
	for i, s := range staged {
		if c == nil || s == nil || s.of != c {
			all[i] = &reading{err: fmt.Errorf("%w: it is not staged in this context", ErrParams)}
			continue
		}
		r := s.reading
		all[i] = &r
	}
	return c.unmarshalAll(all)
}

// readPieces is read for bytes in pieces. What a ring cannot load from pieces, and what is not as it should be, is
// joined and read again.
func (c *Context) readPieces(body [][]byte) *reading {
	if len(body) == 1 {
		return c.read(body[0])
	}
	if c.ready() != nil { // read says so
		return c.read(nil)
	}
	if _, ok := c.ring.(cutrantt.Packed); ok && len(body) > 0 {
		if r := (&reading{pieces: body}); c.cutPieces(r) {
			return r
		}
	}
	return c.read(pieces.Join(body))
}

// cutPieces is readParts for pieces of which the first has the header. It reports false for all that readParts would
// refuse.
func (c *Context) cutPieces(r *reading) bool {
	h, seed, rest, err := readHeader(r.pieces[0])
	if err != nil || h.Params != c.params.Hash() || c.params.CheckScale(h.Level, h.Scale) != nil {
		return false
	}
	r.h, r.seed = h, seed
	left := slices.Concat([][]byte{rest.Rest()}, r.pieces[1:])
	size, polys, at := c.params.PackedBytes(h.Level), 2, 0
	if h.Seeded {
		polys = 1
	}
	head := wire.BlobHead(size)
	for range polys {
		if !bytes.Equal(pieces.Join(pieces.Section(left, at, at+len(head))), head) {
			return false
		}
		at += len(head)
		r.packed = append(r.packed, pieces.Section(left, at, at+size)...)
		at += size
	}
	return at == pieces.Len(left)
}
