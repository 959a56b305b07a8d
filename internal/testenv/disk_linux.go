package testenv

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Mount mounts a file system for one test. It needs root.
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

// ReadOnly makes dir read-only until the test ends or writable is called.
func ReadOnly(t testing.TB, dir string) (writable func()) {
	t.Helper()
	Mount(t, dir, dir, "", unix.MS_BIND, "")
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	return func() { remount(0) }
}

// Disk returns the directory of an empty file system of a size like "64k".
func Disk(t testing.TB, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	Mount(t, "tmpfs", dir, "tmpfs", 0, "size="+size)
	return dir
}
