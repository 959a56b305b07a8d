package simd

import "golang.org/x/sys/cpu"

func vector() (names []string) {
	if cpu.ARM64.HasASIMD {
		names = append(names, NEON)
	}
	return names
}
