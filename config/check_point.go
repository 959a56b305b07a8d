package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

var (
	iioInput    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	sentence    = regexp.MustCompile(`^[A-Z]{3}$`)
	nmeaNumber  = regexp.MustCompile(`^[1-9][0-9]?$`)
	columnIndex = regexp.MustCompile(`^[1-9][0-9]{0,2}$`)
)

// iioUnits are the units that IIO channels are converted to, by the kind that
// their name starts with (Documentation/ABI/testing/sysfs-bus-iio).
var iioUnits = map[string]string{
	"temp": "degC", "voltage": "V", "current": "A", "power": "W", "pressure": "kPa", "humidityrelative": "%RH", "accel": "m/s2",
	"anglvel": "rad/s", "angl": "rad", "rot": "rad", "magn": "uT", "illuminance": "lx", "distance": "m", "concentration": "%",
	"ph": "pH", "resistance": "Ohm", "proximity": "", "intensity": "", "energy": "J", "velocity": "m/s", "gravity": "m/s2", "uvindex": "",
}

// NMEAFields are the fields that have a name, by the type of the sentence.
var NMEAFields = map[string][]string{
	"GGA": {"lat", "lon", "altitude", "satellites", "hdop"}, "RMC": {"lat", "lon", "speed", "course"}, "GLL": {"lat", "lon"}, "VTG": {"speed", "course"},
}

// IIOKind is the kind of an IIO channel such as "temp" or "voltage0": what its
// name starts with, up to a digit, '_' or '-'.
func IIOKind(input string) string {
	if i := strings.IndexFunc(input, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
		return input[:i]
	}
	return input
}

// point checks the keys of the types in input.go.
func (c *checker) point(path string, s Source) {
	switch s.Type {
	case SourceIIO:
		if s.Input != "" && !iioInput.MatchString(s.Input) {
			c.fail(path+".input", fmt.Sprintf("invalid IIO channel %q", s.Input), "write the channel as its file is named, without in_ and the ending: temp, voltage0, accel_x")
		}
	case SourceI2C, SourceSPI:
		c.registers(path, s, 0xff, "big", "little")
		if s.Data == "" && c.sound(path+".data") {
			c.fail(path, "\"data\" is missing", "add \"data: int16\", or another of "+strings.Join(DataTypes(), ", "))
		}
	case SourceModbus:
		oneOf(c, path+".table", s.Table, "holding", "input", "coil", "discrete")
		if s.Table == "coil" || s.Table == "discrete" {
			for _, k := range s.keys() {
				if slices.Contains([]string{"data", "order", "start", "length"}, k.name) {
					c.failKey(path+"."+k.name, fmt.Sprintf("a %s is one bit and has no %q", s.Table, k.name), "remove it, or use table: holding")
				}
			}
		}
		c.registers(path, s, 0xffff, "big", "little", "word_swap", "byte_swap")
	case SourceCAN:
		c.signal(path, s)
	case SourceMQTT:
		c.filter(path+".topic", s.Topic)
	case SourceSerial:
		c.nmea(path, s)
	}
	if s.Type != SourceReplay && s.Column != "" && !columnIndex.MatchString(s.Column) {
		c.fail(path+".column", fmt.Sprintf("invalid column %q", s.Column), "lines have no header: write the number of the column in quotes, counted from 1, such as \"3\"")
	}
	c.pattern(path, s)
	c.jsonPath(path+".path", s.Path)
}

// registers checks address, data and bits of a register.
func (c *checker) registers(path string, s Source, last int, orders ...string) {
	if s.Register != nil {
		between(c, path+".register", *s.Register, 0, last)
	}
	if s.Data != "" {
		oneOf(c, path+".data", s.Data, DataTypes()...)
	}
	if s.Order != "" {
		oneOf(c, path+".order", s.Order, orders...)
	}
	bits := DataBits(s.Data)
	if bits == 0 {
		return
	}
	if s.Type == SourceModbus && bits%16 != 0 {
		c.fail(path+".data", fmt.Sprintf("a Modbus register has 16 bits, %s has %d", s.Data, bits), "use uint16 with \"start\" and \"length\" to take some of the bits")
		return
	}
	size := bits / 8
	if s.Type == SourceModbus {
		size = bits / 16
	}
	if s.Register != nil && *s.Register <= last && *s.Register+size-1 > last {
		c.fail(path+".register", fmt.Sprintf("%s at register %d goes beyond the last, %d", s.Data, *s.Register, last), "use a lower register")
	}
	start, length := 0, bits
	if s.Start != nil {
		start = *s.Start
	}
	if s.Length != nil {
		length = *s.Length
	} else {
		length -= start
	}
	switch {
	case s.Start == nil && s.Length == nil:
	case strings.HasPrefix(s.Data, "float"):
		c.fail(path+".data", "bits of a floating-point number have no meaning", "use an integer type, or remove \"start\" and \"length\"")
	case start < 0 || length < 1 || start+length > bits:
		c.fail(path, fmt.Sprintf("%d bits from bit %d are not within the %d bits of %s", length, start, bits, s.Data), "make start + length at most the number of bits")
	}
}

