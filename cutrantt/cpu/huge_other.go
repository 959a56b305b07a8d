//go:build !linux

package cpu

func hugePages([]uint32) {}
func collapse([]uint32)  {}
