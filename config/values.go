package config

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes; in YAML a number with a unit: "112KiB", "1MB",
// "4096B".
type Size int64

// Sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

var sizeUnits = []struct {
	name string
	mult int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// ParseSize reads a size such as "112KiB". A bare number is refused, because
// nobody can tell whether it means bytes or kilobytes.
func ParseSize(s string) (Size, error) {
	for _, u := range sizeUnits {
		num, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		num = strings.TrimSpace(num)
		v, err := strconv.ParseFloat(num, 64)
		if err != nil || math.IsNaN(v) || strings.ContainsAny(num, "xX_pPnN") { // Go's own notations are no sizes
			return 0, fmt.Errorf("invalid size %q", s)
		}
		v *= float64(u.mult)
		if v < 0 || v > 1<<50 {
			return 0, fmt.Errorf("size %q is out of range", s)
		}
		if v != math.Trunc(v) {
			return 0, fmt.Errorf("size %q is not a whole number of bytes", s)
		}
		return Size(v), nil
	}
	if s == "" || s[len(s)-1] >= '0' && s[len(s)-1] <= '9' {
		return 0, fmt.Errorf("size %q has no unit", s)
	}
	return 0, fmt.Errorf("size %q has an unknown unit", s)
}

// String writes the size with the largest binary unit that divides it.
func (s Size) String() string {
	switch {
	case s != 0 && s%GiB == 0:
		return fmt.Sprintf("%dGiB", s/GiB)
	case s != 0 && s%MiB == 0:
		return fmt.Sprintf("%dMiB", s/MiB)
	case s != 0 && s%KiB == 0:
		return fmt.Sprintf("%dKiB", s/KiB)
	}
	return fmt.Sprintf("%dB", int64(s))
}

// parseDuration is time.ParseDuration with the day as a further unit ("7d").
func parseDuration(s string) (Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if v, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(v) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(s)
}

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
