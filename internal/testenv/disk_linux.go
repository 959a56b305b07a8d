package testenv

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Mount mounts for one test; whoever may not is not root.
func Mount(t testing.TB, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	err := unix.Mount(source, dir, kind, flags, data)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		Missing(t, "root", "mounting a file system needs root: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// Disk is an empty file system of its own, of a size like "64k".
func Disk(t testing.TB, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	Mount(t, "tmpfs", dir, "tmpfs", 0, "size="+size)
	return dir
}
