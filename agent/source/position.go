package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// cursorVersion is the first byte of a cursor (docs/delivery.md).
const cursorVersion = 1

// cursor is what the spool keeps of a replay, with each window and in the marks.
type cursor struct {
	name     [8]byte // of SHA-256 of the file's name
	dev, ino uint64  // of the file; 0: unknown
	head     span    // the file up to and with its first record
	at       Position
}

// Position is a place in a replay file: after a row. The digest of what lies before it
// tells the file from another one under its name.
type Position struct {
	rows   uint64 // given so far, in the order in which they were given; 0: no position
	offset uint64 // bytes read for them
	sum    [sha256.Size]byte
}

// span is the beginning of a file.
type span struct {
	length uint64
	sum    [sha256.Size]byte
}

// cursorSize: version 1, name 8, device 8, inode 8, head 8 + 32, rows 8, offset 8, sum 32.
const cursorSize = 1 + 8 + 8 + 8 + 8 + 32 + 8 + 8 + 32

func (c *cursor) encode() []byte {
	b := append(make([]byte, 0, cursorSize), cursorVersion)
	b = append(b, c.name[:]...)
	for _, n := range []uint64{c.dev, c.ino, c.head.length} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(b, c.head.sum[:]...)
	b = binary.BigEndian.AppendUint64(b, c.at.rows)
	b = binary.BigEndian.AppendUint64(b, c.at.offset)
	return append(b, c.at.sum[:]...)
}

// ErrCursor: the spool has a position of a replay that this program cannot read.
var ErrCursor = errors.New("unknown position of a replay in the spool")

func decodeCursor(b []byte) (*cursor, error) {
	if len(b) != cursorSize || b[0] != cursorVersion {
		return nil, fmt.Errorf("%w: %d bytes, want %d of version %d; deliver the spool with the program that wrote "+
			"it, or give the agent an empty spool, which replays from the beginning",
			ErrCursor, len(b), cursorSize, cursorVersion)
	}
	c := &cursor{}
	r := bytes.NewReader(b[1:])
	if err := binary.Read(r, binary.BigEndian, &c.name); err != nil {
		return nil, err
	}
	for _, to := range []any{&c.dev, &c.ino, &c.head.length, &c.head.sum, &c.at.rows, &c.at.offset, &c.at.sum} {
		if err := binary.Read(r, binary.BigEndian, to); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func nameHash(file string) [8]byte {
	sum := sha256.Sum256([]byte(file))
	return [8]byte(sum[:8])
}

// tracker digests what was read of a file, up to the end of a record: readers read ahead.
type tracker struct {
	r     io.Reader
	ahead []byte // read, not digested
	hash  hash.Hash
	done  uint64 // bytes digested
	sum   [sha256.Size]byte
}

func newTracker(r io.Reader) *tracker { return &tracker{r: r, hash: sha256.New()} }

func (t *tracker) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.ahead = append(t.ahead, p[:n]...)
	return n, err
}

// advance digests up to offset.
func (t *tracker) advance(offset int64) {
	n := min(max(offset-int64(t.done), 0), int64(len(t.ahead)))
	t.hash.Write(t.ahead[:n])
	t.ahead = append(t.ahead[:0], t.ahead[n:]...)
	t.done += uint64(n)
}

func (t *tracker) span() span {
	t.hash.Sum(t.sum[:0])
	return span{t.done, t.sum}
}

// fileID returns device and inode of an open file, or zeros.
func fileID(f any) (dev, ino uint64) {
	file, ok := f.(*os.File)
	if !ok {
		return 0, 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return 0, 0
	}
	return uint64(st.Dev), st.Ino
}
