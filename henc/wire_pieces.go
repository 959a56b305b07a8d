package henc

import (
	"bytes"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/wire"
)

// UnmarshalPieces is UnmarshalCiphertexts for bodies that lie in pieces, which follow each other and may be cut
// anywhere. A device that loads residues as they travel takes them from the pieces; otherwise the pieces are joined.
// Nobody may change them until it returns. Errors are those of UnmarshalCiphertexts.
func (c *Context) UnmarshalPieces(bodies [][][]byte) ([]*Ciphertext, []error) {
	all := make([]*reading, len(bodies))
	for i, pieces := range bodies {
		all[i] = c.readPieces(pieces)
	}
	return c.unmarshalAll(all)
}

// readPieces is read for bytes in pieces. What a ring cannot load from pieces, and what is not as it should be, is
// joined and read again.
func (c *Context) readPieces(pieces [][]byte) *reading {
	if len(pieces) == 1 {
		return c.read(pieces[0])
	}
	if c.ready() != nil { // read says so
		return c.read(nil)
	}
	if _, ok := c.ring.(cutrantt.Packed); ok && len(pieces) > 0 {
		if r := (&reading{pieces: pieces}); c.cutPieces(r) {
			return r
		}
	}
	return c.read(bytes.Join(pieces, nil))
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
	size, polys := c.params.PackedBytes(h.Level), 2
	if h.Seeded {
		polys = 1
	}
	head := wire.BlobHead(size)
	for range polys {
		var before, packed [][]byte
		if before, left = cutBytes(left, len(head)); !bytes.Equal(bytes.Join(before, nil), head) {
			return false
		}
		packed, left = cutBytes(left, size)
		r.packed = append(r.packed, packed...)
	}
	return bytesOf(r.packed) == polys*size && bytesOf(left) == 0
}

// cutBytes cuts pieces after n bytes, or at their end.
func cutBytes(pieces [][]byte, n int) (before, after [][]byte) {
	for i, p := range pieces {
		if n == 0 {
			return before, pieces[i:]
		}
		if len(p) > n {
			return append(before, p[:n]), slices.Concat([][]byte{p[n:]}, pieces[i+1:])
		}
		before = append(before, p)
		n -= len(p)
	}
	return before, nil
}

// bytesOf returns the bytes of pieces.
func bytesOf(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}
