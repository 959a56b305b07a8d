package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hencedge/hencedge/transport"
)

// Errors of a spool file. Decode and DecodeHeader fail with exactly one of them.
var (
	// ErrFormat: not a spool file, or its header is damaged.
	ErrFormat = errors.New("not a spool file, or its header is damaged")
	// ErrVersion: written by a newer version.
	ErrVersion = errors.New("spool file of an unknown version")
	// ErrTorn: the file ends before its object does.
	ErrTorn = errors.New("spool file is cut short")
	// ErrDamaged: the header is sound and the object is not what was written.
	ErrDamaged = errors.New("spool file is damaged")
)

// Version is the version of the file format.
const Version = 1

// Limits of a file.
const (
	MaxObject = 256 << 20 // bytes of an object
	MaxCursor = 1 << 10   // bytes of a cursor
	maxTopic  = 1 << 10   // bytes of a topic
	maxHeader = fixedHeader + transport.MaxName + maxTopic + MaxCursor
	// fixedHeader: magic 4, version 2, header length 2, number 8, created 8, id
	// 32, size 8, three lengths of 2, CRC 4.
	fixedHeader = 4 + 2 + 2 + 8 + 8 + 32 + 8 + 3*2 + 4
	trailer     = 4 // CRC of the object
)

var magic = [4]byte{'h', 's', 'p', 'l'}

// castagnoli is the polynomial of CRC-32C (RFC 3720, 12.1).
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is what a spool file says of its object.
type Header struct {
	Number  uint64   // grows with every object of a spool
	Created int64    // unix nanoseconds
	ID      [32]byte // SHA-256 of the object
	Size    int64    // of the object, 0 to MaxObject; 0 only in a mark
	Stream  string   // transport.CheckName
	Topic   string   // where it is published; may be empty
	Cursor  []byte   // position in the input after this object; may be empty
}

// appendHeader encodes h, which must be valid.
func appendHeader(b []byte, h *Header) []byte {
	start := len(b)
	b = append(b, magic[:]...)
	b = binary.BigEndian.AppendUint16(b, Version)
	b = binary.BigEndian.AppendUint16(b, uint16(fixedHeader+len(h.Stream)+len(h.Topic)+len(h.Cursor)))
	b = binary.BigEndian.AppendUint64(b, h.Number)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Created))
	b = append(b, h.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Size))
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.Stream)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.Topic)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.Cursor)))
	b = append(append(append(b, h.Stream...), h.Topic...), h.Cursor...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// check refuses what appendHeader cannot write.
func (h *Header) check() error {
	if err := transport.CheckName(h.Stream); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	switch {
	case len(h.Topic) > maxTopic:
		return fmt.Errorf("topic of %d bytes, want at most %d", len(h.Topic), maxTopic)
	case len(h.Cursor) > MaxCursor:
		return fmt.Errorf("cursor of %d bytes, want at most %d", len(h.Cursor), MaxCursor)
	case h.Size < 0 || h.Size > MaxObject:
		return fmt.Errorf("object of %d bytes, want at most %d", h.Size, MaxObject)
	}
	return nil
}

// fileSize returns the length of a whole file with header h.
func (h *Header) fileSize() int64 {
	return int64(fixedHeader+len(h.Stream)+len(h.Topic)+len(h.Cursor)) + h.Size + trailer
}

// FileSize returns the length in bytes of the file of an object of size bytes, with a
// cursor of that many bytes.
func FileSize(stream, topic string, cursor int, size int64) int64 {
	h := Header{Stream: stream, Topic: topic, Size: size}
	return h.fileSize() + int64(cursor)
}

// DeviceBytes returns about what a journalling file system writes to its device for a file
// of size bytes that is put, flushed and later deleted: its blocks of 4 KiB, and 12 KiB
// of journal and metadata; with the position of an input, which is a file of its own, 17
// KiB more. TestWear holds it against ext4.
func DeviceBytes(size int64, cursor bool) int64 {
	const block, journal, position = 4 << 10, 12 << 10, 17 << 10
	n := (size+block-1)/block*block + journal
	if cursor {
		n += position
	}
	return n
}

// length returns the bytes of pieces.
func length(pieces [][]byte) int {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// DecodeHeader reads the header at the start of b and gives its length in bytes.
// It fails with ErrTorn when b ends within the header, ErrVersion or ErrFormat.
func DecodeHeader(b []byte) (h Header, length int, err error) {
	if n := min(len(b), len(magic)); !bytes.Equal(b[:n], magic[:n]) {
		return h, 0, ErrFormat
	}
	if len(b) < 8 {
		return h, 0, fmt.Errorf("%w: %d bytes", ErrTorn, len(b))
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != Version {
		return h, 0, fmt.Errorf("%w: %d, this program reads %d", ErrVersion, v, Version)
	}
	length = int(binary.BigEndian.Uint16(b[6:]))
	if length < fixedHeader || length > maxHeader {
		return h, 0, fmt.Errorf("%w: header of %d bytes", ErrFormat, length)
	}
	if len(b) < length {
		return h, 0, fmt.Errorf("%w: %d bytes of a header of %d", ErrTorn, len(b), length)
	}
	b = b[:length]
	if crc32.Checksum(b[:length-4], castagnoli) != binary.BigEndian.Uint32(b[length-4:]) {
		return h, 0, fmt.Errorf("%w: checksum", ErrFormat)
	}
	h.Number, h.Created = binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:]))
	copy(h.ID[:], b[24:])
	h.Size = int64(binary.BigEndian.Uint64(b[56:]))
	s, t, c := int(binary.BigEndian.Uint16(b[64:])), int(binary.BigEndian.Uint16(b[66:])),
		int(binary.BigEndian.Uint16(b[68:]))
	if fixedHeader+s+t+c != length {
		return Header{}, 0, fmt.Errorf("%w: lengths", ErrFormat)
	}
	text := b[70:]
	h.Stream, h.Topic = string(text[:s]), string(text[s:s+t])
	if c > 0 {
		h.Cursor = bytes.Clone(text[s+t : s+t+c])
	}
	if err := h.check(); err != nil {
		return Header{}, 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return h, length, nil
}

// pieces returns the parts of a file one after another; the object, which may be
// large, is not copied.
func pieces(h *Header, object []byte) [][]byte {
	return [][]byte{appendHeader(nil, h), object, binary.BigEndian.AppendUint32(nil,
		crc32.Checksum(object, castagnoli))}
}

// Decode reads a whole file; object shares b's memory. Bytes after the file's
// end do not count as damage: extra says how many there are. It fails with
// ErrFormat, ErrVersion, ErrTorn or ErrDamaged.
func Decode(b []byte) (h Header, object []byte, extra int64, err error) {
	h, n, err := DecodeHeader(b)
	if err != nil {
		return h, nil, 0, err
	}
	if extra = int64(len(b)) - h.fileSize(); extra < 0 {
		return h, nil, 0, fmt.Errorf("%w: %d of %d bytes", ErrTorn, len(b), h.fileSize())
	}
	object = b[n : int64(n)+h.Size]
	if crc32.Checksum(object, castagnoli) != binary.BigEndian.Uint32(b[int64(n)+h.Size:]) {
		return h, nil, 0, fmt.Errorf("%w: checksum", ErrDamaged)
	}
	if sha256.Sum256(object) != h.ID {
		return h, nil, 0, fmt.Errorf("%w: content id", ErrDamaged)
	}
	return h, object, extra, nil
}
