package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/seal"
)

// asNobody calls f without root's rights. The thread that gave them up ends with f.
func asNobody(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if os.Getuid() == 0 {
			const nobody = 65534
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				done <- fmt.Errorf("become nobody: %w", errno)
				return
			}
		}
		done <- f()
	}()
	return <-done
}

// TestPermissionRemedies: what a user may not read or write is told with a remedy that
// is about permissions, before the agent starts.
func TestPermissionRemedies(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := asNobody(t, func() error { return writable(dir) }); !errors.Is(err, fs.ErrPermission) ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("a directory of another user: %v", err)
	}
	if err := writable(t.TempDir()); err != nil {
		t.Errorf("a directory of our own: %v", err)
	}
	denied := fmt.Errorf("open it: %w", fs.ErrPermission)
	for path, want := range map[string]string{"signing_key": "chown", "keys.public_key": "read the file"} {
		if got := seal.Remedy(path, denied); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not say %q", path, got, want)
		}
	}
}
