package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/rule"
)

// sourceExamples show how keys of sources are written.
var sourceExamples = map[string]string{
	"register": "register: 0", "id": "id: 0x123", "start": "start: 0", "length": "length: 16",
}

// sourceRules returns the rules of all kinds of sources: which keys a kind takes, which it
// needs, and their values.
func sourceRules() []rule.Relation {
	var out []rule.Relation
	for _, t := range SourceTypes() {
		kind := sourceKinds[t]
		is := rule.Is("type", t)
		keys := append([]string{"type"}, kind.keys...)
		out = append(out, rule.Relation{
			If: &is, Then: rule.Only(append([]string{"scale", "offset"}, keys...)...),
			Cause: `a {type} source has no "{}"`, Remedy: "remove it; keys of this source: " + strings.Join(keys, ", "),
		})
		if len(kind.required) > 0 {
			out = append(out, rule.Relation{If: &is, Then: rule.Has(kind.required...), Tell: kind.missing})
		}
		values := maps.Clone(kindValues[t])
		if values == nil {
			values = map[string]rule.Value{}
		}
		if kind.fields != nil {
			values["field"] = fieldOf(t)
		}
		if len(values) > 0 {
			out = append(out, rule.Relation{If: &is, Then: rule.Valid(values)})
		}
		for _, r := range kindRules[t] {
			both := is
			if r.If != nil {
				both = rule.All(is, *r.If)
			}
			r.If = &both
			out = append(out, r)
		}
	}
	return out
}

// byteOrder is the rule for the order of bytes.
var byteOrder = rule.OneOf("big", "little")

// byteRegister are the values of sources that read registers with addresses of 8 bits.
var byteRegister = map[string]rule.Value{"register": rule.Between(0, 0xff), "data": dataType, "order": byteOrder}

// kindValues are the rules for values of keys, by the kind of source; others hold for all.
var kindValues = map[SourceType]map[string]rule.Value{
	SourceHwmon: {"input": rule.Form(`^(temp|in|curr|power|fan|humidity|energy|freq)[0-9]{1,3}$`,
		"invalid hwmon input {}",
		"use temp, in, curr, power, fan, humidity, energy or freq and its number, such as temp1")},
	SourceIIO: {"input": rule.Form(`^[a-z][a-z0-9_-]{0,63}$`, "invalid IIO channel {}",
		"write the channel as its file is named, without in_ and the ending: temp, voltage0, accel_x")},
	SourceI2C: byteRegister,
	SourceSPI: byteRegister,
	SourceModbus: {
		"table":    rule.OneOf("holding", "input", "coil", "discrete"),
		"register": rule.Between(0, 0xffff),
		"data":     modbusData,
		"order":    rule.OneOf("big", "little", "word_swap", "byte_swap"),
	},
	SourceCAN: {
		"data": rule.OneOf(CANDataTypes()...), "order": byteOrder,
		"start": rule.Between(0, 511), "length": rule.Between(1, 64),
		"mux": rule.Between(0, math.MaxInt32), "mux_start": rule.Between(0, 511), "mux_length": rule.Between(1, 31),
	},
	SourceSerial: {
		"column": rule.Form(`^[1-9][0-9]{0,2}$`, "invalid column {}",
			`lines have no header: write the number of the column in quotes, counted from 1, such as "3"`),
		"sentence": rule.Form(`^[A-Z]{3}$`, "invalid sentence type {}",
			"write the three letters after the talker: GGA for $GPGGA"),
	},
}

// kindRules are the rules between keys, by the kind of source.
var kindRules = map[SourceType][]rule.Relation{
	SourceHwmon:  hwmonRules,
	SourceI2C:    {needsData, wholeFloat},
	SourceSPI:    {needsData, wholeFloat},
	SourceModbus: modbusRules,
	SourceCAN:    canRules,
	SourceSerial: nmeaRules(),
}

// missing tells that a source lacks a key that its kind needs.
func (k sourceKind) missing(_ rule.Block, key string) (cause, remedy string) {
	cause = fmt.Sprintf("%q is missing", key)
	example, known := sourceExamples[key]
	switch {
	case key == "from":
		return cause, `add "from", the name of an entry of "inputs" at the top level`
	case !slices.Contains(k.keys, "from"):
		return cause, fmt.Sprintf("add %q; `hencedge agent discover` lists the sensors of this machine", key)
	case known:
		return cause, fmt.Sprintf("add %q, with the number that the device's manual gives", example)
	case key == "topic":
		return cause, `add "topic: site/sensor", the topic that carries the value`
	}
	return cause, fmt.Sprintf("add %q; docs/configuration.md shows an example", key)
}

// fieldOf returns the rule for the field of a kind of source.
func fieldOf(t SourceType) rule.Value {
	fields := rule.OneOf(FieldsOf(t)...)
	return fields.Caused(func(text string) string { return fmt.Sprintf("a %s source has no field %q", t, text) })
}

