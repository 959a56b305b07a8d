package keyholder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestAppendFile: lines are appended, a file that was moved away is followed by a new one,
// and a line that was cut is ended.
func TestAppendFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.ndjson")
	f, err := OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(path, want string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s holds %q, want %q; %v", filepath.Base(path), b, want, err)
		}
	}
	write("1\n")
	if got := mode(t, path); got != 0o600 {
		t.Errorf("mode %04o", got)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("2\n") // still the old one
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	write("3\n")
	holds(path+".1", "1\n2\n")
	holds(path, "3\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("3\n{\"val"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = OpenAppend(path); err != nil {
		t.Fatal(err)
	}
	write("4\n")
	holds(path, "3\n{\"val\n4\n")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := f.Reopen(); !errors.Is(err, ErrPermissions) {
		t.Errorf("a file that others can read: %v", err)
	}
	write("5\n") // the one that was open goes on
	holds(path, "3\n{\"val\n4\n5\n")
}
