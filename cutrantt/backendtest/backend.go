// Package backendtest chooses the backend that tests of several packages run on. Only tests import it.
package backendtest

import (
	"os"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/internal/testenv"
)

// New returns the CPU, or the GPU if CUTRANTT_TEST_BACKEND is cuda.
func New(t testing.TB) cutrantt.Backend {
	t.Helper()
	switch name := os.Getenv("CUTRANTT_TEST_BACKEND"); name {
	case "", "cpu":
		return cpu.New()
	case "cuda":
		return testenv.Must(cuda.New())(t)
	default:
		t.Fatalf("CUTRANTT_TEST_BACKEND=%s: use cpu or cuda", name)
		return nil
	}
}
