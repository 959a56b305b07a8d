package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Duration is a length of time; in YAML a number with a unit: "250ms", "1s",
// "1m30s", "2h".
type Duration = time.Duration

// Size is a number of bytes; in YAML a number with a unit: "112KiB", "1MB",
// "4096B".
type Size = yamlx.Size

// Sizes.
const (
	KiB = yamlx.KiB
	MiB = yamlx.MiB
	GiB = yamlx.GiB
)

// ParseSize reads a size such as "112KiB". A bare number is refused, because
// nobody can tell whether it means bytes or kilobytes.
func ParseSize(s string) (Size, error) { return yamlx.ParseSize(s) }

// formatOf is the replay format that a file's extension suggests, or "".
func formatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv", ".tsv":
		return "csv"
	case ".ndjson", ".jsonl":
		return "ndjson"
	}
	return ""
}

// ReplayFactor is how many times faster than the timestamps a replay runs:
// 1 for "realtime", 0 for "fast" (no waiting), f for "fx".
func (r Replay) ReplayFactor() (float64, error) {
	switch r.Speed {
	case "", "realtime":
		return 1, nil
	case "fast":
		return 0, nil
	}
	num, ok := strings.CutSuffix(r.Speed, "x")
	f, err := strconv.ParseFloat(num, 64)
	if !ok || err != nil || !(f > 0) || f > 1e6 {
		return 0, fmt.Errorf("invalid speed %q", r.Speed)
	}
	return f, nil
}

// sortedKeys gives the keys of m in a fixed order.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
