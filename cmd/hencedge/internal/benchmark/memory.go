package benchmark

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// defaultCache is assumed where the kernel does not tell the cache's size.
const defaultCache = 32 << 20

// lastLevelCache is the size in bytes of the largest cache below root, which
// is /sys/devices/system/cpu/cpu0/cache on Linux.
func lastLevelCache(root string) int64 {
	var largest int64
	files, err := filepath.Glob(filepath.Join(root, "index*", "size"))
	if err != nil {
		return defaultCache
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		largest = max(largest, parseSize(strings.TrimSpace(string(b))))
	}
	if largest == 0 {
		return defaultCache
	}
	return largest
}

// parseSize reads sysfs sizes such as "32768K"; 0 when it is something else.
func parseSize(s string) int64 {
	unit := int64(1)
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'K':
			unit, s = 1<<10, s[:n-1]
		case 'M':
			unit, s = 1<<20, s[:n-1]
		case 'G':
			unit, s = 1<<30, s[:n-1]
		}
	}
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil || v < 0 {
		return 0
	}
	return v * unit
}

// setCount is how many sets of footprint bytes are needed to exceed twice the
// cache, at most what limit bytes hold, at least one.
func setCount(footprint, cache, limit int64) int {
	if footprint <= 0 {
		return 1
	}
	want := 2*cache/footprint + 1
	return int(max(1, min(want, limit/footprint)))
}
