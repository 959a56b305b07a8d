package conformance

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/cutrantt/reference"
	"github.com/hencedge/hencedge/internal/testenv"
)

// candidates are the backends of this build, the CPU's once for each variant of its
// code ("cpu-avx512", "cpu-generic"). open returns why one is absent.
var candidates = func() []candidate {
	list := []candidate{{"reference", "reference", func() (cutrantt.Backend, error) { return reference.New(), nil }}}
	for _, v := range cpu.Variants() {
		list = append(list, candidate{"cpu-" + v, "cpu", func() (cutrantt.Backend, error) { return cpu.NewVariant(v) }})
	}
	return append(list, candidate{"cuda", "cuda", cuda.New})
}()

type candidate struct {
	name, backend string
	open          func() (cutrantt.Backend, error)
}

// need is what CUTRANTT_TEST_REQUIRE calls it: the backend, or the variant of the CPU's.
func (c candidate) need() string { return strings.TrimPrefix(c.name, "cpu-") }

// eachBackend runs f for every backend that is present.
func eachBackend(t *testing.T, f func(t *testing.T, b cutrantt.Backend)) {
	t.Helper()
	each(t, candidates, f)
}

// eachCompared runs f for every backend that is present but the reference, which
// is the first and which f compares them with.
func eachCompared(t *testing.T, f func(t *testing.T, b cutrantt.Backend)) {
	t.Helper()
	each(t, candidates[1:], f)
}

// eachGPU runs f for the GPU, the last: for kernels of its own that no other backend
// stands for.
func eachGPU(t *testing.T, f func(t *testing.T, b cutrantt.Backend)) {
	t.Helper()
	each(t, candidates[len(candidates)-1:], f)
}

func each(t *testing.T, list []candidate, f func(t *testing.T, b cutrantt.Backend)) {
	t.Helper()
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			b, err := c.open()
			if err != nil {
				testenv.Missing(t, c.need(), "backend ", c.name, ": ", err)
			}
			f(t, b)
		})
	}
}

// TestRequired fails when a backend, or a variant of the CPU's code ("avx512"),
// listed in CUTRANTT_TEST_REQUIRE is absent or goes by another name. Without the
// variable those that every build has are required.
func TestRequired(t *testing.T) {
	required := os.Getenv("CUTRANTT_TEST_REQUIRE")
	if required == "" {
		required = "reference,cpu,generic"
	}
	var present []string
	for _, c := range candidates {
		b, err := c.open()
		if err != nil {
			t.Logf("backend %s: %v", c.name, err)
			continue
		}
		if b.Name() != c.backend {
			t.Errorf("backend %s calls itself %q", c.name, b.Name())
		}
		present = append(present, c.backend, c.need())
	}
	for name := range strings.SplitSeq(required, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(present, name) {
			t.Errorf("backend %q is required but not present; present: %v", name, present)
		}
	}
}

func TestDescription(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		if b.Device() == "" {
			t.Error("the device has no description")
		}
		for logN := cutrantt.MinLogN; logN <= cutrantt.MaxLogN; logN++ {
			if n2 := cutrantt.Columns(b, logN); !cutrantt.NTT(n2).Valid() {
				t.Errorf("degree 2^%d: %d columns", logN, n2)
			}
		}
		ms := moduli(t, 10, 3)
		r, err := b.NewRing(10, ms, cutrantt.Options{Method: cutrantt.MethodLazy, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		if r.Backend().Name() != b.Name() || r.LogN() != 10 || r.N() != 1024 || r.Method() != cutrantt.MethodLazy ||
			!slices.Equal(r.Moduli(), ms) {
			t.Errorf("ring describes itself as %s, 2^%d = %d, %v, %v", r.Backend().Name(), r.LogN(), r.N(),
				r.Method(), r.Moduli())
		}
	})
}
