package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

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
		"busy": "%", "user": "%", "nice": "%", "system": "%", "idle": "%", "iowait": "%", "irq": "%", "softirq": "%", "steal": "%"}},
	SourceMemory: {keys: []string{"field"}, fields: map[string]string{
		"used_percent": "%", "total": "B", "free": "B", "available": "B", "used": "B", "buffers": "B", "cached": "B",
		"swap_total": "B", "swap_free": "B", "swap_used": "B", "swap_used_percent": "%"}},
	SourceLoad: {keys: []string{"field"}, fields: map[string]string{"1m": "1", "5m": "1", "15m": "1"}},
	SourceDisk: {keys: []string{"device", "field"}, required: []string{"device", "field"}, fields: map[string]string{
		"read_bytes": "B/s", "write_bytes": "B/s", "reads": "1/s", "writes": "1/s", "busy": "%"}},
	SourceNet: {keys: []string{"interface", "field"}, required: []string{"interface", "field"}, fields: map[string]string{
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
	SourceCAN: {keys: []string{"from", "id", "mask", "extended", "start", "length", "data", "order", "mux", "mux_start", "mux_length"},
		required: []string{"from", "id", "start", "length"}},
	SourceSerial: {keys: []string{"from", "column", "path", "pattern", "sentence", "field"}, required: []string{"from"}},
	SourceExec:   {keys: []string{"from", "path", "pattern"}, required: []string{"from"}},
	SourceHTTP:   {keys: []string{"from", "path", "pattern"}, required: []string{"from"}},
	SourceMQTT:   {keys: []string{"from", "topic", "path", "pattern"}, required: []string{"from", "topic"}},
}

var registerKeys = []string{"from", "register", "data", "order", "start", "length"}

// freeText are keys whose text may have any character.
var freeText = []string{"column", "field", "path", "pattern", "topic"}

// SourceTypes lists the kinds of sources.
func SourceTypes() []SourceType {
	return []SourceType{SourceHwmon, SourceThermal, SourceCPU, SourceMemory, SourceLoad, SourceDisk, SourceNet, SourceReplay,
		SourceIIO, SourcePower, SourceGPU, SourceI2C, SourceSPI, SourceModbus, SourceCAN, SourceSerial, SourceExec, SourceHTTP, SourceMQTT}
}

// FieldsOf lists the fields of a kind of source, sorted.
func FieldsOf(t SourceType) []string { return sortedKeys(sourceKinds[t].fields) }

var (
	hwmonInput  = regexp.MustCompile(`^(temp|in|curr|power|fan|humidity|energy|freq)[0-9]{1,3}$`)
	cpuPattern  = regexp.MustCompile(`^(total|cpu[0-9]{1,4})$`)
	hwmonUnits  = map[string]string{"temp": "degC", "in": "V", "curr": "A", "power": "W", "fan": "rpm", "humidity": "%RH", "energy": "J", "freq": "MHz"}
	plainString = regexp.MustCompile(`^[^\x00-\x1f\x7f/]{1,128}$`)
)

// NativeUnit is the unit in which a source gives its values before Scale and
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

func (c *checker) source(path string, s Source, unit string) {
	if !c.sound(path + ".type") {
		return
	}
	kind, known := sourceKinds[s.Type]
	if !known {
		oneOf(c, path+".type", s.Type, SourceTypes()...)
		return
	}
	given := map[string]bool{}
	for _, k := range s.keys() {
		given[k.name] = true
		switch p := path + "." + k.name; {
		case !slices.Contains(kind.keys, k.name):
			c.failKey(p, fmt.Sprintf("a %s source has no %q", s.Type, k.name), "remove it; keys of this source: "+strings.Join(append([]string{"type"}, kind.keys...), ", "))
		case k.str && !slices.Contains(freeText, k.name) && !plainString.MatchString(k.text):
			c.fail(p, fmt.Sprintf("invalid %s %q", k.name, k.text), "use the plain name, without a path")
		}
	}
	for _, key := range kind.required {
		if !given[key] && c.sound(path+"."+key) {
			remedy := fmt.Sprintf("add %q; `hencedge agent discover` lists the sensors of this machine", key)
			if key == "from" {
				remedy = "add \"from\", the name of an entry of \"inputs\" at the top level"
			} else if slices.Contains(kind.keys, "from") {
				remedy = "add " + sourceExample(key)
			}
			c.fail(path, fmt.Sprintf("%q is missing", key), remedy)
		}
	}
	if _, ok := kind.fields[s.Field]; kind.fields != nil && s.Field != "" && !ok {
		c.fail(path+".field", fmt.Sprintf("a %s source has no field %q", s.Type, s.Field), yamlx.SuggestValue(s.Field, FieldsOf(s.Type)))
	}
	c.point(path, s)
	switch s.Type {
	case SourceHwmon:
		c.hwmon(path, s)
	case SourceCPU:
		if !cpuPattern.MatchString(s.CPU) {
			c.fail(path+".cpu", fmt.Sprintf("invalid cpu %q", s.CPU), "use total, or cpu0, cpu1, ...")
		}
	case SourceReplay:
		if s.Column != "" && !columnPattern.MatchString(s.Column) {
			c.fail(path+".column", "not a column name", "write the column's name as in the header, or the dotted field")
		}
	}
	native := s.NativeUnit()
	if native != "" && unit != native && s.Scale == 1 && s.Offset == 0 && knownUnit(unit) {
		c.fail(yamlx.Parent(path)+".unit", fmt.Sprintf("the source gives %s, not %s", native, unit),
			fmt.Sprintf("write unit: %q, or convert with the source's scale and offset", native))
	}
}

// sourceExample shows how a key of a source is written.
func sourceExample(key string) string {
	if e, ok := map[string]string{
		"register": "register: 0", "id": "id: 0x123", "start": "start: 0", "length": "length: 16",
	}[key]; ok {
		return fmt.Sprintf("%q, with the number that the device's manual gives", e)
	}
	if key == "topic" {
		return "\"topic: site/sensor\", the topic that carries the value"
	}
	return fmt.Sprintf("%q; docs/configuration.md shows an example", key)
}

func (c *checker) hwmon(path string, s Source) {
	if !c.sound(path+".input", path+".label") {
		return
	}
	switch {
	case s.Input == "" && s.Label == "":
		c.fail(path, "neither \"input\" nor \"label\" is given", "add \"input: temp1\", or \"label\" with the text of its label file")
	case s.Input != "" && s.Label != "":
		c.failKey(path+".label", "both \"input\" and \"label\" are given", "keep one of them, best the label: numbers can change between kernels")
	case s.Input != "" && !hwmonInput.MatchString(s.Input):
		c.fail(path+".input", fmt.Sprintf("invalid hwmon input %q", s.Input), "use temp, in, curr, power, fan, humidity, energy or freq and its number, such as temp1")
	}
}

// units are the known units with common other spellings of each.
var units = []struct {
	unit    string
	aliases []string
}{
	{"1", []string{"none", "unitless", "count", "ratio"}},
	{"%", []string{"percent", "pct"}},
	{"degC", []string{"c", "°c", "celsius", "deg", "℃"}}, {"degF", []string{"f", "°f", "fahrenheit"}}, {"K", []string{"kelvin"}},
	{"V", []string{"volt", "volts"}}, {"mV", []string{"millivolt"}},
	{"A", []string{"amp", "ampere", "amps"}}, {"mA", []string{"milliampere"}},
	{"W", []string{"watt", "watts"}}, {"mW", []string{"milliwatt"}}, {"kW", []string{"kilowatt"}},
	{"J", []string{"joule"}}, {"kWh", nil}, {"Wh", nil}, {"Ah", nil}, {"VA", nil}, {"var", nil}, {"Ohm", []string{"ohm", "ω", "Ω"}},
	{"rpm", []string{"r/min", "rev/min"}}, {"Hz", []string{"hertz", "hz"}}, {"kHz", nil}, {"MHz", nil},
	{"s", []string{"sec", "second", "seconds"}}, {"ms", nil}, {"us", nil}, {"min", nil}, {"h", nil},
	{"B", []string{"byte", "bytes"}}, {"KiB", nil}, {"MiB", nil}, {"GiB", nil},
	{"B/s", []string{"bytes/s", "bps", "byte/s"}}, {"KiB/s", nil}, {"MiB/s", nil}, {"bit/s", nil}, {"1/s", []string{"/s", "ops/s", "iops", "packets/s"}}, {"1/min", nil},
	{"Pa", []string{"pascal"}}, {"hPa", []string{"mbar"}}, {"kPa", nil}, {"bar", nil},
	{"m", []string{"meter", "metre"}}, {"mm", nil}, {"cm", nil}, {"km", nil}, {"um", nil},
	{"m/s", nil}, {"km/h", []string{"kph", "kmh"}}, {"m/s2", []string{"m/s^2", "m/s²"}}, {"g", nil}, {"kg", nil}, {"mg", nil},
	{"rad", nil}, {"deg", []string{"degree", "degrees", "°"}}, {"rad/s", nil}, {"deg/s", nil}, {"T", nil}, {"uT", nil},
	{"N", nil}, {"Nm", nil}, {"L", nil}, {"L/min", nil}, {"m3/h", nil}, {"m3", nil}, {"m2", nil},
	{"lx", []string{"lux"}}, {"dB", nil}, {"dBA", nil}, {"dBm", nil}, {"ppm", nil}, {"ppb", nil}, {"ug/m3", nil}, {"mg/m3", nil}, {"pH", nil}, {"%RH", nil}, {"W/m2", nil},
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

func (c *checker) unit(path, s string) {
	if knownUnit(s) {
		return
	}
	if own, ok := strings.CutPrefix(s, ownUnit); ok && namePattern.MatchString(strings.ReplaceAll(own, "/", "_")) && len(own) <= 16 {
		return
	}
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.unit
		if slices.Contains(u.aliases, strings.ToLower(s)) || slices.Contains(u.aliases, s) {
			c.fail(path, fmt.Sprintf("unknown unit %q", s), fmt.Sprintf("write %q", u.unit))
			return
		}
	}
	remedy := "docs/configuration.md lists the units; write your own as \"x:name\", up to 16 letters"
	if near := yamlx.Nearest(s, names); near != "" && len(s) > 1 {
		remedy = fmt.Sprintf("did you mean %q? (write a unit of your own as \"x:name\")", near)
	}
	c.fail(path, fmt.Sprintf("unknown unit %q", s), remedy)
}
