//go:build linux && (amd64 || arm64) && !nogpu

package driver

import (
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
