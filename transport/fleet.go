package transport

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
)

// MaxFleet is the most windows that a result across devices is computed from.
const MaxFleet = 1 << 16

// Fleet says what a result across the devices of a class was computed from.
type Fleet struct {
	Devices uint32   // that have at least one of the windows, 1 to Windows
	Windows uint32   // 1 to MaxFleet
	Samples uint64   // per channel, of all windows together; MaxSamples a window at most
	Digest  [32]byte // InputsDigest of the ids of all windows
}

// InputsDigest returns the SHA-256 of ids in ascending order. The order of ids does not
// matter, and they stay as they are.
func InputsDigest(ids [][32]byte) [32]byte {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	h := sha256.New()
	for i := range ids {
		h.Write(ids[i][:])
	}
	return [32]byte(h.Sum(nil))
}

func compareIDs(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) }

// SetFleet makes m the header of a result over the windows with these ids, of so many
// devices and samples. It lists the ids if they are few enough.
func (m *Meta) SetFleet(ids [][32]byte, devices int, samples uint64) {
	m.Fleet = &Fleet{Devices: uint32(devices), Windows: uint32(len(ids)), Samples: samples, Digest: InputsDigest(ids)}
	m.Inputs = nil
	if len(ids) <= MaxInputs {
		m.Inputs = slices.Clone(ids)
		slices.SortFunc(m.Inputs, compareIDs)
	}
}

// validate checks f against the list of inputs, which has all windows or none.
func (f *Fleet) validate(inputs [][32]byte) error {
	n := uint64(f.Windows)
	switch {
	case n < 1 || n > MaxFleet || f.Devices < 1 || uint64(f.Devices) > n:
		return fmt.Errorf("%w: header: %d windows of %d devices, want 1 to %d and no more devices", ErrMalformed,
			f.Windows, f.Devices, MaxFleet)
	case f.Samples < n || f.Samples > n*MaxSamples:
		return fmt.Errorf("%w: header: %d samples in %d windows", ErrMalformed, f.Samples, f.Windows)
	case n <= MaxInputs && uint64(len(inputs)) != n, n > MaxInputs && len(inputs) > 0:
		return fmt.Errorf("%w: header: a list of %d inputs for %d windows", ErrMalformed, len(inputs), f.Windows)
	case len(inputs) == 0:
		return nil
	}
	for i := range inputs[1:] {
		if compareIDs(inputs[i], inputs[i+1]) >= 0 {
			return fmt.Errorf("%w: header: inputs out of order", ErrMalformed)
		}
	}
	if InputsDigest(inputs) != f.Digest {
		return fmt.Errorf("%w: header: the digest is not that of the inputs", ErrMalformed)
	}
	return nil
}
