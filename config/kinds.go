package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

var registerKeys = []string{"from", "register", "data", "order", "start", "length"}

// sourceKind describes one type of source: the keys that it takes, those that
// it must have, and its fields with their units.
type sourceKind struct {
	keys     []string
	required []string
	fields   map[string]string
}

var sourceKinds = map[SourceType]sourceKind{
	SourceHwmon:   {keys: []string{"chip", "input", "label"}, required: []string{"chip"}},
	SourceThermal: {keys: []string{"zone"}, required: []string{"zone"}},
	SourceCPU: {keys: []string{"cpu", "field"}, fields: map[string]string{
		"busy": "%", "user": "%", "nice": "%", "system": "%", "idle": "%", "iowait": "%", "irq": "%", "softirq": "%",
		"steal": "%"}},
	SourceMemory: {keys: []string{"field"}, fields: map[string]string{
		"used_percent": "%", "total": "B", "free": "B", "available": "B", "used": "B", "buffers": "B", "cached": "B",
		"swap_total": "B", "swap_free": "B", "swap_used": "B", "swap_used_percent": "%"}},
	SourceLoad: {keys: []string{"field"}, fields: map[string]string{"1m": "1", "5m": "1", "15m": "1"}},
	SourceDisk: {keys: []string{"device", "field"}, required: []string{"device", "field"}, fields: map[string]string{
		"read_bytes": "B/s", "write_bytes": "B/s", "reads": "1/s", "writes": "1/s", "busy": "%"}},
	SourceNet: {keys: []string{"interface", "field"}, required: []string{"interface", "field"},
		fields: map[string]string{
			"rx_bytes": "B/s", "tx_bytes": "B/s", "rx_packets": "1/s", "tx_packets": "1/s",
			"rx_errors": "1/s", "tx_errors": "1/s", "rx_dropped": "1/s", "tx_dropped": "1/s"}},
	SourceReplay: {keys: []string{"column"}, required: []string{"column"}},
	SourceIIO:    {keys: []string{"chip", "input"}, required: []string{"chip", "input"}},
	SourcePower: {keys: []string{"rail", "field"}, required: []string{"rail"}, fields: map[string]string{
		"power": "W", "voltage": "V", "current": "A"}},
	SourceGPU:    {keys: []string{"chip", "field"}, fields: map[string]string{"load": "%", "clock": "MHz"}},
	SourceI2C:    {keys: registerKeys, required: []string{"from", "register"}},
	SourceSPI:    {keys: registerKeys, required: []string{"from", "register"}},
	SourceModbus: {keys: append([]string{"table"}, registerKeys...), required: []string{"from", "register"}},
	SourceCAN: {keys: []string{"from", "id", "mask", "extended", "start", "length", "data", "order", "mux", "mux_start",
		"mux_length"},
		required: []string{"from", "id", "start", "length"}},
	SourceSerial: {keys: []string{"from", "column", "path", "pattern", "sentence", "field"},
		required: []string{"from"}},
	SourceExec: {keys: []string{"from", "path", "pattern"}, required: []string{"from"}},
	SourceHTTP: {keys: []string{"from", "path", "pattern"}, required: []string{"from"}},
	SourceMQTT: {keys: []string{"from", "topic", "path", "pattern"}, required: []string{"from", "topic"}},
}

// SourceTypes returns the kinds of sources.
func SourceTypes() []SourceType {
	return []SourceType{
		SourceHwmon, SourceThermal, SourceCPU, SourceMemory, SourceLoad, SourceDisk, SourceNet, SourceReplay,
		SourceIIO, SourcePower, SourceGPU, SourceI2C, SourceSPI, SourceModbus, SourceCAN, SourceSerial,
		SourceExec, SourceHTTP, SourceMQTT,
	}
}

// FieldsOf returns the fields of a kind of source, sorted.
func FieldsOf(t SourceType) []string { return sortedKeys(sourceKinds[t].fields) }