// signal checks a CAN signal.
func (c *checker) signal(path string, s Source) {
	most := 0x7ff
	if s.Extended {
		most = 0x1fffffff
	}
	for key, v := range map[string]*int{"id": s.ID, "mask": s.Mask} {
		if v != nil && (*v < 0 || *v > most) {
			remedy := fmt.Sprintf("use a value up to 0x%X", most)
			if !s.Extended {
				remedy += ", or add \"extended: true\" for 29-bit identifiers"
			}
			c.fail(path+"."+key, fmt.Sprintf("0x%X is out of range", *v), remedy)
		}
	}
	if s.Data != "" {
		oneOf(c, path+".data", s.Data, CANDataTypes()...)
	}
	if s.Order != "" {
		oneOf(c, path+".order", s.Order, "big", "little")
	}
	c.mux(path, s)
	if s.Start == nil || s.Length == nil || !slices.Contains(CANDataTypes(), s.Data) {
		return
	}
	between(c, path+".start", *s.Start, 0, 511)
	between(c, path+".length", *s.Length, 1, 64)
	if n, ok := map[string]int{"float32": 32, "float64": 64}[s.Data]; ok && *s.Length != n {
		c.fail(path+".length", fmt.Sprintf("%s has %d bits, not %d", s.Data, n, *s.Length), fmt.Sprintf("use length: %d", n))
	}
	if end, ok := SignalEnd(*s.Start, *s.Length, s.Order == "big"); !ok {
		c.fail(path, fmt.Sprintf("%d bits from bit %d do not fit into a frame of 64 bytes", *s.Length, *s.Start), "make start + length at most 512; in big-endian order start is the highest bit, as in DBC files")
	} else if end > 64 {
		c.fail(path, "the signal is outside the frame of 64 bytes", "correct \"start\", \"length\" and \"order\"; in big-endian order start is the highest bit, as in DBC files")
	}
}

// mux checks the multiplexor of a CAN signal.
func (c *checker) mux(path string, s Source) {
	if s.Mux == nil {
		key := ""
		if s.MuxStart != nil {
			key = ".mux_start"
		} else if s.MuxLength != nil {
			key = ".mux_length"
		}
		if key != "" && c.sound(path+".mux") {
			c.failKey(path+key, "the place of a multiplexor without its value", "add \"mux\", the value that it has when the signal is in the frame: 12 for m12 in a DBC file")
		}
		return
	}
	if s.MuxStart == nil || s.MuxLength == nil || !c.sound(path+".mux", path+".mux_start", path+".mux_length") {
		return
	}
	between(c, path+".mux_start", *s.MuxStart, 0, 511)
	between(c, path+".mux_length", *s.MuxLength, 1, 31)
	if *s.MuxLength < 1 || *s.MuxLength > 31 {
		return
	}
	if _, ok := SignalEnd(*s.MuxStart, *s.MuxLength, s.Order == "big"); !ok {
		c.fail(path, fmt.Sprintf("a multiplexor of %d bits from bit %d does not fit into a frame of 64 bytes", *s.MuxLength, *s.MuxStart), "correct \"mux_start\" and \"mux_length\"")
	}
	if *s.Mux < 0 || *s.Mux>>*s.MuxLength != 0 {
		c.fail(path+".mux", fmt.Sprintf("a multiplexor of %d bits cannot be %d", *s.MuxLength, *s.Mux), fmt.Sprintf("use a value from 0 to %d, or a larger \"mux_length\"", 1<<*s.MuxLength-1))
	}
}

// SignalEnd is the number of bytes that a frame needs to hold a signal. Bits are
// counted as in DBC files: bit 0 is the lowest bit of byte 0, bit 8 the lowest
// of byte 1. With little endian, start is the signal's lowest bit and the next
// ones follow upwards; with big endian, start is its highest bit, and the next
// ones follow downwards within the byte and then from bit 7 of the next byte.
func SignalEnd(start, length int, big bool) (bytes int, ok bool) {
	if start < 0 || length < 1 || length > 64 || start > 511 {
		return 0, false
	}
	last := start + length - 1
	if big {
		// In the order of transmission bit 7 of byte 0 is number 0.
		last = start/8*8 + 7 - start%8 + length - 1
	}
	return last/8 + 1, last < 512
}

// filter checks an MQTT topic filter.
func (c *checker) filter(path, t string) {
	if t == "" {
		return
	}
	levels := strings.Split(t, "/")
	for i, l := range levels {
		if strings.ContainsAny(l, "+#") && l != "+" && (l != "#" || i != len(levels)-1) || len(t) > 256 || strings.ContainsRune(t, 0) {
			c.fail(path, fmt.Sprintf("invalid topic filter %s", yamlx.Quote(t)), "in a filter '+' stands for one whole level, '#' for all that follow, at the end")
			return
		}
	}
}

