// Package arith opens the arithmetic backends of the command line and chooses
// one for each parameter set.
package arith

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/cutrantt/reference"
	"github.com/hencedge/hencedge/henc"
)

// Auto is the name that leaves the choice to a measurement.
const Auto = "auto"

// Help is the text of every --backend flag.
const Help = "arithmetic: auto, cpu, cuda (NVIDIA GPU) or reference (slow, for checking)"

// ErrName: no backend has this name.
var ErrName = errors.New("use auto, cpu, cuda or reference")

// DeviceHelp is the text of every --device flag.
const DeviceHelp = "GPUs to use: auto (the first), all, or numbers and identifiers (GPU-...) separated by commas"

// Note reports a decision to a person or a log.
type Note func(message string)

// candidate is a backend that a name stands for, before it is opened: on
// several devices, one for each.
type candidate struct {
	name string
	auto bool // auto may choose it
	open func(devices string) ([]cutrantt.Backend, error)
}

// candidates returns the backends to try. If two are equally fast, auto takes the first.
func candidates() []candidate {
	one := func(b cutrantt.Backend) func(string) ([]cutrantt.Backend, error) {
		return func(string) ([]cutrantt.Backend, error) { return []cutrantt.Backend{b}, nil }
	}
	return []candidate{
		{"cuda", true, gpus},
		{"cpu", true, one(cpu.New())},
		{"reference", false, one(reference.New())},
	}
}

// gpus opens the GPUs that a list names.
func gpus(devices string) ([]cutrantt.Backend, error) {
	ordinals, err := cuda.Select(devices)
	if err != nil {
		return nil, err
	}
	var out []cutrantt.Backend
	for _, o := range ordinals {
		b, err := cuda.Open(o)
		if err != nil {
			if len(ordinals) > 1 {
				err = fmt.Errorf("device %d: %w", o, err)
			}
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// Reopen opens the device of a backend anew, after it failed.
func Reopen(b cutrantt.Backend) (cutrantt.Backend, error) {
	if d, ok := b.(interface{ Ordinal() int }); ok {
		return cuda.Open(d.Ordinal())
	}
	return b, nil
}

// Backends gives each parameter set its backend. It is safe for concurrent use.
type Backends struct {
	open [][]cutrantt.Backend // at least one; each with at least one device
	note Note
	time func(cutrantt.Backend, henc.Parameters) (time.Duration, error)

	mu     sync.Mutex
	chosen map[[32]byte][]cutrantt.Backend // by the parameters' hash
}

// Open opens what name asks for, on the GPUs that devices names (see
// cuda.Select; it says nothing about other backends). An explicit name never
// falls back to another backend: its error, which for cuda names the step that
// failed, is returned. Auto takes what this machine has and notes why it has not
// the rest. It fails with ErrName for an unknown name.
func Open(name, devices string, note Note) (*Backends, error) {
	return open(name, devices, note, candidates())
}

func open(name, devices string, note Note, all []candidate) (*Backends, error) {
	if note == nil {
		note = func(string) {}
	}
	b := &Backends{note: note, time: probe, chosen: make(map[[32]byte][]cutrantt.Backend)}
	var refused []string
	known := name == Auto
	for _, c := range all {
		if c.name != name && (name != Auto || !c.auto) {
			continue
		}
		known = true
		backends, err := c.open(devices)
		switch {
		case err == nil:
			b.open = append(b.open, backends)
		case name != Auto:
			return nil, fmt.Errorf("--backend %s: %w", name, err)
		default:
			refused = append(refused, err.Error())
		}
	}
	switch {
	case !known:
		return nil, fmt.Errorf("--backend %q: %w", name, ErrName)
	case len(b.open) == 0:
		return nil, fmt.Errorf("--backend %s: no backend is usable: %s", name, strings.Join(refused, "; "))
	case len(refused) > 0:
		note(fmt.Sprintf("backend %s (%s)", b.First().Name(), strings.Join(refused, "; ")))
	}
	return b, nil
}

// First returns the backend that was asked for, or, for auto, the one that it prefers
// without measuring.
func (b *Backends) First() cutrantt.Backend { return b.open[0][0] }

// For returns the backend for a parameter set; with several devices, the first.
func (b *Backends) For(p henc.Parameters) (cutrantt.Backend, error) {
	all, err := b.All(p)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// All returns the backends for a parameter set: one, or one for each GPU. If there are
// several kinds, it times the first of each once on the work for a window, keeps the
// fastest and notes that. It notes and leaves out those that fail, and fails if all do.
func (b *Backends) All(p henc.Parameters) ([]cutrantt.Backend, error) {
	if len(b.open) == 1 {
		return b.open[0], nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.chosen[p.Hash()]; c != nil {
		return c, nil
	}
	var best []cutrantt.Backend
	var least time.Duration
	var outcomes []string
	var failed []error
	for _, c := range b.open {
		name := c[0].Name()
		d, err := b.time(c[0], p)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			failed = append(failed, err)
			outcomes = append(outcomes, err.Error())
			continue
		}
		outcomes = append(outcomes, fmt.Sprintf("%s %v", name, d.Round(time.Microsecond)))
		if best == nil || d < least {
			best, least = c, d
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no backend can run %s: %w", p.Name(), errors.Join(failed...))
	}
	b.note(fmt.Sprintf("backend %s for %s (measured: %s)", best[0].Name(), p.Name(), strings.Join(outcomes, ", ")))
	b.chosen[p.Hash()] = best
	return best, nil
}

// GPUs returns the identifiers (GPU-...) of those backends that are GPUs.
func GPUs(list []cutrantt.Backend) (uuids []string, err error) {
	for _, b := range list {
		d, ok := b.(interface{ Ordinal() int })
		if !ok {
			continue
		}
		devices, err := cuda.Devices()
		if err != nil {
			return nil, err
		}
		uuids = append(uuids, devices[d.Ordinal()].UUID)
	}
	return uuids, nil
}
