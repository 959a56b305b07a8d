package simd

import "golang.org/x/sys/cpu"

func vector() (names []string) {
	if x := &cpu.X86; x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		names = append(names, AVX512)
	}
	if cpu.X86.HasAVX2 {
		names = append(names, AVX2)
	}
	return names
}
