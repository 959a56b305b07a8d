package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// WriteFile replaces a file and returns when the replacement is on disk. A new file gets
// mode 0600.
func WriteFile(path string, data []byte) error {
	return WriteFrom(path, 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFrom replaces a file with what write produces and returns when the replacement is
// on disk. A new file gets mode perm, whatever the umask; an existing one keeps its
// mode. After an error of write the old file stays.
//
// The data is flushed before the rename, and the directory after it. Without the second
// flush a power cut could bring the old file back, and with it numbers that were used.
func WriteFrom(path string, perm fs.FileMode, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir),
		renameio.WithPermissions(perm), renameio.IgnoreUmask(), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer f.Cleanup() // does nothing after the rename
	if err := write(f); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SweepTemporary removes the temporary files that WriteFile leaves beside path when its
// process is killed. Call it at startup. Files younger than an hour stay, since they may
// belong to a running process.
func SweepTemporary(path string) {
	dir, base := filepath.Split(path)
	list, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return // the next write reports it
	}
	for _, e := range list {
		digits, ours := strings.CutPrefix(e.Name(), "."+base)
		if !ours || digits == "" || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()).Abs() > time.Hour {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// SyncDir flushes the names in a directory. Some network file systems cannot do that and
// return EINVAL or ENOTSUP, which is no error here.
func SyncDir(path string) error { return syncDir(path) }

// syncDir is replaced in tests.
var syncDir = systemSyncDir

func systemSyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// ReadFile reads a regular file of at most limit bytes. It fails with ErrFile if the
// file is longer, or no regular file.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, limit)
}

// ReadAll reads an open file as ReadFile does. The file's offset must be at its start.
func ReadAll(f *os.File, limit int64) ([]byte, error) {
	size, err := Size(f, limit)
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return b, nil
}

// Size returns the size of a regular file of at most limit bytes. It fails with ErrFile
// if the file is longer, or no regular file.
func Size(f *os.File, limit int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%w: %s is not a regular file", ErrFile, f.Name())
	}
	if info.Size() > limit {
		return 0, fmt.Errorf("%w: %s has %d bytes, at most %d are expected", ErrFile, f.Name(), info.Size(), limit)
	}
	return info.Size(), nil
}

// ErrFile: a file is not what was expected there; the message says why.
var ErrFile = errors.New("unexpected file")

// Unwritable reports whether err says that a disk takes nothing for now: it is full,
// read-only or failing.
func Unwritable(err error) bool {
	return diskFull(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO)
}

// diskFull reports whether err says that a disk, or the user's part of it, is full.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
