package transport

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/testrig"
)

func chunksOf(t testing.TB, object []byte, size int) [][]byte {
	t.Helper()
	pieces, err := Split(object, size)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]byte, len(pieces))
	for i := range pieces {
		if out[i], err = pieces[i].Marshal(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestSplitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunkSize := rapid.IntRange(MinChunkSize, 8<<10).Draw(t, "chunk size")
		object := testrig.Pattern(rapid.IntRange(1, 100<<10).Draw(t, "object size"))
		pieces, err := Split(object, chunkSize)
		if err != nil {
			t.Fatal(err)
		}
		var again []byte
		for i := range pieces {
			b, err := pieces[i].Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if want, err := wireEnc.Marshal(wireOf(&pieces[i])); err != nil || !bytes.Equal(b, want) {
				t.Fatalf("chunk %d is not what the CBOR library writes (%v)", i, err)
			}
			if len(b) > chunkSize {
				t.Fatalf("chunk of %d bytes, asked for %d", len(b), chunkSize)
			}
			c, err := UnmarshalChunk(b, len(object))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*c, pieces[i]) {
				t.Fatalf("chunk %d changed on the way", i)
			}
			again = append(again, c.Data...)
		}
		if !bytes.Equal(again, object) || pieces[0].Object != ObjectID(object) {
			t.Fatal("the pieces do not make up the object")
		}
		if one := len(object) <= chunkSize-chunkOverhead; one != (len(pieces) == 1) {
			t.Fatalf("%d bytes in %d chunks of %d", len(object), len(pieces), chunkSize)
		}
	})
}

// wireChunk is a chunk as it travels: a CBOR array.
type wireChunk struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	Object  []byte
	Index   uint32
	Total   uint32
	Size    uint64
	Data    []byte
}

func wireOf(c *Chunk) wireChunk {
	return wireChunk{Version: ChunkVersion, Object: c.Object[:], Index: uint32(c.Index), Total: uint32(c.Total),
		Size: uint64(c.Size), Data: c.Data}
}

func TestSplitRefuses(t *testing.T) {
	for _, tc := range []struct {
		n, size int
	}{{0, 0}, {10, MinChunkSize - 1}, {10, MaxChunkSize + 1}, {10, -1}, {maxChunks * MinChunkSize, MinChunkSize}} {
		if _, err := Split(make([]byte, tc.n), tc.size); err == nil {
			t.Errorf("%d bytes in chunks of %d were split", tc.n, tc.size)
		}
	}
	if pieces, err := Split(make([]byte, 3<<20), 0); err != nil || len(pieces) != 28 {
		t.Errorf("default size: %d chunks, %v", len(pieces), err)
	}
}

func TestUnmarshalChunkRefuses(t *testing.T) {
	object := testrig.Pattern(5000)
	good := chunksOf(t, object, 2048)[1]
	wire := func(f func(*wireChunk)) []byte {
		w := wireOf(&Chunk{Object: ObjectID(object), Total: 1, Size: 100, Data: object[:100]})
		f(&w)
		b, err := wireEnc.Marshal(&w)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	long := func() []byte { // a length in five bytes where three are enough
		i := bytes.LastIndexByte(good[:60], 0x59)
		return append(append(bytes.Clone(good[:i]), 0x5a, 0, 0), good[i+1:]...)
	}
	for _, tc := range []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, ErrTruncated},
		{"one byte", good[:1], ErrTruncated},
		{"cut", good[:len(good)-1], ErrTruncated},
		{"trailing byte", append(bytes.Clone(good), 0), ErrMalformed},
		{"not an array", []byte{0xa1, 1, 1}, ErrMalformed},
		{"empty array", []byte{0x80, 0x01}, ErrMalformed},
		{"text", []byte("hello, broker"), ErrMalformed},
		{"long form length", long(), ErrMalformed},
		{"version 0", wire(func(w *wireChunk) { w.Version = 0 }), ErrDowngraded},
		{"version 2", wire(func(w *wireChunk) { w.Version = 2 }), ErrUnsupportedVersion},
		{"version 300", wire(func(w *wireChunk) { w.Version = 300 }), ErrUnsupportedVersion},
		{"short hash", wire(func(w *wireChunk) { w.Object = w.Object[:31] }), ErrMalformed},
		{"no chunks", wire(func(w *wireChunk) { w.Total = 0 }), ErrMalformed},
		{"index out of range", wire(func(w *wireChunk) { w.Index = 1 }), ErrMalformed},
		{"no size", wire(func(w *wireChunk) { w.Size, w.Data = 0, []byte{} }), ErrMalformed},
		{"object too large", wire(func(w *wireChunk) { w.Size = 100_001 }), ErrTooLarge},
		{"object far too large", wire(func(w *wireChunk) { w.Size = 1 << 63 }), ErrTooLarge},
		{"too many chunks", wire(func(w *wireChunk) { w.Total = maxChunks + 1 }), ErrMalformed},
		{"chunks too small", wire(func(w *wireChunk) { w.Size, w.Total, w.Data = 1000, 10, object[:100] }),
			ErrMalformed},
		{"does not split", wire(func(w *wireChunk) { w.Size, w.Total, w.Data = 76501, 300, object[:256] }),
			ErrMalformed},
		{"short data", wire(func(w *wireChunk) { w.Data = w.Data[:99] }), ErrTruncated},
		{"long data", wire(func(w *wireChunk) { w.Data = object[:101] }), ErrMalformed},
		{"null data", wire(func(w *wireChunk) { w.Data = nil }), ErrMalformed},
	} {
		c, err := UnmarshalChunk(tc.b, 100_000)
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || (err != nil && c != nil) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if _, err := UnmarshalChunk(make([]byte, MaxChunkSize+1), 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("huge chunk: %v", err)
	}
	if _, err := UnmarshalChunk(good, 0); err != nil {
		t.Error(err)
	}
}
