package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LockFile creates the lock file at path if it does not exist and locks it until the
// returned file is closed. It fails with ErrLocked only if somebody else holds the
// lock. Other errors say why the file could not be created or locked.
func LockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EROFS) { // an existing file can be locked without writing to it
		if there, rerr := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC, 0); rerr == nil {
			f, err = there, nil
		}
	}
	if err != nil {
		return nil, lockError(path, err)
	}
	if err := TryLock(int(f.Fd())); err != nil {
		f.Close()
		return nil, lockError(path, err)
	}
	return f, nil
}

// lockError returns the error for a lock that was not taken, with the reason.
func lockError(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, ErrLocked):
		return fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("the file system of %s is read-only, and a lock file belongs there: %w", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("user %d cannot write to the directory %s, where a lock file belongs: %w",
			os.Geteuid(), dir, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s does not exist: %w", dir, err)
	}
	return fmt.Errorf("lock %s: %w", path, err)
}

// TryLock locks an open file, directory or device until its last descriptor is closed.
// It never waits. It fails with ErrLocked if somebody else holds the lock, and with the
// error of the system if the file system has no locks.
func TryLock(fd int) error {
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// ErrLocked: another process, or another open file of this one, holds the lock.
var ErrLocked = errors.New("another process has the lock")
