package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked: another process has a lock file.
var ErrLocked = errors.New("another process has the lock")

// LockFile takes the lock file at path, which it makes where it is not there, until the
// file that it returns is closed. It fails with ErrLocked only where another process
// has it; what keeps the file from being made is an error of its own.
func LockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EROFS) { // one that is there needs no writing
		if there, rerr := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC, 0); rerr == nil {
			f, err = there, nil
		}
	}
	if err != nil {
		return nil, lockError(path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, lockError(path, err)
	}
	return f, nil
}

// lockError says what keeps a lock from being taken.
func lockError(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("the file system of %s is read-only, and a lock file belongs there: %w", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("user %d cannot write to the directory %s, where a lock file belongs: %w", os.Geteuid(), dir, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s does not exist: %w", dir, err)
	}
	return fmt.Errorf("lock %s: %w", path, err)
}
