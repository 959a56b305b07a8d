package prng

import (
	"os"
	"sync"

	"golang.org/x/sys/cpu"
)

// code is a variant of the vector code; generic stands for plain Go.
type code string

const (
	generic code = "generic"
	neon    code = "neon"
)

// variants are the codes that this machine can run, best first.
func variants() (have []code) {
	if cpu.ARM64.HasASIMD {
		have = append(have, neon)
	}
	return append(have, generic)
}

// selected is the code that runs: the best one, or what CUTRANTT_CPU names as in
// package cpu, if this machine has it.
var selected = sync.OnceValue(func() code {
	name := code(os.Getenv("CUTRANTT_CPU"))
	for _, c := range variants() {
		if name == "" || name == c {
			return c
		}
	}
	return generic
})

// few and many are the blocks of a group: few of again, many of the others.
func (c code) few() int { return 4 }

func (c code) many() int { return 8 }

func (c code) uniform(dst *uint32, groups int, s *source, rejected *byte) {
	uniformNEON(dst, groups, &s.state[0], rejected)
}

func (c code) again(dst *uint32, groups int, s *source, rejected *byte) {
	againNEON(dst, groups, &s.state[0], rejected)
}

func (c code) retry(dst, src, blocks *uint32, n int, left *uint32) (still int) {
	return retryNEON(dst, src, blocks, n, left)
}

func (c code) ternary(dst *int32, groups int, s *source) { ternaryNEON(dst, groups, &s.state[0]) }

func (c code) cbd(dst *int32, groups int, s *source) { cbdNEON(dst, groups, &s.state[0]) }
