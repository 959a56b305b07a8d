package spool

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
)

// fsys is the file system as the spool uses it: one method per system call that
// changes something, so that a test can record them, stop after any of them, and
// see what a crash leaves.
type fsys interface {
	Create(name string) (file, error) // exclusively, for writing, mode 0600
	Open(name string) (file, error)   // for reading
	Rename(from, to string) error
	Remove(name string) error
	Truncate(name string, size int64, flush bool) error
	Mkdir(name string) error // mode 0700; an existing one is fine
	ReadDir(name string) ([]os.DirEntry, error)
	SyncDir(name string) error
	Lock(name string) (io.Closer, error) // a directory; nil where there are no locks
	// Room returns the bytes of the file system of a directory, and those that are left; 0
	// and 0 where it does not say.
	Room(name string) (size, left int64)
}

type file interface {
	io.Reader
	io.Writer
	Sync() error
	Close() error
	Stat() (os.FileInfo, error)
}

// disk is the machine's file system.
type disk struct{}

func (disk) Create(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (disk) Open(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) Remove(name string) error     { return os.Remove(name) }

func (disk) Truncate(name string, size int64, flush bool) error {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil && flush {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (disk) Mkdir(name string) error {
	err := os.Mkdir(name, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

func (disk) ReadDir(name string) ([]os.DirEntry, error) { return os.ReadDir(name) }

func (disk) SyncDir(name string) error { return durable.SyncDir(name) }

func (disk) Room(name string) (size, left int64) {
	var s unix.Statfs_t
	if unix.Statfs(name, &s) != nil {
		return 0, 0
	}
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize)
}

// Cause names what is wrong with a disk in a word, for metrics and messages:
// "full", "read_only", "quota", "too_large", "failing", or "other".
func Cause(err error) string {
	for _, c := range []struct {
		err  error
		name string
	}{
		{unix.ENOSPC, "full"}, {unix.EDQUOT, "quota"}, {unix.EROFS, "read_only"}, {unix.EFBIG, "too_large"},
		{unix.EIO, "failing"},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "other"
}
