package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// show writes a value as it is written in a file.
func show[T int | Size | Duration](v T) string {
	switch x := any(v).(type) {
	case Duration:
		return showDuration(x)
	case Size:
		return x.String()
	}
	return fmt.Sprint(v)
}

// showDuration is Duration.String without the parts that are zero, and with days:
// "24h", "3d", "1m30s".
func showDuration(d Duration) string {
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

// longestQuote is the most bytes of the file that a cause repeats; the line itself
// stands below it.
const longestQuote = 64

// quote is %q of a text that is cut where it is long.
func quote(s string) string {
	if len(s) > longestQuote {
		return strconv.Quote(strings.ToValidUTF8(s[:longestQuote], "")) + "..."
	}
	return strconv.Quote(s)
}

// plural is "1 channel", "2 channels".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// unitSlips are the ways in which units are written by mistake.
var unitSlips = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "S": "s", "msec": "ms", "millis": "ms", "usec": "us",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m", "M": "m", "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "H": "h",
	"day": "d", "days": "d", "D": "d",
}

// meantDuration is the duration that a text like "1 sec" means, or "".
func meantDuration(s string) string {
	number, unit := splitUnit(s)
	fixed, ok := unitSlips[unit]
	if !ok && slices.Contains([]string{"ms", "us", "s", "m", "h", "d"}, unit) {
		fixed, ok = unit, true // spaces between
	}
	if _, err := parseDuration(number + fixed); !ok || err != nil {
		return ""
	}
	return number + fixed
}

// meantSize is the size that a text like "10M" means, or "".
func meantSize(s string) string {
	number, unit := splitUnit(s)
	for _, u := range sizeUnits {
		same := strings.EqualFold(unit, u.name) || strings.EqualFold(unit+"iB", u.name) || strings.EqualFold(unit+"B", u.name)
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
