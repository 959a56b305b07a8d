package yamlx

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time; in YAML a number with a unit: "250ms", "1s",
// "1m30s", "2h".
type Duration = time.Duration

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

// ParseDuration reads what time.ParseDuration does, and whole days ("7d").
func ParseDuration(s string) (Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if v, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(v) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(s)
}

// Show returns a value as it is written in a file.
func Show[T int | Size | Duration](v T) string {
	switch x := any(v).(type) {
	case Duration:
		return ShowDuration(x)
	case Size:
		return x.String()
	}
	return fmt.Sprint(v)
}

// ShowDuration writes a duration without the parts that are zero, and with days:
// "24h", "3d", "1m30s".
func ShowDuration(d Duration) string {
	const day = 24 * time.Hour
	if d > day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// unitSlips are the ways in which units are written by mistake.
var unitSlips = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "S": "s", "msec": "ms", "millis": "ms", "usec": "us",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m", "M": "m", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
	"H":   "h",
	"day": "d", "days": "d", "D": "d",
}

// meantDuration returns the duration that a text like "1 sec" means, or "".
func meantDuration(s string) string {
	number, unit := splitUnit(s)
	fixed, ok := unitSlips[unit]
	if !ok && slices.Contains([]string{"ms", "us", "s", "m", "h", "d"}, unit) {
		fixed, ok = unit, true // spaces between
	}
	if _, err := ParseDuration(number + fixed); !ok || err != nil {
		return ""
	}
	return number + fixed
}

// meantSize returns the size that a text like "10M" means, or "".
func meantSize(s string) string {
	number, unit := splitUnit(s)
	for _, u := range sizeUnits {
		same := strings.EqualFold(unit, u.name) || strings.EqualFold(unit+"iB", u.name) || strings.EqualFold(unit+"B",
			u.name)
		if _, err := ParseSize(number + u.name); same && unit != "" && err == nil {
			return number + u.name
		}
	}
	return ""
}

// splitUnit takes "10 sec" apart.
func splitUnit(s string) (number, unit string) {
	s = strings.TrimSpace(s)
	i := strings.LastIndexAny(s, "0123456789.") + 1
	return strings.TrimSpace(s[:i]), strings.TrimSpace(s[i:])
}
