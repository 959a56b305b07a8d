package transport

import (
	"bytes"
	"crypto/sha256"
	"fmt"
)

// ChunkVersion is the chunk format that Split writes.
const ChunkVersion = 1

// Chunk sizes, in bytes of MQTT payload.
const (
	DefaultChunkSize = 112 << 10 // below every common broker's limit
	MinChunkSize     = 1 << 10
	MaxChunkSize     = 16 << 20
)

const (
	chunkOverhead = 64  // bound on what the frame adds to a chunk's data
	minChunkData  = 256 // least data per chunk of an object of several chunks
	maxChunks     = 1 << 16
)

// Chunk is one piece of an object. Piece Index holds the bytes
// [Index*L, min((Index+1)*L, Size)) of it, L = ceil(Size/Total): the pieces
// are as equal as they can be, so that every piece's place and length follow
// from Size and Total alone.
type Chunk struct {
	Object [32]byte // SHA-256 of the whole object
	Index  int      // 0 <= Index < Total
	Total  int      // 1..65536
	Size   int      // of the whole object, in bytes, at least 1
	Data   []byte
}

// pieceSize returns L, the length of all pieces but the last.
func pieceSize(size, total int) int { return (size + total - 1) / total }

// validate checks the numbers of c against each other and against maxObject.
func (c *Chunk) validate(maxObject int) error {
	switch {
	case c.Size < 1 || c.Total < 1 || c.Total > maxChunks || c.Index < 0 || c.Index >= c.Total:
		return fmt.Errorf("%w: chunk %d of %d, object of %d bytes", ErrMalformed, c.Index, c.Total, c.Size)
	case c.Size > maxObject:
		return fmt.Errorf("%w: object of %d bytes, want at most %d", ErrTooLarge, c.Size, maxObject)
	}
	l := pieceSize(c.Size, c.Total)
	if c.Total > 1 && (l < minChunkData || (c.Total-1)*l >= c.Size) {
		return fmt.Errorf("%w: %d bytes do not split into %d chunks", ErrMalformed, c.Size, c.Total)
	}
	want := min(l, c.Size-c.Index*l)
	switch {
	case len(c.Data) < want:
		return fmt.Errorf("%w: chunk %d of %d has %d bytes, want %d", ErrTruncated, c.Index, c.Total, len(c.Data), want)
	case len(c.Data) > want:
		return fmt.Errorf("%w: chunk %d of %d has %d bytes, want %d", ErrMalformed, c.Index, c.Total, len(c.Data), want)
	}
	return nil
}

// Marshal encodes c.
func (c *Chunk) Marshal() ([]byte, error) {
	if err := c.validate(int(^uint(0) >> 1)); err != nil {
		return nil, fmt.Errorf("encode chunk: %w", err)
	}
	return c.appendTo(make([]byte, 0, chunkOverhead)), nil
}

// Payload returns the MQTT payload that carries c: a short object that is one piece travels as it is, everything
// else as Marshal says. The payload is a copy.
func (c *Chunk) Payload() ([]byte, error) {
	if c.Total == 1 && IsShort(c.Data) {
		return bytes.Clone(c.Data), nil
	}
	return c.Marshal()
}

// appendTo appends the encoding of c, a CBOR array, to b.
func (c *Chunk) appendTo(b []byte) []byte {
	return append(c.appendFront(b), c.Data...) // the only copy of the data, into memory that nothing clears before
}

// appendFront appends what stands before the data.
func (c *Chunk) appendFront(b []byte) []byte {
	b = appendHead(append(b, 0x86), majorUint, ChunkVersion)
	b = append(appendHead(b, majorBytes, len(c.Object)), c.Object[:]...)
	for _, n := range [...]int{c.Index, c.Total, c.Size} {
		b = appendHead(b, majorUint, n)
	}
	return appendHead(b, majorBytes, len(c.Data))
}

