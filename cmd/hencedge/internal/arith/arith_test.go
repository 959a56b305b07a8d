package arith

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
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
		{"cuda", true, func() (cutrantt.Backend, error) { return gpu, err }},
		{"cpu", true, func() (cutrantt.Backend, error) { return cpu.New(), nil }},
		{"reference", false, func() (cutrantt.Backend, error) { return reference.New(), nil }},
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
		b, err := open(c.name, func(m string) { notes = append(notes, m) }, three(nil, errAbsent))
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
	if _, err := open(Auto, nil, three(nil, errAbsent)[:1]); err == nil || !strings.Contains(err.Error(), errAbsent.Error()) {
		t.Errorf("no candidate at all: %v", err)
	}
}

// TestChoice: the faster backend is taken, once per parameter set; one that fails
// is named and left out; an error only when all fail.
func TestChoice(t *testing.T) {
	small, large := named(t, "edge12-add"), named(t, "edge13-d3")
	var notes []string
	b, err := open(Auto, func(m string) { notes = append(notes, m) }, three(fake{cpu.New()}, nil))
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
		}
	}
	if calls != 4 || len(notes) != 2 || !strings.Contains(notes[0]+notes[1], "backend cuda for edge13-d3 (measured: cuda 1ms, cpu 2ms)") {
		t.Errorf("%d measurements, notes %q", calls, notes)
	}

	notes = nil
	b, err = open(Auto, func(m string) { notes = append(notes, m) }, three(fake{cpu.New()}, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.For(large) // measured for real
	if err != nil || got.Name() != "cpu" || len(notes) != 1 || !strings.Contains(notes[0], "cuda: out of GPU memory, cpu ") {
		t.Errorf("%v, %v, notes %q", got, err, notes)
	}

	b.open, b.chosen = []cutrantt.Backend{fake{}, fake{}}, map[[32]byte]cutrantt.Backend{}
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
