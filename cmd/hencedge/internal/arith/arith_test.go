package arith

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/cutrantt/reference"
	"github.com/hencedge/hencedge/henc"
)

var errAbsent = errors.New("open: no such library")

// fake is a backend with another name that fails to make rings.
type fake struct{ cutrantt.Backend }

func (fake) Name() string { return "cuda" }

func (fake) NewRing(int, []cutrantt.Modulus, cutrantt.Options) (cutrantt.Ring, error) {
	return nil, errors.New("out of GPU memory")
}

func named(t *testing.T, name string) henc.Parameters {
	t.Helper()
	p, err := henc.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// three are the candidates with a GPU that opens as given.
func three(gpu cutrantt.Backend, err error) []candidate {
	return []candidate{
		{"cuda", true, func(string) ([]cutrantt.Backend, error) { return []cutrantt.Backend{gpu, gpu}, err }},
		{"cpu", true, func(string) ([]cutrantt.Backend, error) { return []cutrantt.Backend{cpu.New()}, nil }},
		{"reference", false, func(string) ([]cutrantt.Backend, error) {
			return []cutrantt.Backend{reference.New()}, nil
		}},
	}
}

// TestOpen: explicit names never fall back, auto does and says why.
func TestOpen(t *testing.T) {
	p := named(t, "edge12-add")
	for _, c := range []struct {
		name string
		want string // name of the backend; "" for an error
		err  error
		note string
	}{
		{"cpu", "cpu", nil, ""},
		{"reference", "reference", nil, ""},
		{"cuda", "", errAbsent, ""},
		{"auto", "cpu", nil, "backend cpu (" + errAbsent.Error() + ")"},
		{"", "", ErrName, ""},
		{"gpu", "", ErrName, ""},
	} {
		var notes []string
		b, err := open(c.name, "", func(m string) { notes = append(notes, m) }, three(nil, errAbsent))
		if c.want == "" {
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), "--backend") {
				t.Errorf("%q: %v, want %v", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		got, err := b.For(p)
		if err != nil || got.Name() != c.want || strings.Join(notes, "\n") != c.note {
			t.Errorf("%q: %v, %v, notes %q", c.name, got, err, notes)
		}
	}
	if _, err := open(Auto, "", nil, three(nil, errAbsent)[:1]); err == nil ||
		!strings.Contains(err.Error(), errAbsent.Error()) {
		t.Errorf("no candidate at all: %v", err)
	}
}

// TestChoice: the faster backend is taken, once per parameter set; one that fails
// is named and left out; an error only when all fail.
func TestChoice(t *testing.T) {
	small, large := named(t, "edge12-add"), named(t, "edge13-d3")
	var notes []string
	b, err := open(Auto, "", func(m string) { notes = append(notes, m) }, three(fake{cpu.New()}, nil))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	b.time = func(c cutrantt.Backend, p henc.Parameters) (time.Duration, error) {
		calls++
		if (c.Name() == "cuda") == (p.LogN() > 12) {
			return time.Millisecond, nil
		}
		return 2 * time.Millisecond, nil
	}
	for range 2 {
		for want, p := range map[string]henc.Parameters{"cpu": small, "cuda": large} {
			if got, err := b.For(p); err != nil || got.Name() != want {
				t.Errorf("%s: %v, %v, want %s", p.Name(), got, err, want)
			}
			if all, err := b.All(p); err != nil || len(all) != map[string]int{"cpu": 1, "cuda": 2}[want] {
				t.Errorf("%s: %d devices, %v", p.Name(), len(all), err)
			}
		}
	}
	if calls != 4 || len(notes) != 2 || !strings.Contains(notes[0]+notes[1],
		"backend cuda for edge13-d3 (measured: cuda 1ms, cpu 2ms)") {
		t.Errorf("%d measurements, notes %q", calls, notes)
	}

	notes = nil
	b, err = open(Auto, "", func(m string) { notes = append(notes, m) }, three(fake{cpu.New()}, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.For(large) // measured for real
	if err != nil || got.Name() != "cpu" || len(notes) != 1 ||
		!strings.Contains(notes[0], "cuda: out of GPU memory, cpu ") {
		t.Errorf("%v, %v, notes %q", got, err, notes)
	}

	b.open, b.chosen = [][]cutrantt.Backend{{fake{}}, {fake{}}}, map[[32]byte][]cutrantt.Backend{}
	if _, err := b.For(small); err == nil || !strings.Contains(err.Error(), "out of GPU memory") {
		t.Errorf("no backend works: %v", err)
	}
}

// TestProbe runs the measurement on sets with and without special primes.
func TestProbe(t *testing.T) {
	for _, set := range []string{"edge12-add", "edge12-d1", "edge13-d3", "edge13-d2p"} {
		if d, err := probe(cpu.New(), named(t, set)); err != nil || d <= 0 {
			t.Errorf("%s: %v, %v", set, d, err)
		}
	}
}

// TestSteps: on machines where a step of opening the GPU fails, auto runs on the
// processor and says which, and cuda fails with the same.
func TestSteps(t *testing.T) {
	t.Setenv("CUTRANTT_AUTOTUNE", "off")
	d := cudatest.New(t)
	lacking := cudatest.New(t, "cuMemAlloc_v2")
	nowhere := filepath.Join(t.TempDir(), "libcuda.so.1")
	for _, c := range []struct {
		library string
		set     []string
		step    string
	}{
		{nowhere, nil, ": open: "},
		{lacking.Library, nil, ": symbol: the CUDA driver has no cuMemAlloc_v2"},
		{d.Library, []string{"fail cuInit 100"}, ": init: cuInit: "},
		{d.Library, []string{"devices 0"}, ": capability: no device 0, this machine has 0"},
		{d.Library, []string{"attribute 75 5"}, ": capability: Fake GPU 0 has compute capability 5.7"},
		{d.Library, []string{"fail cuModuleLoadData 209"}, ": module: "},
		{d.Library, nil, ": self-test: the GPU computes wrong residues"},
	} {
		t.Setenv("CUTRANTT_CUDA_LIBRARY", c.library)
		d.Set(c.set...)
		if _, err := Open("cuda", "", nil); err == nil || !strings.Contains(err.Error(), c.step) ||
			!strings.Contains(err.Error(), "--backend cuda: ") || !errors.Is(err, cutrantt.ErrNotSupported) {
			t.Errorf("cuda: %v, want %q", err, c.step)
		}
		var notes []string
		b, err := Open(Auto, "", func(m string) { notes = append(notes, m) })
		if err != nil || b.First().Name() != "cpu" || len(notes) != 1 ||
			!strings.HasPrefix(notes[0], "backend cpu (cuda: ") || !strings.Contains(notes[0], c.step) {
			t.Errorf("auto: %v, notes %q, want %q", err, notes, c.step)
		}
	}
}

// TestDevices: GPUs are named by number or identifier, one or several.
func TestDevices(t *testing.T) {
	t.Setenv("CUTRANTT_AUTOTUNE", "off")
	d := cudatest.New(t)
	d.Working()
	d.Use()
	const first, second = "GPU-f0f0f0f0-f0f0-f0f0-f0f0-f0f0f0f0f0f0", "GPU-f1f1f1f1-f1f1-f1f1-f1f1-f1f1f1f1f1f1"
	d.Set("devices 2")
	for devices, want := range map[string]string{
		"": "0", "auto": "0", "all": "0 1", "1": "1", "1,0": "1 0", "0, 0": "0", second: "1", "gpu-F1F1": "1", first +
			",1": "0 1",
		"2": "no GPU \"2\", this machine has 2", "GPU-f": "no GPU", "x": "no GPU", ",": "no GPU", "-1": "no GPU",
	} {
		b, err := Open("cuda", devices, nil)
		if err != nil {
			if !strings.Contains(err.Error(), want) || !errors.Is(err, cutrantt.ErrNotSupported) {
				t.Errorf("%q: %v, want %s", devices, err, want)
			}
			continue
		}
		var got []string
		for _, one := range b.open[0] {
			got = append(got, fmt.Sprint(one.(interface{ Ordinal() int }).Ordinal()))
			if again, err := Reopen(one); err != nil || again != one {
				t.Errorf("a device that works is opened anew: %v", err)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: devices %q, want %s", devices, got, want)
		}
	}
}
