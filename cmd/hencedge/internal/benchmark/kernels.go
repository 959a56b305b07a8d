package benchmark

import (
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/meter"
)

// KernelRecord is a line about a compiled kernel that ran: what one thread and
// one block of it take, and how full a multiprocessor gets.
type KernelRecord struct {
	Op           string  `json:"op"`     // "kernel"
	Method       string  `json:"method"` // its name
	Backend      string  `json:"backend"`
	Device       string  `json:"device"`
	Architecture int     `json:"architecture"` // compute capability of the machine code, times 10
	Registers    int     `json:"registers"`    // a thread
	LocalBytes   int     `json:"local_bytes"`  // a thread: spilled registers and arrays
	SharedBytes  int     `json:"shared_bytes"` // a block
	Threads      int     `json:"threads"`      // a block
	Blocks       int     `json:"blocks"`       // that a multiprocessor holds
	Occupancy    float64 `json:"occupancy"`    // threads that it holds, of those that it could
	Launches     uint64  `json:"launches"`     // in the whole run
}

// ChoiceRecord is a line about a Hadamard method that the backend chose.
type ChoiceRecord struct {
	Op      string `json:"op"`     // "choice"
	Method  string `json:"method"` // the method
	Backend string `json:"backend"`
	Device  string `json:"device"`
	LogN    int    `json:"logN"`
	N2      int    `json:"n2"`
	Source  string `json:"source"` // "default", "measured" or "cached"
}

// Kernels are the kernels of b that ran in this process, and the methods that
// it chose; none for backends that do not tell.
func Kernels(b cutrantt.Backend) (kernels []KernelRecord, choices []ChoiceRecord, err error) {
	if p, ok := b.(meter.Profiler); ok {
		list, err := p.Kernels()
		if err != nil {
			return nil, nil, err
		}
		for _, k := range list {
			kernels = append(kernels, KernelRecord{"kernel", k.Name, b.Name(), b.Device(), k.Architecture, k.Registers,
				k.LocalBytes,
				k.SharedBytes, k.Threads, k.Blocks, k.Occupancy, k.Launches})
		}
	}
	if t, ok := b.(cutrantt.Tuner); ok {
		for _, c := range t.Choices() {
			choices = append(choices, ChoiceRecord{"choice", c.Method.String(), b.Name(), b.Device(), c.LogN,
				c.N2, c.Source})
		}
	}
	return kernels, choices, nil
}
