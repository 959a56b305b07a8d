package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Only a lock that another one has is called so: a directory that cannot be written is
// named with its own reason.
func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.lock")
	first, err := LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockFile(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	first.Close()
	if f, err := LockFile(path); err != nil {
		t.Errorf("after the first: %v", err)
	} else {
		f.Close()
	}
	if _, err := LockFile(filepath.Join(path, "x")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("below a file: %v", err)
	}
	for want, cause := range map[string]error{
		"the file system of /d is read-only": unix.EROFS, "cannot write to the directory /d": unix.EACCES,
		"the directory /d does not exist": unix.ENOENT, "lock /d/x.lock: ": unix.ENOLCK,
	} {
		err := lockError("/d/x.lock", &fs.PathError{Op: "open", Path: "/d/x.lock", Err: cause})
		if !strings.Contains(err.Error(), want) || errors.Is(err, ErrLocked) || !errors.Is(err, cause) {
			t.Errorf("%v: %v", cause, err)
		}
	}
	// No file can be made there, by nobody.
	if _, err := LockFile("/proc/self/hencedge.lock"); err == nil || errors.Is(err, ErrLocked) || os.IsExist(err) {
		t.Errorf("/proc: %v", err)
	}
}
