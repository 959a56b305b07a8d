package input

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/config"
)

func registerOf(t testing.TB, data, order string, bits ...int) Register {
	t.Helper()
	src := config.Source{Point: config.Point{Data: data, Order: order}}
	if len(bits) == 2 {
		src.Start, src.Length = &bits[0], &bits[1]
	}
	r, err := NewRegister(src)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegister(t *testing.T) {
	for _, c := range []struct {
		data, order string
		bits        []int
		raw         []byte
		want        float64
	}{
		{"uint8", "big", nil, []byte{0xff}, 255},
		{"int8", "little", nil, []byte{0xff}, -1},
		{"uint16", "big", nil, []byte{1, 2}, 0x102},
		{"uint16", "little", nil, []byte{1, 2}, 0x201},
		{"uint16", "byte_swap", nil, []byte{1, 2}, 0x201},
		{"uint16", "word_swap", nil, []byte{1, 2}, 0x102},
		{"int24", "big", nil, []byte{0xff, 0xff, 0xfe}, -2},
		{"uint24", "little", nil, []byte{1, 2, 3}, 0x30201},
		{"uint32", "big", nil, []byte{1, 2, 3, 4}, 0x01020304},
		{"uint32", "little", nil, []byte{1, 2, 3, 4}, 0x04030201},
		{"uint32", "word_swap", nil, []byte{1, 2, 3, 4}, 0x03040102},
		{"uint32", "byte_swap", nil, []byte{1, 2, 3, 4}, 0x02010403},
		{"uint64", "word_swap", nil, []byte{0, 1, 0, 2, 0, 3, 0, 4}, 0x0004000300020001},
		{"int64", "big", nil, []byte{255, 255, 255, 255, 255, 255, 255, 254}, -2},
		{"float32", "big", nil, []byte{0x42, 0x28, 0, 0}, 42},
		{"float32", "word_swap", nil, []byte{0, 0, 0x42, 0x28}, 42},
		{"float64", "little", nil, []byte{0, 0, 0, 0, 0, 0, 0x45, 0x40}, 42},
		// The TMP102: 12 bits at the top of a word, in two's complement.
		{"int16", "big", []int{4, 12}, []byte{0xe7, 0x00}, -400},
		{"int16", "big", []int{4, 12}, []byte{0x19, 0x00}, 400},
		{"uint16", "big", []int{0, 1}, []byte{0, 3}, 1},
		{"int32", "big", []int{31, 1}, []byte{0x80, 0, 0, 0}, -1},
	} {
		r := registerOf(t, c.data, c.order, c.bits...)
		if got, err := r.Decode(c.raw); err != nil || got != c.want {
			t.Errorf("%s %s %v of % x: got %v, %v, want %v", c.data, c.order, c.bits, c.raw, got, err, c.want)
		}
	}
	nan := registerOf(t, "float32", "big")
	if _, err := nan.Decode([]byte{0x7f, 0xc0, 0, 0}); !errors.Is(err, ErrReading) {
		t.Errorf("not a number: %v", err)
	}
	if _, err := nan.Decode([]byte{1, 2, 3}); !errors.Is(err, ErrReading) {
		t.Errorf("too short: %v", err)
	}
}

// Every order is a permutation that the encoder here undoes word by word.
func TestRegisterOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v")
		words := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "words")
		data := map[int]string{1: "int16", 2: "int32", 4: "int64"}[words]
		order := rapid.SampledFrom([]string{"big", "little", "word_swap", "byte_swap"}).Draw(t, "order")
		var raw []byte
		for i := range words { // word i in the order of the line, highest first for big
			shift := 16 * (words - 1 - i)
			if order == "word_swap" || order == "little" {
				shift = 16 * i
			}
			w := uint16(v >> shift)
			if order == "byte_swap" || order == "little" {
				raw = binary.LittleEndian.AppendUint16(raw, w)
			} else {
				raw = binary.BigEndian.AppendUint16(raw, w)
			}
		}
		want := map[int]float64{1: float64(int16(v)), 2: float64(int32(v)), 4: float64(int64(v))}[words]
		src := config.Source{Point: config.Point{Data: data, Order: order}}
		r, err := NewRegister(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Decode(raw); err != nil || got != want {
			t.Fatalf("%s %s: got %v, %v, want %v", data, order, got, err, want)
		}
	})
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		path, pattern, text string
		want                float64 // NaN: refused
	}{
		{"", "", " 23.5\n", 23.5},
		{"", "", "-1e3", -1000},
		{"", "", "23,5", math.NaN()},
		{"", "", "0x10", math.NaN()},
		{"", "", "1_000", math.NaN()},
		{"", "", "inf", math.NaN()},
		{"", "", "nan", math.NaN()},
		{"", "", "1e999", math.NaN()},
		{"", "", "", math.NaN()},
		{"a.b", "", `{"a": {"b": 4.25}}`, 4.25},
		{"a.1.v", "", `{"a": [{"v": 1}, {"v": "2.5"}]}`, 2.5},
		{`a.#(n=="t").v`, "", `{"a": [{"n":"h","v":1},{"n":"t","v":7}]}`, 7},
		{"on", "", `{"on": true}`, 1},
		{"on", "", `{"on": false}`, 0},
		{"on", "", `{"on": null}`, math.NaN()},
		{"on", "", `{"off": 1}`, math.NaN()},
		{"on", "", `{"on": {"x": 1}}`, math.NaN()},
		{"on", "", `{"on": 1`, math.NaN()},
		{"", `T=([-0-9.]+)C`, "H=40 T=-3.5C", -3.5},
		{"", `T=([-0-9.]+)C`, "H=40", math.NaN()},
		{"", `T=(.*)`, "T=warm", math.NaN()},
		{"t", `^([-0-9.]+) ?°?C$`, `{"t": "-21.5 °C"}`, -21.5},
		{"t", `^([-0-9.]+) ?°?C$`, `{"t": "70 F", "C": "1 C"}`, math.NaN()},
		{"t", `^([-0-9.]+) ?°?C$`, `{"t": 20}`, 20},
		{"t", `(5)`, `5`, math.NaN()},
	} {
		x, err := NewText(config.Source{Point: config.Point{Path: c.path, Pattern: c.pattern}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Number(c.text)
		if math.IsNaN(c.want) {
			if !errors.Is(err, ErrReading) {
				t.Errorf("%q %q of %q: got %v, %v", c.path, c.pattern, c.text, got, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%q %q of %q: got %v, %v, want %v", c.path, c.pattern, c.text, got, err, c.want)
		}
	}
}

// FuzzRegister checks that decoding gives a finite number or ErrReading, within
// the range of the type.
func FuzzRegister(f *testing.F) {
	f.Add(uint8(3), uint8(2), uint8(4), uint8(12), []byte{0xe7, 0})
	f.Add(uint8(10), uint8(0), uint8(0), uint8(0), []byte{0x7f, 0xc0, 0, 0})
	f.Fuzz(func(t *testing.T, data, order, start, length uint8, raw []byte) {
		types, orders := config.DataTypes(), []string{"big", "little", "word_swap", "byte_swap"}
		src := config.Source{Point: config.Point{Data: types[int(data)%len(types)], Order: orders[order%4]}}
		if length > 0 {
			src.Start, src.Length = new(int(start)), new(int(length))
		}
		r, err := NewRegister(src)
		if err != nil {
			return
		}
		v, err := r.Decode(raw)
		switch {
		case err != nil && !errors.Is(err, ErrReading):
			t.Fatal(err)
		case err == nil && (math.IsNaN(v) || math.IsInf(v, 0)):
			t.Fatalf("%v", v)
		case err == nil && src.Data[0] == 'u' && (v < 0 || v > math.Ldexp(1, 8*r.Size())):
			t.Fatalf("%s is %v", src.Data, v)
		}
	})
}

// FuzzText checks paths and texts that may come from anywhere.
func FuzzText(f *testing.F) {
	f.Add("a.b", `{"a": {"b": 4.25}}`)
	f.Add(`a.#(n=="t").v`, `{"a": [{"n":"t","v":7}]}`)
	f.Add("a.#.b", `[1,{"a":"\ud800"}]`)
	f.Fuzz(func(t *testing.T, path, text string) {
		for _, x := range []Text{{path: path}, {}} {
			if v, err := x.Number(text); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
				t.Fatalf("%v", v)
			} else if err != nil && !errors.Is(err, ErrReading) {
				t.Fatal(err)
			}
		}
	})
}

// JSON that would take much memory to look at is refused before.
func TestDeepJSON(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + "7" + strings.Repeat("]", n) }
	text, err := NewText(config.Source{
		Point: config.Point{Path: strings.TrimSuffix(strings.Repeat("0.", maxDepth), ".")}})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := text.Number(nested(maxDepth)); v != 7 || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	for _, bad := range []string{nested(maxDepth + 1), strings.Repeat("[", MaxText),
		strings.Repeat(`{"a":`, MaxText/5)} {
		if err := ValidJSON(bad); !errors.Is(err, ErrReading) || !strings.Contains(err.Error(), "nested deeper") {
			t.Errorf("got %v", err)
		}
	}
	for _, good := range []string{`{"a": "` + strings.Repeat("[", 1000) + `"}`,
		`["` + strings.Repeat(`\"[`, 1000) + `"]`, `[` + strings.Repeat(`[],`, 1000) + `1]`} {
		if err := ValidJSON(good); err != nil {
			t.Errorf("%.20s: %v", good, err)
		}
	}
}
