package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// namedTimes are the time formats that have a name.
var namedTimes = []string{"rfc3339", "unix", "unix_ms", "unix_ns"}

// strftime gives the elements of Go's layouts for the verbs of strftime that name one.
// Go's parser checks what it reads (no 31 February) and takes any number of digits after
// the second, which libraries for strptime do not.
var strftime = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "1", 'd': "2", 'e': "_2", 'j': "002", 'b': "Jan", 'h': "Jan", 'B': "January",
	'a': "Mon",
	'A': "Monday",
	'H': "15", 'I': "3", 'p': "PM", 'M': "04", 'S': "05", 'z': "Z0700",
	'F': "2006-1-2", 'D': "1/2/06", 'T': "15:04:05", 'R': "15:04",
}

// TimeLayouts returns the layouts of package time that a time format stands for; a timestamp
// matches one of them. A format is a layout itself or has the verbs of strftime. A format
// with a name has no layouts. zoned reports whether timestamps carry their own zone.
func TimeLayouts(format string) (layouts []string, zoned bool, err error) {
	if slices.Contains(namedTimes, format) {
		return nil, true, nil
	}
	layout := format
	if strings.Contains(format, "%") {
		if layout, err = fromStrftime(format); err != nil {
			return nil, false, err
		}
	}
	zoned = varies(layout, time.UTC, time.FixedZone("", 5400))
	// All elements different, so that a layout that lacks one, or has it twice, shows.
	sample := time.Date(2031, 11, 29, 14, 35, 47, 0, time.UTC)
	got, err := time.Parse(layout, sample.Format(layout))
	if err != nil || !slices.ContainsFunc([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour},
		func(d time.Duration) bool {
			return got.Equal(sample.Truncate(d))
		}) {
		return nil, false, errors.New("it gives no date: it needs year, month and day, and AM or PM with 12-hour times")
	}
	layouts = []string{layout}
	if strings.Contains(layout, "Z0700") { // strftime's %z
		layouts = append(layouts, strings.Replace(layout, "Z0700", "Z07:00", 1), strings.Replace(layout, "Z0700",
			"Z07", 1))
	}
	return layouts, zoned, nil
}

// varies reports whether a layout shows the time zone.
func varies(layout string, a, b *time.Location) bool {
	at := func(l *time.Location) string { return time.Date(2031, 11, 29, 14, 35, 47, 0, l).Format(layout) }
	return at(a) != at(b)
}

// fromStrftime translates the verbs of strftime.
func fromStrftime(format string) (string, error) {
	var out, text strings.Builder
	literal := func() error {
		s := text.String()
		text.Reset()
		for _, t := range []time.Time{{}, time.Date(2031, 11, 29, 14, 35, 47, 123456789, time.FixedZone("XYZ", 5400))} {
			if t.Format(s) != s {
				return fmt.Errorf("it cannot contain the text %q", s)
			}
		}
		out.WriteString(s)
		return nil
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			text.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", errors.New("it ends with a single %")
		}
		v := format[i]
		if v == 'f' { // a fraction of any length follows the second by itself
			if s := text.String(); !strings.HasSuffix(out.String(), "05") || s != "." && s != "," {
				return "", errors.New("%f must follow %S and a point or comma")
			}
			out.WriteString(text.String() + "999999999")
			text.Reset()
			continue
		}
		if v == '%' {
			text.WriteByte('%')
			continue
		}
		if err := literal(); err != nil {
			return "", err
		}
		element, ok := strftime[v]
		if !ok {
			return "", fmt.Errorf("%%%c is not known; known are %%Y %%y %%m %%d %%e %%j %%b %%B %%a %%A %%H %%I %%p "+
				"%%M %%S %%f %%z %%F %%D %%T %%R %%%%", v)
		}
		out.WriteString(element)
	}
	return out.String(), literal()
}

// Location returns the time zone of timestamps that carry none: a name, Local, or an offset.
func (r Replay) Location() (*time.Location, error) {
	if t, err := time.Parse("Z07:00", r.Timezone); err == nil {
		_, offset := t.Zone()
		return time.FixedZone(r.Timezone, offset), nil
	}
	if r.Timezone == "" {
		return time.UTC, nil
	}
	return time.LoadLocation(r.Timezone)
}

// ReplayFactor returns how many times faster than the timestamps a replay runs:
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
