package modbus

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// What is not the answer to the request is refused, whatever is wrong with it: values of
// another unit or question must not be taken for this one's.
func TestFrames(t *testing.T) {
	tcp := func(b []byte) ([]byte, error) {
		return (&mbap{transaction: 0x0102}).receive(strings.NewReader(string(b)), 7)
	}
	serial := func(b []byte) ([]byte, error) {
		return rtu{}.receive(strings.NewReader(string(b)), 7, request{readHolding, 5, 1})
	}
	crc := func(b ...byte) []byte { return binary.LittleEndian.AppendUint16(b, crc16(b)) }
	for _, c := range []struct {
		name    string
		receive func([]byte) ([]byte, error)
		frame   []byte
		want    error
	}{
		{"tcp", tcp, []byte{1, 2, 0, 0, 0, 5, 7, 3, 2, 0x12, 0x34}, nil},
		{"tcp, transaction", tcp, []byte{1, 1, 0, 0, 0, 5, 7, 3, 2, 0x12, 0x34}, ErrFrame},
		{"tcp, protocol", tcp, []byte{1, 2, 0, 1, 0, 5, 7, 3, 2, 0x12, 0x34}, ErrFrame},
		{"tcp, unit", tcp, []byte{1, 2, 0, 0, 0, 5, 8, 3, 2, 0x12, 0x34}, ErrFrame},
		{"tcp, function", tcp, []byte{1, 2, 0, 0, 0, 5, 7, 4, 2, 0x12, 0x34}, ErrFrame},
		{"tcp, nothing in it", tcp, []byte{1, 2, 0, 0, 0, 1, 7}, ErrFrame},
		{"tcp, one byte in it", tcp, []byte{1, 2, 0, 0, 0, 2, 7, 3}, ErrFrame},
		{"tcp, no data", tcp, []byte{1, 2, 0, 0, 0, 3, 7, 3, 0}, ErrFrame},
		{"tcp, two bytes of another function", tcp, []byte{1, 2, 0, 0, 0, 3, 7, 4, 2}, ErrFrame},
		{"tcp, too much data", tcp, []byte{1, 2, 0, 0, 0, 7, 7, 3, 4, 1, 2, 3, 4}, ErrFrame},
		{"tcp, more data than it says", tcp, []byte{1, 2, 0, 0, 0, 6, 7, 3, 2, 1, 2, 3}, ErrFrame},
		{"tcp, too long", tcp, slices.Concat([]byte{1, 2, 0, 0, 0, 255, 7, 3, 252}, make([]byte, 252)), ErrFrame},
		{"tcp, cut", tcp, []byte{1, 2, 0, 0, 0, 5, 7, 3, 2, 0x12}, io.ErrUnexpectedEOF},
		{"tcp, exception", tcp, []byte{1, 2, 0, 0, 0, 3, 7, 0x83, 4}, ErrException},
		{"tcp, exception of another function", tcp, []byte{1, 2, 0, 0, 0, 3, 7, 0x84, 4}, ErrFrame},
		{"tcp, long exception", tcp, []byte{1, 2, 0, 0, 0, 4, 7, 0x83, 4, 0}, ErrFrame},
		{"serial", serial, crc(7, 3, 2, 0x12, 0x34), nil},
		{"serial, unit", serial, crc(8, 3, 2, 0x12, 0x34), ErrFrame},
		{"serial, function", serial, crc(7, 4, 2, 0x12, 0x34), ErrFrame},
		{"serial, checksum", serial, []byte{7, 3, 2, 0x12, 0x34, 0, 0}, ErrFrame},
		{"serial, no data", serial, crc(7, 3, 0), ErrFrame},
		{"serial, longer than a frame", serial, crc(append([]byte{7, 3, 252}, make([]byte, 252)...)...), ErrFrame},
		{"serial, cut", serial, crc(7, 3, 2, 0x12, 0x34)[:6], io.ErrUnexpectedEOF},
		{"serial, exception", serial, crc(7, 0x83, 4), ErrException},
		{"serial, exception of another unit", serial, crc(8, 0x83, 4), ErrFrame},
	} {
		pdu, err := c.receive(c.frame)
		var data []byte
		if err == nil {
			data, err = request{readHolding, 5, 1}.answer(pdu)
		}
		if !errors.Is(err, c.want) || c.want == nil && string(data) != "\x12\x34" || c.want == ErrFrame &&
			errors.Is(err, ErrException) {
			t.Errorf("%s: %x, %v, want %v", c.name, data, err, c.want)
		}
	}
}

// The last register is one; a value does not reach beyond it.
func TestLastRegister(t *testing.T) {
	for _, c := range []struct {
		data     string
		register int
		ok       bool
	}{{"uint16", 65535, true}, {"uint32", 65534, true}, {"uint32", 65535, false}, {"uint16", 65536, false},
		{"uint16", -1, false}} {
		m := &Input{}
		_, err := m.Sensor(config.Source{Type: config.SourceModbus,
			Point: config.Point{Table: "holding", Register: &c.register, Data: c.data, Order: "big"}})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, input.ErrNoSensor) {
			t.Errorf("%s at %d: %v", c.data, c.register, err)
		}
	}
}
