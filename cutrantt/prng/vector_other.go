//go:build !amd64

package prng

// There is no vector code for this GOARCH.

func vectorized() bool { return false }

func vectorWords([]uint32, *[32]byte, uint32, uint32, uint32, int) {}

func vectorUniform([]uint32, *[32]byte, uint32, uint32, uint32, uint32) {}

func vectorSmall([]int32, *[32]byte, uint32, bool) {}
