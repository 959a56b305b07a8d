package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
)

// tuned is a backend with a measured choice.
type tuned struct{ cutrantt.Backend }

func (tuned) Choices() []cutrantt.Choice {
	return []cutrantt.Choice{{LogN: 16, N2: 16, Method: cutrantt.MethodKaratsuba, Source: cutrantt.ChoiceCached},
		{LogN: 12, N2: 1, Source: cutrantt.ChoiceDefault}}
}

// TestGPU: each failed step is named with what passed before it, and only a GPU
// that is there and does not work is a warning.
func TestGPU(t *testing.T) {
	for _, c := range []struct {
		err    string
		status Status
		holds  string
	}{
		{"open: libcuda.so.1: cannot open shared object file", Info, "libcuda.so.1"},
		{"open: built without GPU support", Info, "without GPU support"},
		{"symbol: the CUDA driver has no cuInit", Warn, "passed before: open"},
		{"init: cuInit: no CUDA-capable device is detected", Info, "passed before: open, symbol"},
		{"capability: Tesla K80 has compute capability 3.7", Info, "passed before: open, symbol, init"},
		{"module: forward: device kernel image is invalid", Warn, "passed before: open, symbol, init, capability"},
		{"self-test: the GPU computes wrong residues", Warn, "capability, module"},
	} {
		got := gpu(func() (cutrantt.Backend, error) {
			return nil, fmt.Errorf("cuda: %w: %s", cutrantt.ErrNotSupported, c.err)
		})
		if got.Status != c.status || !strings.Contains(got.Detail, c.holds) || (got.Status == Warn) &&
			got.Remedy == "" {
			t.Errorf("%s: %+v", c.err, got)
		}
	}
	measured := gpu(func() (cutrantt.Backend, error) { return tuned{cpu.New()}, nil })
	if !strings.HasSuffix(measured.Detail, "; fastest products (degree/columns): 2^16/16 karatsuba") {
		t.Errorf("%+v", measured)
	}
	got := gpu(func() (cutrantt.Backend, error) { return cpu.New(), nil })
	if got.Status != OK || !strings.Contains(got.Detail, "self-test") {
		t.Errorf("%+v", got)
	}
}
