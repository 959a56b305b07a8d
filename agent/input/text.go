package input

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hencedge/hencedge/config"
)

// Text takes a number out of a text: by a path in JSON, by a pattern, or the
// text as a whole.
type Text struct {
	path    string
	pattern *regexp.Regexp
}

// NewText takes path and pattern from a source.
func NewText(src config.Source) (Text, error) {
	t := Text{path: src.Path}
	if src.Pattern == "" {
		return t, nil
	}
	re, err := regexp.Compile(src.Pattern)
	if err != nil || re.NumSubexp() != 1 {
		return t, fmt.Errorf("%w: the pattern %q is not a regular expression with one group", ErrNoSensor, src.Pattern)
	}
	t.pattern = re
	return t, nil
}

// JSON reports whether the text must be JSON.
func (t Text) JSON() bool { return t.path != "" }

// Number finds the number. Text that holds none is ErrReading. JSON numbers,
// true and false (1 and 0) and strings that are numbers count.
func (t Text) Number(text string) (float64, error) {
	if len(text) > MaxText {
		return 0, fmt.Errorf("%w: %d bytes of text", ErrReading, len(text))
	}
	if t.path != "" {
		if err := ValidJSON(text); err != nil {
			return 0, err
		}
		return t.InJSON(text)
	}
	return t.parse(text)
}

// parse takes the number out of a text that is no JSON.
func (t Text) parse(text string) (float64, error) {
	if t.pattern == nil {
		return ParseNumber(text)
	}
	m := t.pattern.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%w: nothing matches the pattern", ErrReading)
	}
	return ParseNumber(m[1])
}

// InJSON finds the number at the path in a text that is ValidJSON.
func (t Text) InJSON(text string) (float64, error) {
	switch v := gjson.Get(text, t.path); v.Type {
	case gjson.Number:
		return ParseNumber(v.Raw)
	case gjson.True:
		return 1, nil
	case gjson.False:
		return 0, nil
	case gjson.String:
		return t.parse(v.Str)
	default:
		return 0, fmt.Errorf("%w: no number at %s", ErrReading, t.path)
	}
}

// ParseNumber reads a finite decimal number with spaces around it.
func ParseNumber(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if len(s) > 64 || strings.ContainsAny(s, "xX_pP") { // Go's own notations are no readings
		return 0, notNumber(s)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, notNumber(s)
	}
	return finite(v)
}

func notNumber(s string) error {
	return fmt.Errorf("%w: text of the form %q is not a number", ErrReading, Shape(s))
}