var (
	hwmonUnits = map[string]string{"temp": "degC", "in": "V", "curr": "A", "power": "W", "fan": "rpm",
		"humidity": "%RH",
		"energy":   "J", "freq": "MHz"}
)

// NativeUnit returns the unit in which a source gives its values before Scale and
// Offset, or "" when only the device knows.
func (s Source) NativeUnit() string {
	switch s.Type {
	case SourceThermal:
		return "degC"
	case SourceHwmon:
		return hwmonUnits[strings.TrimRight(s.Input, "0123456789")]
	case SourceIIO:
		return iioUnits[IIOKind(s.Input)]
	}
	return sourceKinds[s.Type].fields[s.Field]
}

// iioUnits are the units that IIO channels are converted to, by the kind that
// their name starts with (Documentation/ABI/testing/sysfs-bus-iio).
var iioUnits = map[string]string{
	"temp": "degC", "voltage": "V", "current": "A", "power": "W", "energy": "J", "resistance": "Ohm",
	"accel": "m/s2", "gravity": "m/s2", "velocity": "m/s", "distance": "m", "proximity": "",
	"anglvel": "rad/s", "angl": "rad", "rot": "rad", "magn": "uT", "illuminance": "lx", "intensity": "",
	"pressure": "kPa", "humidityrelative": "%RH", "concentration": "%", "ph": "pH", "uvindex": "",
}

// NMEAFields are the fields that have a name, by the type of the sentence.
var NMEAFields = map[string][]string{
	"GGA": {"lat", "lon", "altitude", "satellites", "hdop"}, "RMC": {"lat", "lon", "speed", "course"},
	"GLL": {"lat", "lon"}, "VTG": {"speed", "course"},
}

// IIOKind returns the kind of an IIO channel such as "temp" or "voltage0": what its
// name starts with, up to a digit, '_' or '-'.
func IIOKind(input string) string {
	if i := strings.IndexFunc(input, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
		return input[:i]
	}
	return input
}

// SignalEnd returns the number of bytes that a frame needs to hold a signal. Bits are
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

// DataTypes returns the forms of numbers in registers, with their bits.
func DataTypes() []string {
	return []string{"uint8", "int8", "uint16", "int16", "uint24", "int24", "uint32", "int32", "uint64", "int64",
		"float32", "float64"}
}

// DataBits returns the width of a data type, 0 for none.
func DataBits(data string) int {
	if !slices.Contains(DataTypes(), data) {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimLeft(data, "abcdefghijklmnopqrstuvwxyz"))
	return n
}

// CANDataTypes returns the forms of numbers in CAN signals.
func CANDataTypes() []string { return []string{"unsigned", "signed", "float32", "float64"} }

// YAML writes the source in flow form, ready to be put into a file.
func (s Source) YAML() string {
	parts := []string{"type: " + string(s.Type)}
	for _, k := range s.keys() {
		if k.str {
			k.text = strconv.Quote(k.text)
		}
		parts = append(parts, k.name+": "+k.text)
	}
	number := func(key string, v, zero float64) {
		if v != zero && v != 0 {
			parts = append(parts, key+": "+FormatNumber(v))
		}
	}
	number("scale", s.Scale, 1)
	number("offset", s.Offset, 0)
	return "{" + strings.Join(parts, ", ") + "}"
}

