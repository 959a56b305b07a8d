// Package inputtest is what the tests of inputs share.
package inputtest

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// CopyTree copies the files under dir into a directory of the test's own.
func CopyTree(t testing.TB, dir string) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.CopyFS(root, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return root
}

// Until reads s until want accepts what comes. After testrig.Patience the test fails.
// each runs before every read, unless it is nil.
func Until(t *testing.T, s input.Sensor, each func(), want func(v float64, err error) bool) {
	t.Helper()
	ctx := testrig.Context(t)
	for {
		if each != nil {
			each()
		}
		v, _, err := s.Read(ctx)
		if ctx.Err() != nil {
			t.Fatalf("last: %v, %v", v, err)
		}
		if want(v, err) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Is accepts want within 1e-9, and no error.
func Is(want float64) func(float64, error) bool {
	return func(v float64, err error) bool { return err == nil && math.Abs(v-want) < 1e-9 }
}

// Tree unpacks a recorded /sys: module files must not have ':' in their names.
func Tree(t *testing.T, archive string) string {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// PTY returns a pair of pseudo terminals: what the device holds, and the path of the
// serial port.
func PTY(t *testing.T) (device *os.File, path string) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		testenv.Missing(t, "pty", "no pseudo terminals: open /dev/ptmx: ", err)
	}
	f := os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { f.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return f, fmt.Sprintf("/dev/pts/%d", n)
}
