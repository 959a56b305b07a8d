package testenv

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// SearchMemory calls look with each word of eight bytes that stands at a multiple of
// step bytes in the memory that this process can write to.
func SearchMemory(step int, look func(word uint64)) error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return err
	}
	defer mem.Close()
	buf := make([]byte, 1<<20)
	for line := range strings.Lines(string(maps)) {
		var lo, hi int64
		var perm string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &lo, &hi, &perm); err != nil || !strings.HasPrefix(perm, "rw") {
			continue
		}
		for at := lo; at < hi; at += int64(len(buf)) {
			part := buf[:min(int64(len(buf)), hi-at)]
			if _, err := mem.ReadAt(part, at); err != nil {
				break
			}
			for i := 0; i+8 <= len(part); i += step {
				look(binary.LittleEndian.Uint64(part[i:]))
			}
		}
	}
	return nil
}
