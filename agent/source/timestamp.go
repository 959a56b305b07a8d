package source

import (
	"errors"
	"fmt"
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

// columnLetters is the name that spreadsheets give a column, from 0: A, ..., Z, AA, ...
func columnLetters(n int) string {
	var b strings.Builder
	if n >= 26 {
		b.WriteString(columnLetters(n/26 - 1))
	}
	b.WriteByte(byte('A' + n%26))
	return b.String()
}
