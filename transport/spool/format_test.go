package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
)

// encode returns a whole file.
func encode(h *Header, object []byte) []byte { return slices.Concat(pieces(h, object)...) }

func sample() (*Header, []byte) {
	object := []byte("a sealed object")
	return &Header{Number: 0x0102, Created: 1767225600e9, ID: sha256.Sum256(object), Size: int64(len(object)),
		Stream: "env", Topic: "t/env", Cursor: []byte{7}}, object
}

// The bytes of a file, written out: a change of the format must be meant.
func TestFormatVector(t *testing.T) {
	h, object := sample()
	const want = "6873706c00010053000000000000010218867251edfa0000c4c64704338477010d9b3871e97129ca2c2c2664aa4ad777" +
		// made by a Python script of its own
		"269c640fc87dd088000000000000000f000300050001656e76742f656e76077b0e8f9661207365616c6564206f626a6563742cda4cff"
	got := encode(h, object)
	if int64(len(got)) != h.fileSize() {
		t.Errorf("%d bytes, want %d", len(got), h.fileSize())
	}
	if text := hex.EncodeToString(got); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestDecode(t *testing.T) {
	h, object := sample()
	file := encode(h, object)
	got, body, extra, err := Decode(file)
	if err != nil || extra != 0 || !bytes.Equal(body, object) || got.Number != h.Number || got.Stream != h.Stream ||
		got.Topic != h.Topic ||
		!bytes.Equal(got.Cursor, h.Cursor) || got.ID != h.ID || got.Created != h.Created {
		t.Fatalf("%+v, %q, %d, %v", got, body, extra, err)
	}
	if _, _, extra, err := Decode(append(bytes.Clone(file), "tail"...)); extra != 4 || err != nil {
		t.Errorf("a tail: %d, %v", extra, err)
	}
	for n := range file {
		if _, _, _, err := Decode(file[:n]); !errors.Is(err, ErrTorn) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	for i := range file {
		for bit := range 8 {
			bad := bytes.Clone(file)
			bad[i] ^= 1 << bit
			if _, _, _, err := Decode(bad); err == nil {
				t.Fatalf("bit %d of byte %d flipped, and nothing noticed", bit, i)
			}
		}
	}
	other := *h // sums that hold, and another object than the header names
	other.ID[0] ^= 1
	if _, _, _, err := Decode(encode(&other, object)); !errors.Is(err, ErrDamaged) {
		t.Errorf("another content id: %v", err)
	}
	bad := bytes.Clone(file)
	bad[5] = 2
	if _, _, err := DecodeHeader(bad); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
}

// The largest of everything is one that is read, one more byte is not.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		topic, cursor int
		size          int64
		ok            bool
	}{{maxTopic, MaxCursor, MaxObject, true}, {maxTopic + 1, 0, 0, false}, {1, MaxCursor + 1, 0, false},
		{1, 0, MaxObject + 1, false}, {1, 0, -1, false}} {
		h := Header{Stream: "env", Topic: strings.Repeat("t", c.topic), Cursor: bytes.Repeat([]byte("c"), c.cursor),
			Size: c.size}
		b := appendHeader(nil, &h)
		got, n, err := DecodeHeader(b)
		if !c.ok {
			if h.check() == nil || !errors.Is(err, ErrFormat) {
				t.Errorf("%+v: %v", c, err)
			}
		} else if err != nil || n != len(b) || got.Topic != h.Topic || !bytes.Equal(got.Cursor, h.Cursor) ||
			got.Size != h.Size || h.check() != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// No header has such a length, however much of the file is there.
	h, object := sample()
	for _, n := range []uint16{0, 3, fixedHeader - 1, maxHeader + 1, 1<<16 - 1} {
		file := encode(h, object)
		binary.BigEndian.PutUint16(file[6:], n)
		if _, _, err := DecodeHeader(file); !errors.Is(err, ErrFormat) {
			t.Errorf("a header of %d bytes: %v", n, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	h, object := sample()
	file := encode(h, object)
	f.Add(file)
	f.Add(file[:70])
	f.Add(append(bytes.Clone(file), 0))
	f.Add(encode(&Header{Stream: "s", ID: emptyID, Cursor: []byte("c")}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, summed(b)} {
			h, body, extra, err := Decode(b)
			if err != nil {
				if h.Size != 0 && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTorn) {
					t.Errorf("a header with the error %v", err)
				}
				continue
			}
			if again := encode(&h, body); !bytes.Equal(again, b[:int64(len(b))-extra]) {
				t.Errorf("two encodings of one file")
			}
		}
	})
}

// summed gives a file the checksum of the header, and the content id and checksum of
// the object, that it needs, so that the rest is reached.
func summed(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < 8 {
		return b
	}
	n := int(binary.BigEndian.Uint16(b[6:]))
	if n < fixedHeader || len(b) < n {
		return b
	}
	if size := binary.BigEndian.Uint64(b[56:]); size <= uint64(len(b)-n) && len(b)-n-int(size) >= trailer {
		object := b[n : n+int(size)]
		id := sha256.Sum256(object)
		copy(b[24:], id[:])
		binary.BigEndian.PutUint32(b[n+int(size):], crc32.Checksum(object, castagnoli))
	}
	binary.BigEndian.PutUint32(b[n-4:], crc32.Checksum(b[:n-4], castagnoli))
	return b
}
