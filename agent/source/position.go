package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Position is a place in a replay file: after a row. The digest of what lies before it
// tells the file from another one under its name.
type Position struct {
	rows   uint64 // given so far, in the order in which they were given; 0: no position
	offset uint64 // bytes read for them
	sum    [sha256.Size]byte
}

// cursorVersion is the first byte of a cursor (docs/delivery.md).
const cursorVersion = 1

// cursor is what the spool keeps of a replay, with each window and in the marks.
type cursor struct {
	name     [8]byte // of SHA-256 of the file's name
	dev, ino uint64  // of the file; 0: unknown
	head     span    // the file up to and with its first record
	at       Position
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

// Cursor returns what the spool keeps for a place in the file.
func (r *replay) Cursor(at Position) []byte {
	if at.rows == 0 {
		return nil
	}
	c := cursor{name: nameHash(r.cfg.File), dev: r.dev, ino: r.ino, head: r.head, at: at}
	return c.encode()
}

// kinship is what a file is to one that was read before under the same name.
type kinship int

const (
	same    kinship = iota // what was read is there, and perhaps more
	another                // it begins with something else
	cut                    // it begins alike and ends before the position
	changed                // it begins alike, and something before the position is different
)

// compare tells what the file under r's name is to the one that c was written for. If it
// is the same, newline is the length of the line break behind the position, which the
// last row may lack at first.
func (r *replay) compare(c *cursor) (kin kinship, newline uint64, err error) {
	f, err := os.Open(r.cfg.File)
	if err != nil {
		return 0, 0, fmt.Errorf("open replay file: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	begins := func(s span, from uint64) (bool, error) {
		if s.length < from || s.length > math.MaxInt64 {
			return false, nil
		}
		n, err := io.CopyN(h, f, int64(s.length-from))
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read %s: %w", r.cfg.File, err)
		}
		return uint64(n) == s.length-from && [sha256.Size]byte(h.Sum(nil)) == s.sum, nil
	}
	if ok, err := begins(c.head, 0); err != nil || !ok {
		return another, 0, err
	}
	ok, err := begins(span{c.at.offset, c.at.sum}, c.head.length)
	if err != nil {
		return 0, 0, err
	}
	if ok {
		next := make([]byte, len("\r\n"))
		n, _ := io.ReadFull(f, next)
		rest := bytes.TrimLeft(next[:n], "\r")
		rest = bytes.TrimPrefix(rest, []byte("\n"))
		return same, uint64(n - len(rest)), nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", r.cfg.File, err)
	}
	if uint64(info.Size()) < c.at.offset {
		return cut, 0, nil
	}
	return changed, 0, nil
}

// moved returns the name that a file has now in its directory, and its size; "" when it
// is not there.
func moved(file string, dev, ino uint64) (name string, size int64) {
	dir := filepath.Dir(file)
	list, err := os.ReadDir(dir)
	if err != nil || ino == 0 {
		return "", 0
	}
	for _, e := range list {
		var st unix.Stat_t
		path := filepath.Join(dir, e.Name())
		if e.Type() == fs.FileMode(0) && unix.Lstat(path, &st) == nil && uint64(st.Dev) == dev && st.Ino == ino {
			return path, st.Size
		}
	}
	return "", 0
}

// Resume lets a replay go on after the last window that the spool has or had. A file
// under another name, and one that begins with other rows, is replayed from its
// beginning; one that begins alike and is not what was read is an error.
func (r *replay) Resume(kept []byte) error {
	log := r.log.With("file", r.cfg.File)
	c, err := decodeCursor(kept)
	if err != nil {
		return err
	}
	if c.name != nameHash(r.cfg.File) {
		log.Info("another replay file: it starts from its beginning")
		return nil
	}
	kin, newline, err := r.compare(c)
	if err != nil {
		return err
	}
	const again = "to replay all of it, give it another name; to go on where the replay was, restore what it held"
	switch kin {
	case another:
		log.Warn("the replay file was replaced: the new one starts from its beginning", "rows_of_the_old_one",
			c.at.rows)
		if name, size := moved(r.cfg.File, c.dev, c.ino); name != "" && name != r.cfg.File &&
			uint64(size) > c.at.offset {
			log.Warn("the end of the old replay file was not read; replay it under its new name as well", "now", name,
				"bytes_read", c.at.offset, "size", size)
		}
		return nil
	case cut:
		return fmt.Errorf("%w: %s was cut short: %d rows, its first %d bytes, were replayed already; %s", ErrReplay,
			r.cfg.File, c.at.rows, c.at.offset, again)
	case changed:
		return fmt.Errorf("%w: %s was changed within the %d rows, its first %d bytes, that were replayed already; %s",
			ErrReplay, r.cfg.File, c.at.rows, c.at.offset, again)
	}
	if err := r.skip(c.at, newline); err != nil {
		return err
	}
	if size := r.size(); size >= 0 && uint64(size) == r.track.done {
		log.Info("the replay file was read to its end by an earlier start, and nothing was added; give it another "+
			"name to replay it again", "rows", c.at.rows)
		return nil
	}
	log.Info("the replay continues", "rows", c.at.rows)
	return nil
}

// size is that of the open file, or -1.
func (r *replay) size() int64 {
	f, ok := r.file.(*os.File)
	if !ok {
		return -1
	}
	info, err := f.Stat()
	if err != nil {
		return -1
	}
	return info.Size()
}

// ended looks at a file that was read to its end: whether it was cut while it was read,
// and whether another one has its name by now.
func (r *replay) ended() error {
	size := r.size()
	if size < 0 {
		return nil
	}
	if read := r.track.done + uint64(len(r.track.ahead)); uint64(size) < read {
		return fmt.Errorf("%w: %s was cut to %d bytes while it was read, after %d; rows may be missing", ErrReplay,
			r.cfg.File, size, read)
	}
	var st unix.Stat_t
	if err := unix.Stat(r.cfg.File, &st); err != nil || uint64(st.Dev) != r.dev || st.Ino != r.ino {
		r.log.Warn("the replay file was replaced or removed while it was read; what has its name now is read at the "+
			"next start", "file", r.cfg.File)
	}
	return nil
}