func (c *checker) nmea(path string, s Source) {
	kind := s.Sentence[max(len(s.Sentence)-3, 0):] // without the talker, which is a mistake of its own
	if s.Sentence != "" && !sentence.MatchString(s.Sentence) {
		c.fail(path+".sentence", fmt.Sprintf("invalid sentence type %q", s.Sentence), "write the three letters after the talker: GGA for $GPGGA")
	}
	switch {
	case s.Sentence == "" && s.Field != "":
		c.failKey(path+".field", "a field without its sentence", "add \"sentence: GGA\"")
	case s.Sentence != "" && s.Field == "" && c.sound(path+".field"):
		c.fail(path, "\"field\" is missing", "add \"field\": lat, lon, altitude, speed, course, satellites, hdop, or a number in quotes, counted from 1 after the type")
	case s.Field != "" && !nmeaNumber.MatchString(s.Field) && !slices.Contains(NMEAFields[kind], s.Field):
		const number = "a number in quotes, counted from 1 after the type"
		remedy := "use " + number
		if names := NMEAFields[kind]; names != nil {
			remedy = "use " + strings.Join(names, ", ") + ", or " + number
		}
		c.fail(path+".field", fmt.Sprintf("a %q sentence has no field %q", kind, s.Field), remedy)
	}
}

// pattern checks a regular expression.
func (c *checker) pattern(path string, s Source) {
	if s.Pattern == "" {
		return
	}
	re, err := regexp.Compile(s.Pattern)
	switch {
	case len(s.Pattern) > 512:
		c.fail(path+".pattern", "the pattern is longer than 512 bytes", "write a shorter one")
	case err != nil:
		c.fail(path+".pattern", "not a regular expression: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "correct it; the syntax is RE2's, and a pattern looks like \"T=([-0-9.]+)\"")
	case re.NumSubexp() != 1:
		c.fail(path+".pattern", fmt.Sprintf("the pattern has %s, not one", yamlx.Plural(re.NumSubexp(), "group")), "put one pair of brackets around the number, such as \"T=([-0-9.]+)\"; (?:...) groups without counting")
	}
	for _, k := range s.keys() {
		if k.name == "column" || k.name == "sentence" {
			c.failKey(path+"."+k.name, fmt.Sprintf("both \"pattern\" and %q are given", k.name), "keep one of them")
		}
	}
}

func (c *checker) jsonPath(path, p string) {
	if len(p) > 256 || strings.HasPrefix(p, "@") || strings.Contains(p, "|@") || strings.Contains(p, ".@") || strings.HasPrefix(p, "!") {
		c.fail(path, "not a usable path", "name the keys with '.' between them, such as sensors.0.value; modifiers (@) are not supported")
	}
}

// froms checks that every source finds its input.
func (c *checker) froms(a *Agent) {
	names := make([]string, len(a.Inputs))
	for i := range a.Inputs {
		names[i] = a.Inputs[i].Name
	}
	for i, s := range a.Streams {
		if s.Events != nil {
			c.eventInput(a, fmt.Sprintf("streams[%d]", i), s)
		}
		for k, ch := range s.Channels {
			if ch.Source == nil || ch.Source.From == "" {
				continue
			}
			path := fmt.Sprintf("streams[%d].channels[%d].source", i, k)
			in := a.Input(ch.Source.From)
			switch {
			case in == nil && len(names) == 0:
				c.fail(path+".from", fmt.Sprintf("there is no input %q", ch.Source.From), fmt.Sprintf("add \"inputs:\" with an entry \"name: %s\" at the top level", ch.Source.From))
			case in == nil:
				c.fail(path+".from", fmt.Sprintf("there is no input %q", ch.Source.From), yamlx.SuggestValue(ch.Source.From, names))
			case in.Type() != "" && ch.Source.Type != in.Type():
				c.fail(path+".type", fmt.Sprintf("the input %q is of type %s, not %s", in.Name, in.Type(), ch.Source.Type), "write type: "+string(in.Type()))
			case in.Serial != nil:
				c.lineSource(path, in.Serial.Format, *ch.Source)
			}
		}
	}
}

// lineSource checks that a source reads the format of its serial input.
func (c *checker) lineSource(path, format string, s Source) {
	need := map[string]string{"csv": "column", "json": "path", "nmea": "sentence", "text": "pattern"}[format]
	if need == "" {
		return
	}
	for _, k := range s.keys() {
		if k.name == need {
			need = ""
		} else if k.name != "from" && (k.name != "field" || format != "nmea") && (k.name != "pattern" || format != "json") {
			c.failKey(path+"."+k.name, fmt.Sprintf("%s lines have no %q", format, k.name), "remove it")
		}
	}
	if need != "" && c.sound(path+"."+need) {
		c.fail(path, fmt.Sprintf("%q is missing", need), map[string]string{
			"column": "add 'column: \"3\"', the number of the column in csv lines, counted from 1, in quotes", "path": "add \"path: a.b\", the keys that lead to the number in json lines",
			"sentence": "add \"sentence: GGA\" and \"field: altitude\" to choose a number of nmea lines", "pattern": "add 'pattern: \"T=([-0-9.]+)\"', with brackets around the number in text lines"}[need])
	}
}