var (
	isFloat = rule.When(rule.Is("data", "float32", "float64"))

	// wholeFloat is the rule that no bits are taken out of a floating-point number.
	wholeFloat = rule.Relation{
		If: isFloat, Then: rule.Not(rule.Any(rule.Has("start"), rule.Has("length"))), At: "data", Value: true,
		Cause:  "bits of a floating-point number have no meaning",
		Remedy: `use an integer type, or remove "start" and "length"`}

	// onePattern is the rule that a pattern finds the number alone.
	onePattern = rule.Relation{If: rule.When(rule.Has("pattern")), Then: rule.Lacks("column", "sentence"),
		Cause: `both "pattern" and "{}" are given`, Remedy: "keep one of them"}

	needsData = rule.Relation{
		Then: rule.Has("data"), Remedy: `add "data: int16", or another of ` + strings.Join(DataTypes(), ", ")}
)

var hwmonRules = []rule.Relation{{Then: rule.One("input", "label"), Tell: tellHwmon}}

// tellHwmon says which key of a hwmon source is missing or too many.
func tellHwmon(_ rule.Block, second string) (cause, remedy string) {
	if second == "" {
		return `neither "input" nor "label" is given`, `add "input: temp1", or "label" with the text of its label file`
	}
	return `both "input" and "label" are given`, "keep one of them, best the label: numbers can change between kernels"
}

var isBit = rule.When(rule.Is("table", "coil", "discrete"))

var modbusRules = []rule.Relation{wholeFloat, {If: isBit, Then: rule.Lacks("data", "order", "start", "length"),
	Cause: `a {table} is one bit and has no "{}"`, Remedy: "remove it, or use table: holding"}}

// modbusData is the rule for numbers made of registers of 16 bits.
var modbusData = rule.Text(rule.Schema{"enum": wordTypes()}, func(s string) (cause, remedy string) {
	bits := DataBits(s)
	switch {
	case bits == 0:
		return dataType.Problem(s)
	case bits%16 != 0:
		return fmt.Sprintf("a Modbus register has 16 bits, %s has %d", s, bits),
			`use uint16 with "start" and "length" to take some of the bits`
	}
	return "", ""
})

var dataType = rule.OneOf(DataTypes()...)

// wordTypes returns the data types of whole Modbus registers.
func wordTypes() []string {
	return slices.DeleteFunc(DataTypes(), func(d string) bool { return DataBits(d)%16 != 0 })
}

var (
	isExtended = rule.When(rule.Is("extended", true))
	isStandard = rule.When(rule.Default("extended", false))
)

// frameID returns the rule for identifiers of CAN frames.
func frameID(most int, hint string) map[string]rule.Value {
	id := rule.Number(rule.Schema{"minimum": 0, "maximum": most}, func(n int) (cause, remedy string) {
		if n >= 0 && n <= most {
			return "", ""
		}
		return fmt.Sprintf("0x%X is out of range", n), fmt.Sprintf("use a value up to 0x%X%s", most, hint)
	})
	return map[string]rule.Value{"id": id, "mask": id}
}

var canRules = []rule.Relation{
	{If: isExtended, Then: rule.Valid(frameID(0x1fffffff, ""))},
	{If: isStandard, Then: rule.Valid(frameID(0x7ff, `, or add "extended: true" for 29-bit identifiers`))},
	{If: rule.When(rule.Is("data", "float32")), Then: rule.Default("length", 32), Value: true,
		Cause: "float32 has 32 bits, not {length}", Remedy: "use length: 32"},
	{If: rule.When(rule.Is("data", "float64")), Then: rule.Default("length", 64), Value: true,
		Cause: "float64 has 64 bits, not {length}", Remedy: "use length: 64"},
	{If: rule.When(rule.Lacks("mux")), Then: rule.Lacks("mux_start", "mux_length"),
		Cause:  "a position of a multiplexor without its value",
		Remedy: `add "mux", the value that it has when the signal is in the frame: 12 for m12 in a DBC file`},
}

// nmeaRules returns the rules for sentences of NMEA 0183 and the names of their fields.
func nmeaRules() []rule.Relation {
	const number = "a number in quotes, counted from 1 after the type"
	const noField = `a "{sentence}" sentence has no field "{field}"`
	out := []rule.Relation{
		onePattern,
		{If: rule.When(rule.Has("field")), Then: rule.Has("sentence"), At: "field",
			Cause: "a field without its sentence", Remedy: `add "sentence: GGA"`},
		{If: rule.When(rule.Has("sentence")), Then: rule.Has("field"),
			Remedy: `add "field": lat, lon, altitude, speed, course, satellites, hdop, or ` + number},
	}
	sentences := slices.Sorted(maps.Keys(NMEAFields))
	for _, s := range sentences {
		names := NMEAFields[s]
		form := `^(` + strings.Join(names, "|") + `|[1-9][0-9]?)$`
		out = append(out, rule.Relation{
			If: rule.When(rule.All(rule.Has("field"), rule.Is("sentence", s))), Then: rule.Looks("field", form),
			Value: true,
			Cause: noField, Remedy: "use " + strings.Join(names, ", ") + ", or " + number,
		})
	}
	others := rule.All(rule.Has("sentence", "field"), rule.Unless("sentence", sentences...))
	return append(out, rule.Relation{
		If: &others, Then: rule.Looks("field", `^[1-9][0-9]?$`), Value: true, Cause: noField, Remedy: "use " + number,
	})
}
