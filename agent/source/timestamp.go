package source

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// timestamp reads the times of a replay file.
type timestamp struct {
	format  string
	layouts []string // none: the format has a name
	zone    *time.Location
}

func newTimestamp(cfg config.Replay) (t timestamp, err error) {
	t.format = cfg.TimeFormat
	if t.layouts, _, err = config.TimeLayouts(cfg.TimeFormat); err != nil {
		return t, err
	}
	t.zone, err = cfg.Location()
	return t, err
}

// parse reads a timestamp. In the hour that a clock repeats when it is set back, times
// that would otherwise be before last are those of the second pass.
func (s timestamp) parse(text string, last time.Time, ordered bool) (time.Time, error) {
	if len(s.layouts) == 0 {
		return parseTime(text, s.format)
	}
	text = trimCell(text)
	if text == "" {
		return time.Time{}, errors.New("the timestamp is missing")
	}
	for _, layout := range s.layouts {
		at, err := time.ParseInLocation(layout, text, s.zone)
		if err != nil {
			continue
		}
		if unix := at.Unix(); unix >= maxSeconds || unix <= -maxSeconds {
			return time.Time{}, errors.New("the time is out of range, 1678 to 2262")
		}
		first, second := passes(at)
		if ordered && first.Before(last) {
			first = second
		}
		return first.UTC(), nil
	}
	return time.Time{}, fmt.Errorf("text of the form %q is not a time of the format %q", input.Shape(text), s.format)
}

// passes returns the two times at which a clock shows what it shows at a time, in order:
// mostly the same one twice. Clocks are set back by up to an hour.
func passes(at time.Time) (first, second time.Time) {
	const clock = "2006-01-02T15:04:05"
	first, second = at, at
	for _, d := range []time.Duration{30 * time.Minute, time.Hour} {
		if other := at.Add(-d); other.Format(clock) == at.Format(clock) {
			first = other
		}
		if other := at.Add(d); other.Format(clock) == at.Format(clock) {
			second = other
		}
	}
	return first, second
}

// Times are kept in nanoseconds of Unix time in 64 bits: 1678 to 2262.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// parseTime reads a timestamp exactly, without going through a float.
func parseTime(text, format string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, errors.New("the timestamp is missing")
	}
	if format == "rfc3339" {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return time.Time{}, fmt.Errorf("text of the form %q is not a time such as 2026-01-31T15:04:05.25Z",
				input.Shape(text))
		}
		if s := t.Unix(); s >= maxSeconds || s <= -maxSeconds {
			return time.Time{}, fmt.Errorf("the time is out of range, 1678 to 2262")
		}
		return t.UTC(), nil
	}
	unit := map[string]int64{"unix": 1e9, "unix_ms": 1e6, "unix_ns": 1}[format]
	if unit == 0 {
		return time.Time{}, fmt.Errorf("unknown time format %q", format)
	}
	ns, ok := decimal(text, unit)
	if !ok {
		return time.Time{}, fmt.Errorf("text of the form %q is not a %s timestamp", input.Shape(text), format)
	}
	return time.Unix(0, ns).UTC(), nil
}

// decimal reads "[-]digits[.digits]" times unit, cutting digits below one.
func decimal(text string, unit int64) (int64, bool) {
	rest, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(rest, ".")
	w, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || int64(w) > math.MaxInt64/unit-1 {
		return 0, false
	}
	ns := int64(w) * unit
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, false
		}
		unit /= 10
		ns += int64(c-'0') * unit
	}
	if negative {
		ns = -ns
	}
	return ns, true
}
