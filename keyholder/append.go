package keyholder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hencedge/hencedge/internal/durable"
)

// AppendFile is a growing file of decrypted values that only its owner can read. It is
// safe for concurrent use.
type AppendFile struct {
	path string
	mu   sync.Mutex
	f    *os.File
}

// OpenAppend opens or makes the file path with mode 0600. It fails with ErrPermissions
// when others can read the file.
func OpenAppend(path string) (*AppendFile, error) {
	a := &AppendFile{path: path}
	return a, a.Reopen()
}

// Reopen opens the path again, for example after log rotation. After an error the old
// file stays in use.
func (a *AppendFile) Reopen() error {
	f, err := os.OpenFile(a.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, secretMode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = private(a.path, info)
	}
	if err == nil {
		err = endLine(f, info.Size())
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(a.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, a.f = a.f, f
	if f == nil {
		return nil
	}
	return f.Close()
}

// endLine ends a line that a crash cut off, so that the next line can be read.
func endLine(f *os.File, size int64) error {
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
	}
	if last[0] == '\n' {
		return nil
	}
	_, err := f.Write([]byte{'\n'})
	return err
}

// Write appends b and flushes it to disk. After an error it cuts the file back to its
// former size, if the disk allows that.
func (a *AppendFile) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	info, err := a.f.Stat()
	if err != nil {
		return 0, err
	}
	n, err := a.f.Write(b)
	if err == nil {
		err = a.f.Sync()
	}
	if err != nil {
		return n, fmt.Errorf("write %s: %w", a.path, errors.Join(err, a.f.Truncate(info.Size())))
	}
	return n, nil
}

// Close closes the file.
func (a *AppendFile) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Close()
}
