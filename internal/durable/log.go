package durable

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Log is a file of records of one length that grows at its end. Each record ends with
// the CRC-32C of the bytes before it (see AppendSum). A record counts once Append has
// returned; one that a crash has torn is cut off by Open. One goroutine at a time may
// use a Log.
type Log struct {
	o      LogOptions
	file   *os.File
	size   int64 // where the next record goes
	least  int64 // size after the last attempt of Compact, or 0
	broken bool  // the file may end with bytes that do not count; see Append
}

// LogOptions are what the owner of a Log decides. Path, Width and Contents are required.
type LogOptions struct {
	Path  string
	Width int // bytes of a record, checksum included
	// Newest bounds how many records Read reads, from the end; 0: all.
	Newest int
	// Skip makes Read skip and count damaged records, in place of an error.
	Skip bool
	// Contents returns the records that Compact writes in place of all.
	Contents func() []byte
}

// Found is what Read found in a file.
type Found struct {
	New     bool  // there was no file
	Size    int64 // bytes that count
	Damaged int   // records that were skipped
	Torn    int   // bytes after the last whole record
}

// NewLog returns a log that is not open yet: Read it, then Open or Compact it.
func NewLog(o LogOptions) *Log { return &Log{o: o} }

// Read gives the payload of each record to take, which returns false for one that makes
// no sense. Such a record is damaged, and so is one whose checksum does not match. A
// damaged record fails with ErrDamaged, unless the log skips such records or a crash
// left it: then nothing but zeros follows, or nothing at all, and Found.Size ends there.
func (l *Log) Read(take func(payload []byte) bool) (found Found, err error) {
	f, err := os.Open(l.o.Path)
	if errors.Is(err, os.ErrNotExist) {
		return Found{New: true}, nil
	}
	if err != nil {
		return found, err
	}
	defer f.Close()
	if found.Size, err = l.first(f); err != nil {
		return found, err
	}
	in, record := bufio.NewReaderSize(f, 1<<18), make([]byte, l.o.Width)
	for {
		n, err := io.ReadFull(in, record)
		if n == 0 && errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return found, err
		}
		payload, ok := checkSum(record[:n])
		switch sound := n == l.o.Width && ok && take(payload); {
		case !sound && l.o.Skip && n < l.o.Width:
			found.Torn = n
			return found, nil
		case !sound && l.o.Skip:
			found.Damaged++
		case !sound:
			torn, err := isTorn(record[:n], in)
			if err == nil && !torn {
				err = fmt.Errorf("%w at byte %d", ErrDamaged, found.Size)
			}
			return found, err
		}
		found.Size += int64(l.o.Width)
	}
}

// ErrDamaged: a record of a log is damaged, and others follow it.
var ErrDamaged = errors.New("damaged")

// first moves to the first record to read and returns its offset.
func (l *Log) first(f *os.File) (int64, error) {
	if l.o.Newest == 0 {
		return 0, nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	whole := info.Size() / int64(l.o.Width)
	return f.Seek(max(whole-int64(l.o.Newest), 0)*int64(l.o.Width), io.SeekStart)
}

// isTorn reports whether a crash left a record that cannot be read: it is the last one,
// or the file holds only zeros from there on.
func isTorn(record []byte, rest io.Reader) (bool, error) {
	zeros := bytes.Count(record, []byte{0}) == len(record)
	b, more := make([]byte, 1<<12), false
	for {
		n, err := rest.Read(b)
		more = more || n > 0
		zeros = zeros && bytes.Count(b[:n], []byte{0}) == n
		switch {
		case errors.Is(err, io.EOF):
			return zeros || !more, nil
		case err != nil:
			return false, err
		case more && !zeros:
			return false, nil
		}
	}
}

// Open opens the file for appending, creates it if needed, and cuts it to size, the
// Found.Size of Read.
func (l *Log) Open(size int64) error {
	_, err := os.Lstat(l.o.Path)
	created := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(l.o.Path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if created {
		err = SyncDir(filepath.Dir(l.o.Path))
	} else if err = f.Truncate(size); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, size
	return nil
}

// Append adds whole records, which AppendSum has closed, and returns when they are on
// disk. After an error none of them counts.
func (l *Log) Append(records []byte) error {
	if l.broken {
		if err := l.Compact(); err != nil {
			return err
		}
	}
	end, err := l.file.Seek(0, io.SeekEnd)
	l.size = max(l.size, end-end%int64(l.o.Width)) // another process may have appended
	if err == nil {
		_, err = l.file.WriteAt(records, l.size)
	}
	if err == nil {
		err = unix.Fdatasync(int(l.file.Fd()))
	}
	if err != nil {
		l.broken = l.file.Truncate(l.size) != nil
		return err
	}
	l.size += int64(len(records))
	return nil
}

// Size returns the length of the file in bytes.
func (l *Log) Size() int64 { return l.size }

// Least returns the length after the last attempt to Compact, or 0.
func (l *Log) Least() int64 { return l.least }

// Compact replaces the file with Contents. After an error, such as of a full disk, the
// log goes on with the old file, and the next Append tries again if that is gone.
func (l *Log) Compact() error {
	err := WriteFile(l.o.Path, l.o.Contents())
	if err != nil {
		l.broken, l.least = l.broken || !l.inPlace(), l.size
		return err
	}
	f, err := os.OpenFile(l.o.Path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		l.broken = true
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		l.broken = true
		return errors.Join(err, f.Close())
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size, l.least, l.broken = f, size, size, false
	return nil
}

// inPlace reports whether the open file is the one that the next start reads.
func (l *Log) inPlace() bool {
	named, err := os.Stat(l.o.Path)
	if err != nil || l.file == nil {
		return false
	}
	mine, err := l.file.Stat()
	return err == nil && os.SameFile(named, mine)
}

// Close closes the file. Later calls do nothing.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// AppendSum appends the CRC-32C of b[start:] to b. It closes a record that begins there.
func AppendSum(b []byte, start int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// checkSum returns a record without its checksum, and whether that matches.
func checkSum(record []byte) (payload []byte, ok bool) {
	n := len(record) - crc32.Size
	if n < 0 {
		return nil, false
	}
	return record[:n], crc32.Checksum(record[:n], castagnoli) == binary.BigEndian.Uint32(record[n:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
