package serial

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// sentence is an NMEA 0183 sentence whose checksum is right.
type sentence struct {
	kind   string   // three letters after the talker
	fields []string // after the type
}

// parseNMEA reads "$GPGGA,...*hh". The checksum is the exclusive or of the
// characters between '$' (or '!') and '*', in two hexadecimal digits.
func parseNMEA(line string) (sentence, error) {
	line = strings.TrimSpace(line)
	body, sum, ok := strings.Cut(line, "*")
	if !ok || len(body) < 2 || body[0] != '$' && body[0] != '!' {
		return sentence{}, fmt.Errorf("%w: no NMEA sentence with a checksum, but text of the form %q",
			input.ErrReading, input.Shape(line))
	}
	body = body[1:]
	want, err := strconv.ParseUint(sum, 16, 8)
	if err != nil || len(sum) != 2 {
		return sentence{}, fmt.Errorf("%w: no NMEA checksum in text of the form %q", input.ErrReading,
			input.Shape(line))
	}
	var have byte
	for i := range len(body) {
		have ^= body[i]
	}
	if have != byte(want) {
		return sentence{}, fmt.Errorf("%w: the NMEA checksum does not match the sentence", input.ErrReading)
	}
	parts := strings.Split(body, ",")
	if len(parts[0]) != 5 {
		return sentence{}, nil // proprietary: no talker and type
	}
	return sentence{parts[0][2:], parts[1:]}, nil
}

// named are the fields that have a name, counted from 1: the value, and for
// coordinates the hemisphere after it. Those are config.NMEAFields.
var named = map[string]map[string]int{
	"GGA": {"lat": 2, "lon": 4, "satellites": 7, "hdop": 8, "altitude": 9},
	"RMC": {"lat": 3, "lon": 5, "speed": 7, "course": 8},
	"GLL": {"lat": 1, "lon": 3},
	"VTG": {"course": 1, "speed": 5},
}

// invalid says which field tells that there is no fix, and what it then says.
var invalid = map[string]struct {
	field int
	text  string
}{"GGA": {6, "0"}, "RMC": {2, "V"}, "GLL": {6, "V"}}

// at returns the text of a field counted from 1, "" where there is none.
func (s sentence) at(i int) string {
	if i < 1 || i > len(s.fields) {
		return ""
	}
	return s.fields[i-1]
}

// number reads a field by its number or name.
func (s sentence) number(field string) (float64, error) {
	if i, err := strconv.Atoi(field); err == nil {
		return input.ParseNumber(s.at(i))
	}
	i, ok := named[s.kind][field]
	if !ok {
		return 0, fmt.Errorf("%w: %s has no field %s", input.ErrReading, s.kind, field)
	}
	if v, ok := invalid[s.kind]; ok && s.at(v.field) == v.text {
		return 0, fmt.Errorf("%w: no fix", input.ErrReading)
	}
	if field == "lat" || field == "lon" {
		return degrees(s.at(i), s.at(i+1), field == "lon")
	}
	return input.ParseNumber(s.at(i))
}

// degrees reads ddmm.mmmm or, for a longitude, dddmm.mmmm, and a hemisphere.
func degrees(text, hemisphere string, lon bool) (float64, error) {
	digits, most := 2, 90.0
	if lon {
		digits, most = 3, 180
	}
	bad := fmt.Errorf("%w: text of the form %q is not a coordinate", input.ErrReading, input.Shape(text))
	if len(text) < digits+2 {
		return 0, bad
	}
	d, err := strconv.ParseUint(text[:digits], 10, 16)
	if err != nil {
		return 0, bad
	}
	m, err := input.ParseNumber(text[digits:])
	if err != nil || m < 0 || m >= 60 {
		return 0, bad
	}
	v := float64(d) + m/60
	switch {
	case v > most:
		return 0, bad
	case hemisphere == "S" && !lon, hemisphere == "W" && lon:
		return -v, nil
	case hemisphere == "N" && !lon, hemisphere == "E" && lon:
		return v, nil
	}
	return 0, fmt.Errorf("%w: text of the form %q is not a hemisphere", input.ErrReading, input.Shape(hemisphere))
}

// checkNMEA refuses a named field that the sentence does not have.
func checkNMEA(src config.Source) error {
	if _, err := strconv.Atoi(src.Field); err == nil || named[src.Sentence][src.Field] > 0 {
		return nil
	}
	return fmt.Errorf("%w: %s has no field %s", input.ErrNoSensor, src.Sentence, src.Field)
}