// UnmarshalChunk decodes one chunk strictly. Its data shares the memory of b. A chunk of an
// object above maxObject bytes (0: DefaultMaxObject) is refused with ErrTooLarge before any
// of it is kept.
func UnmarshalChunk(b []byte, maxObject int) (*Chunk, error) {
	if maxObject <= 0 {
		maxObject = DefaultMaxObject
	}
	if len(b) > MaxChunkSize {
		return nil, fmt.Errorf("%w: chunk of %d bytes, want at most %d", ErrTooLarge, len(b), MaxChunkSize)
	}
	if len(b) < 2 {
		return nil, fmt.Errorf("%w: chunk of %d bytes", ErrTruncated, len(b))
	}
	// The version is the first element, so that a later format may change the rest.
	if b[0]>>5 != 4 {
		return nil, fmt.Errorf("%w: chunk is not an array", ErrMalformed)
	}
	if v := b[1]; b[0] != 0x80 && v < ChunkVersion {
		return nil, fmt.Errorf("%w: chunk format %d, want %d", ErrDowngraded, v, ChunkVersion)
	} else if b[0] != 0x80 && v > ChunkVersion && v < 0x1c { // 0x18 to 0x1b: a number above 23 follows
		return nil, fmt.Errorf("%w: chunk format %#x, this build reads %d", ErrUnsupportedVersion, v, ChunkVersion)
	}
	c, err := readChunk(b, maxObject)
	if err != nil {
		return nil, err
	}
	if err := c.validate(maxObject); err != nil {
		return nil, err
	}
	return c, nil
}

// readChunk reads the one form that a chunk has; its data shares the memory of b.
func readChunk(b []byte, maxObject int) (*Chunk, error) {
	bad := func(what string, err error) error { return fmt.Errorf("%w: chunk: %s", err, what) }
	if b[0] != 0x86 {
		return nil, bad("not an array of six", ErrMalformed)
	}
	_, rest, err := cutUint(b[1:])
	if err != nil {
		return nil, bad("format", err)
	}
	id, rest, err := cutBytes(rest)
	if err != nil {
		return nil, bad("object hash", err)
	}
	var n [3]uint64
	for i, what := range []string{"index", "total", "object size"} {
		if n[i], rest, err = cutUint(rest); err != nil {
			return nil, bad(what, err)
		}
	}
	index, total, size := n[0], n[1], n[2]
	data, rest, err := cutBytes(rest)
	switch {
	case err != nil:
		return nil, bad("data", err)
	case len(rest) > 0:
		return nil, bad(fmt.Sprintf("%d bytes after it", len(rest)), ErrMalformed)
	case size > uint64(maxObject):
		return nil, fmt.Errorf("%w: object of %d bytes, want at most %d", ErrTooLarge, size, maxObject)
	case len(id) != sha256.Size || index >= maxChunks || total > maxChunks:
		return nil, fmt.Errorf("%w: chunk %d of %d, hash of %d bytes", ErrMalformed, index, total, len(id))
	}
	return &Chunk{Object: [32]byte(id), Index: int(index), Total: int(total), Size: int(size), Data: data}, nil
}

// Split cuts an object into the fewest chunks whose encodings have at most
// chunkSize bytes each (0: DefaultChunkSize), and makes them as equal as they
// can be. The pieces share sealed's memory.
func Split(sealed []byte, chunkSize int) ([]Chunk, error) {
	return SplitNamed(ObjectID(sealed), sealed, chunkSize)
}

// SplitNamed is Split for an object whose ObjectID is known to be id: it hashes nothing.
func SplitNamed(id [32]byte, sealed []byte, chunkSize int) ([]Chunk, error) {
	if chunkSize == 0 {
		chunkSize = DefaultChunkSize
	}
	if chunkSize < MinChunkSize || chunkSize > MaxChunkSize {
		return nil, fmt.Errorf("chunk size %d, want %d to %d bytes", chunkSize, MinChunkSize, MaxChunkSize)
	}
	if len(sealed) == 0 {
		return nil, fmt.Errorf("%w: an empty object has no chunks", ErrMalformed)
	}
	total := Pieces(len(sealed), chunkSize)
	if total > maxChunks {
		return nil, fmt.Errorf("%w: %d bytes in chunks of %d need %d chunks, want at most %d", ErrTooLarge, len(sealed),
			chunkSize, total, maxChunks)
	}
	l := pieceSize(len(sealed), total)
	out := make([]Chunk, total)
	for i := range out {
		out[i] = Chunk{Object: id, Index: i, Total: total, Size: len(sealed),
			Data: sealed[i*l : min((i+1)*l, len(sealed))]}
	}
	return out, nil
}

// Pieces returns how many chunks Split makes of an object of size bytes; chunkSize is one that
// it takes.
func Pieces(size, chunkSize int) int {
	data := chunkSize - chunkOverhead
	return (size + data - 1) / data
}
