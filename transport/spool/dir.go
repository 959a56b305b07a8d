package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// directory is one copy of a spool.
type directory struct {
	fs      fsys
	path    string
	claimed *claimed
}

func (d directory) join(name string) string { return filepath.Join(d.path, name) }

// claim makes the directory the spool's own, unless it is already.
func (d directory) claim() error {
	d.claimed.Lock()
	defer d.claimed.Unlock()
	if d.claimed.done {
		return nil
	}
	if _, err := d.place(markerName, [][]byte{markerText}); err != nil {
		return err
	}
	d.claimed.done = true
	return nil
}

// write makes a file of the directory, whole and flushed, or leaves nothing but
// perhaps a temporary file.
func (d directory) write(name string, content [][]byte) error {
	there, err := d.replace(name, content)
	if err != nil && there {
		// It may or may not be there after a crash; the caller keeps the object.
		_ = d.fs.Remove(d.join(name))
	}
	return err
}

// replace makes a file or puts it in the place of another one. When it fails, there
// says whether the new file has the name all the same; a crash may undo that.
func (d directory) replace(name string, content [][]byte) (there bool, err error) {
	if err := d.claim(); err != nil {
		return false, err
	}
	return d.place(name, content)
}

// place is replace in a directory that need not be the spool's own yet.
func (d directory) place(name string, content [][]byte) (there bool, err error) {
	temp := d.join(name + tempSuffix)
	f, err := d.fs.Create(temp)
	if errors.Is(err, fs.ErrExist) { // of an attempt that failed
		if err = d.fs.Remove(temp); err == nil {
			f, err = d.fs.Create(temp)
		}
	}
	if err != nil {
		return false, err
	}
	for _, part := range content {
		if err == nil {
			_, err = f.Write(part)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = d.fs.Rename(temp, d.join(name))
	}
	if err != nil {
		_ = d.fs.Remove(temp)
		return false, err
	}
	return true, d.fs.SyncDir(d.path)
}

// read returns a whole file, at most limit bytes, in the memory of into if that has
// room.
func (d directory) read(name string, limit int64, into []byte) ([]byte, error) {
	f, length, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := min(length, limit)
	if int64(cap(into)) < size {
		into = make([]byte, size)
	}
	b := into[:size]
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// object reads and verifies an object, in the memory of into if that has room. Bytes
// after its end are cut off.
func (d directory) object(number uint64, into []byte) (Header, []byte, error) {
	name := objectName(number)
	b, err := d.read(name, maxHeader+MaxObject+trailer+1, into)
	if err != nil {
		return Header{}, nil, err
	}
	h, object, extra, err := Decode(b)
	if err == nil && h.Number != number {
		err = fmt.Errorf("%w: %s holds number %016x", ErrFormat, name, h.Number)
	}
	if err == nil && extra > 0 {
		_ = d.fs.Truncate(d.join(name), h.fileSize(), true)
	}
	return h, object, err
}

// header reads the header of a file and compares the file's length with it.
// extra is the number of bytes too many.
func (d directory) header(name string) (h Header, extra int64, err error) {
	f, length, err := d.open(name)
	if err != nil {
		return h, 0, err
	}
	defer f.Close()
	b := make([]byte, min(length, maxHeader))
	if _, err := io.ReadFull(f, b); err != nil {
		return h, 0, err
	}
	if h, _, err = DecodeHeader(b); err != nil {
		return h, 0, err
	}
	if extra = length - h.fileSize(); extra < 0 {
		return h, 0, fmt.Errorf("%w: %d of %d bytes", ErrTorn, length, h.fileSize())
	}
	return h, extra, nil
}

// open opens a regular file and returns its length.
func (d directory) open(name string) (f file, length int64, err error) {
	if f, err = d.fs.Open(d.join(name)); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrFormat, name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// quarantine moves a damaged file away and keeps the newest few.
func (d directory) quarantine(name string, keepFiles int, keepBytes int64) error {
	aside := d.join(damagedDir)
	if err := d.fs.Mkdir(aside); err != nil {
		return err
	}
	to := filepath.Join(aside, setAside(name))
	if err := d.fs.Rename(d.join(name), to); err != nil {
		return err
	}
	list, err := d.fs.ReadDir(aside)
	if err != nil {
		return err
	}
	type old struct {
		name string
		size int64
		at   time.Time
	}
	var files []old
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && wasSetAside(e.Name()) {
			files = append(files, old{e.Name(), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b old) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.name, a.name)) })
	total := int64(0)
	for i, f := range files {
		if total += f.size; i >= keepFiles || total > keepBytes {
			_ = d.fs.Remove(filepath.Join(aside, f.name))
			total -= f.size
		}
	}
	return nil
}

// claimed says whether the marker of the spool is in the directory.
type claimed struct {
	sync.Mutex
	done bool
}
