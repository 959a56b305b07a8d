// Package simd says which vector code the packages below henc run, by the same
// environment variable as package cutrantt/cpu.
package simd

import (
	"os"
	"slices"
	"sync"
)

// Names of vector code.
const (
	AVX512  = "avx512" // F, BW, DQ and VL
	AVX2    = "avx2"
	NEON    = "neon"
	Generic = "generic"
)

// Selected is the name of the code to run: what CUTRANTT_CPU says if this machine
// has it, plain Go for any other value, and the best without one. It is read once.
var Selected = sync.OnceValue(func() string {
	names := Have()
	name := os.Getenv("CUTRANTT_CPU")
	switch {
	case name == "":
		return names[0]
	case slices.Contains(names, name):
		return name
	default:
		return Generic
	}
})

// Have are the names of the code that this machine can run, best first; Generic is
// the last and always there.
func Have() []string { return append(vector(), Generic) }
