package results

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What "results serve" and "results query" do.
const (
	serveShort = "keep decrypted results in a database"
	queryShort = "print results from the database"
)

// parseTime reads a point in time: RFC 3339, a date of this machine's time zone, or how long
// before now, such as "90m" or "7d". "" is the zero time.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= maxDays {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is no point in time: use 2026-11-23T22:00:00Z, 2026-11-23, 36h or 7d", text)
}

const maxDays = 100 * 365
