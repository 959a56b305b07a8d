package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

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
		log.Info("the configuration names another replay file; starting at its beginning")
		return nil
	}
	kin, newline, err := r.compare(c)
	if err != nil {
		return err
	}
	const again = "to replay all of it, give it another name; to continue the replay, restore its old contents"
	switch kin {
	case another:
		log.Warn("the replay file was replaced; starting at the beginning of the new one", "rows_of_the_old_one",
			c.at.rows)
		if name, size := moved(r.cfg.File, c.dev, c.ino); name != "" && name != r.cfg.File &&
			uint64(size) > c.at.offset {
			log.Warn("the end of the old replay file was not read; replay it under its new name as well", "now", name,
				"bytes_read", c.at.offset, "size", size)
		}
		return nil
	case cut:
		return fmt.Errorf("%w: %s was cut short: %d rows (its first %d bytes) had already been replayed; %s", ErrReplay,
			r.cfg.File, c.at.rows, c.at.offset, again)
	case changed:
		return fmt.Errorf("%w: %s was changed within the %d rows (its first %d bytes) that had already been replayed; "+
			"%s", ErrReplay, r.cfg.File, c.at.rows, c.at.offset, again)
	}
	if err := r.skip(c.at, newline); err != nil {
		return err
	}
	if size := r.size(); size >= 0 && uint64(size) == r.track.done {
		log.Info("the replay file was already read to its end, and nothing was added since; give it another name to "+
			"replay it again", "rows", c.at.rows)
		return nil
	}
	log.Info("the replay continues", "rows", c.at.rows)
	return nil
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