// keys returns the keys of a source that have a value, in the order of the
// struct, without type, scale and offset.
func (s Source) keys() []sourceKey {
	var out []sourceKey
	for _, f := range yamlx.Fields(reflect.ValueOf(s)) {
		v := f.Value
		if v.IsZero() || f.Name == "type" || f.Name == "scale" || f.Name == "offset" {
			continue
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		text := fmt.Sprint(v.Interface())
		if v.Kind() == reflect.Int && (f.Name == "id" || f.Name == "mask") {
			text = fmt.Sprintf("0x%X", v.Int())
		}
		out = append(out, sourceKey{f.Name, text, v.Kind() == reflect.String})
	}
	return out
}

// sourceKey is one key of a source that is given.
type sourceKey struct {
	name string
	text string // as in YAML
	str  bool   // a text
}

// FormatNumber writes a number as people and every YAML parser read it, without an
// exponent as long as it is short.
func FormatNumber(v float64) string {
	if plain := strconv.FormatFloat(v, 'f', -1, 64); len(plain) <= 16 {
		return plain
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if mantissa, exponent, ok := strings.Cut(text, "e"); ok && !strings.Contains(mantissa, ".") {
		return mantissa + ".0e" + exponent // YAML 1.1 asks for the point
	}
	return text
}

// units are the known units with common other spellings of each.
var units = []struct {
	unit    string
	aliases []string
}{

	{"1", []string{"none", "unitless", "count", "ratio"}},
	{"%", []string{"percent", "pct"}},
	{"degC", []string{"c", "°c", "celsius", "deg", "℃"}}, {"degF", []string{"f", "°f", "fahrenheit"}},
	{"K", []string{"kelvin"}},
	{"V", []string{"volt", "volts"}}, {"mV", []string{"millivolt"}},
	{"A", []string{"amp", "ampere", "amps"}}, {"mA", []string{"milliampere"}},
	{"W", []string{"watt", "watts"}}, {"mW", []string{"milliwatt"}}, {"kW", []string{"kilowatt"}},
	{"J", []string{"joule"}}, {"kWh", nil}, {"Wh", nil}, {"Ah", nil}, {"VA", nil}, {"var", nil},
	{"Ohm", []string{"ohm", "ω", "Ω"}},
	{"rpm", []string{"r/min", "rev/min"}}, {"Hz", []string{"hertz", "hz"}}, {"kHz", nil}, {"MHz", nil},
	{"s", []string{"sec", "second", "seconds"}}, {"ms", nil}, {"us", nil}, {"min", nil}, {"h", nil},
	{"B", []string{"byte", "bytes"}}, {"KiB", nil}, {"MiB", nil}, {"GiB", nil},
	{"B/s", []string{"bytes/s", "bps", "byte/s"}}, {"KiB/s", nil}, {"MiB/s", nil}, {"bit/s", nil},
	{"1/s", []string{"/s", "ops/s", "iops", "packets/s"}}, {"1/min", nil},
	{"Pa", []string{"pascal"}}, {"hPa", []string{"mbar"}}, {"kPa", nil}, {"bar", nil},
	{"m", []string{"meter", "metre"}}, {"mm", nil}, {"cm", nil}, {"km", nil}, {"um", nil},
	{"m/s", nil}, {"km/h", []string{"kph", "kmh"}}, {"m/s2", []string{"m/s^2", "m/s²"}}, {"g", nil}, {"kg", nil},
	{"mg", nil},
	{"rad", nil}, {"deg", []string{"degree", "degrees", "°"}}, {"rad/s", nil}, {"deg/s", nil}, {"T", nil}, {"uT", nil},
	{"N", nil}, {"Nm", nil}, {"L", nil}, {"L/min", nil}, {"m3/h", nil}, {"m3", nil}, {"m2", nil},
	{"lx", []string{"lux"}}, {"dB", nil}, {"dBA", nil}, {"dBm", nil}, {"ppm", nil}, {"ppb", nil}, {"ug/m3", nil},
	{"mg/m3", nil}, {"pH", nil}, {"%RH", nil}, {"W/m2", nil},
	{"bpm", nil}, {"cd", nil}, {"mol", nil}, {"mol/L", nil}, {"uS/cm", nil}, {"S/m", nil}, {"EUR", nil}, {"USD", nil},
}

func knownUnit(s string) bool {
	for _, u := range units {
		if u.unit == s {
			return true
		}
	}
	return false
}

// ownUnit starts a unit that is not in the table: "x:bottles".
const ownUnit = "x:"
