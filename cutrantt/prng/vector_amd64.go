package prng

import (
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C ../cpu/_asm ./prng -out ../../prng/zvector_amd64.s -stubs ../../prng/zvector_amd64.go -pkg prng

// code is a variant of the vector code; generic stands for plain Go.
type code string

const (
	generic code = "generic"
	avx512  code = "avx512"
	avx2    code = "avx2"
)

// variants are the codes that this machine can run, best first.
func variants() (have []code) {
	if x := &cpu.X86; x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VPOPCNTDQ {
		have = append(have, avx512)
	}
	if cpu.X86.HasAVX2 {
		have = append(have, avx2)
	}
	return append(have, generic)
}

// selected is the code that runs: the best one, or with CUTRANTT_CPU as in package
// cpu the best one from the named one on. (A processor can have the AVX-512 of package
// cpu without the counts of ones that the code here needs.)
var selected = sync.OnceValue(func() code {
	order := []code{avx512, avx2, generic}
	name := code(os.Getenv("CUTRANTT_CPU"))
	have := variants()
	for _, c := range order[max(slices.Index(order, name), 0):] {
		if slices.Contains(have, c) {
			return c
		}
	}
	return generic
})

// few and many are the blocks of a group: few of again, many of the others.
func (c code) few() int {
	if c == avx2 {
		return 8
	}
	return 16
}

func (c code) many() int {
	if c == avx2 {
		return 8
	}
	return 32
}

func (c code) uniform(dst *uint32, groups int, s *source, rejected *byte) {
	if c == avx2 {
		uniformAVX2(dst, groups, &s.state[0], rejected)
		return
	}
	uniformAVX512(dst, groups, &s.state[0], rejected)
}

func (c code) again(dst *uint32, groups int, s *source, rejected *byte) {
	if c == avx2 {
		uniformAVX2(dst, groups, &s.state[0], rejected)
		return
	}
	againAVX512(dst, groups, &s.state[0], rejected)
}

func (c code) retry(dst, src, blocks *uint32, n int, left *uint32) (still int) {
	if c == avx2 {
		return retryAVX2(dst, src, blocks, n, left)
	}
	return retryAVX512(dst, src, blocks, n, left)
}

func (c code) ternary(dst *int32, groups int, s *source) {
	if c == avx2 {
		ternaryAVX2(dst, groups, &s.state[0])
		return
	}
	ternaryAVX512(dst, groups, &s.state[0])
}

func (c code) cbd(dst *int32, groups int, s *source) {
	if c == avx2 {
		cbdAVX2(dst, groups, &s.state[0])
		return
	}
	cbdAVX512(dst, groups, &s.state[0])
}
