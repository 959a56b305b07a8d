//go:build linux && (amd64 || arm64) && !nogpu

package driver

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestOpenSaysWhy opens a library that is not there from many goroutines, so
// that the scheduler moves them between threads: the dynamic linker keeps its
// message by thread, and an error that says nothing was the result.
func TestOpenSaysWhy(t *testing.T) {
	const missing = "/nowhere/libcuda.so.1"
	t.Setenv(LibraryVariable, missing)
	end := time.Now().Add(500 * time.Millisecond)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for time.Now().Before(end) {
				if _, err := Open(); err == nil || !strings.Contains(err.Error(), missing) {
					t.Errorf("the error does not name the library: %q", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestOpenLibraryThere: of several places the error names the one where a library is
// that cannot be opened.
func TestOpenLibraryThere(t *testing.T) {
	defer func(old []string) { libraries = old }(libraries)
	t.Setenv(LibraryVariable, "")
	dir := t.TempDir()
	broken := filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(broken, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere, later := filepath.Join(dir, "nowhere.so"), filepath.Join(dir, "later.so")
	for _, c := range []struct {
		libraries []string
		want      string
	}{{[]string{nowhere, broken, later}, broken}, {[]string{broken, nowhere}, broken},
		{[]string{nowhere, later}, nowhere}} {
		libraries = c.libraries
		if _, err := openLibrary(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want it to name %s", c.libraries, err, c.want)
		}
	}
}
