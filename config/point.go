package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// A Point says which quantity of an input, or of a device, a source reads.
// Which keys belong to which type stands in sourceKinds.
type Point struct {
	// From names the input.
	From string `yaml:"from"`
	// Register is the address of a register or coil, counted from 0; Table is
	// the Modbus table: "holding", "input", "coil" or "discrete".
	Register *int   `yaml:"register" cfg:"zero"`
	Table    string `yaml:"table"`
	// Data is how the bits are read: DataTypes for registers, CANDataTypes for
	// CAN signals.
	Data string `yaml:"data"`
	// Order is the order of bytes: "big" or "little"; for Modbus also
	// "word_swap" (low word first) and "byte_swap" (low byte first in each word).
	Order string `yaml:"order"`
	// Start and Length choose bits: of a register's value, counted from the
	// lowest; of a CAN frame, as DBC files count them.
	Start  *int `yaml:"start" cfg:"zero"`
	Length *int `yaml:"length"`
	// ID is the identifier of a CAN frame. A frame matches when its identifier
	// is equal in the bits that Mask has set; without Mask in all. Extended
	// asks for 29-bit identifiers.
	ID       *int `yaml:"id" cfg:"zero"`
	Mask     *int `yaml:"mask" cfg:"zero"`
	Extended bool `yaml:"extended"`
	// Mux is the value that the multiplexor of a CAN frame has when the signal is in
	// it; MuxStart and MuxLength say where the multiplexor stands, with the signal's
	// order.
	Mux       *int `yaml:"mux" cfg:"zero"`
	MuxStart  *int `yaml:"mux_start" cfg:"zero"`
	MuxLength *int `yaml:"mux_length"`
	// Topic is an MQTT topic filter, which may have wildcards.
	Topic string `yaml:"topic"`
	// Path leads to a number in JSON, as gjson reads it: "a.b.0.c".
	Path string `yaml:"path"`
	// Pattern is a regular expression (RE2) whose only group is the number.
	Pattern string `yaml:"pattern"`
	// Sentence is the type of an NMEA 0183 sentence, without the talker: "GGA".
	Sentence string `yaml:"sentence"`
	// Rail is a power rail by its label.
	Rail string `yaml:"rail"`
}

// DataTypes are the forms of numbers in registers, with their bits.
func DataTypes() []string {
	return []string{"uint8", "int8", "uint16", "int16", "uint24", "int24", "uint32", "int32", "uint64", "int64", "float32", "float64"}
}

// DataBits is the width of a data type, 0 for none.
func DataBits(data string) int {
	if !slices.Contains(DataTypes(), data) {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimLeft(data, "abcdefghijklmnopqrstuvwxyz"))
	return n
}

// DefaultMuxLength is the length of a multiplexor in bits.
const DefaultMuxLength = 8

func orNew(p **int, v int) {
	if *p == nil {
		*p = &v
	}
}

// CANDataTypes are the forms of numbers in CAN signals.
func CANDataTypes() []string { return []string{"unsigned", "signed", "float32", "float64"} }

// sourceKey is one key of a source that is given.
type sourceKey struct {
	name string
	text string // as in YAML
	str  bool   // a text
}

// keys lists the keys of a source that have a value, in the order of the
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

// setPointDefaults fills what is zero.
func (s *Source) setPointDefaults() {
	switch s.Type {
	case SourceModbus:
		orDefault(&s.Table, "holding")
		if s.Table == "holding" || s.Table == "input" {
			orDefault(&s.Data, "uint16")
			orDefault(&s.Order, "big")
		}
	case SourceI2C, SourceSPI:
		orDefault(&s.Order, "big")
	case SourceCAN:
		orDefault(&s.Data, "unsigned")
		orDefault(&s.Order, "little")
		if s.Mux != nil {
			orNew(&s.MuxStart, 0)
			orNew(&s.MuxLength, DefaultMuxLength)
		}
	case SourcePower:
		orDefault(&s.Field, "power")
	case SourceGPU:
		orDefault(&s.Field, "load")
	}
}
