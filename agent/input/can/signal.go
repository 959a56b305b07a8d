package can

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// Flags in the identifier of a frame (linux/can.h).
const (
	flagExtended = 0x80000000
	flagRemote   = 0x40000000
	flagError    = 0x20000000
	maskStandard = 0x7ff
	maskExtended = 0x1fffffff
)

// Sizes of struct can_frame and struct canfd_frame, and where the data starts.
const (
	sizeClassic = 16
	sizeFD      = 72
	headerSize  = 8
)

// frame is a data frame.
type frame struct {
	id       uint32
	extended bool
	data     []byte // 0 to 64 bytes
}

// parse reads a frame as the kernel gives it; ok is false for anything that is
// no data frame.
func parse(b []byte) (f frame, ok bool) {
	if len(b) != sizeClassic && len(b) != sizeFD {
		return frame{}, false
	}
	id := binary.NativeEndian.Uint32(b)
	n := int(b[4])
	if id&(flagRemote|flagError) != 0 || headerSize+n > len(b) {
		return frame{}, false
	}
	f = frame{extended: id&flagExtended != 0, data: b[headerSize : headerSize+n]}
	if f.id = id & maskStandard; f.extended {
		f.id = id & maskExtended
	}
	return f, true
}

// Signal is a number in a frame, as DBC files describe it.
type Signal struct {
	id, mask uint32
	extended bool
	start    int
	length   int
	big      bool
	data     string // one of config.CANDataTypes
	bytes    int    // that a frame needs
	mux      *Signal
	value    float64 // of mux, when the signal is in the frame
}

// NewSignal takes a signal from a source.
func NewSignal(src config.Source) (Signal, error) {
	if src.ID == nil || src.Start == nil || src.Length == nil {
		return Signal{}, fmt.Errorf("%w: a CAN source without id, start and length", input.ErrNoSensor)
	}
	s := Signal{id: uint32(*src.ID), mask: maskExtended, extended: src.Extended, start: *src.Start, length: *src.Length,
		big: src.Order == "big", data: src.Data}
	if src.Mask != nil {
		s.mask = uint32(*src.Mask)
	}
	var ok bool
	if s.bytes, ok = config.SignalEnd(s.start, s.length, s.big); !ok ||
		s.data == "float32" && s.length != 32 || s.data == "float64" && s.length != 64 {
		return Signal{}, fmt.Errorf("%w: %d bits from bit %d", input.ErrNoSensor, s.length, s.start)
	}
	if src.Mux == nil {
		return s, nil
	}
	if src.MuxStart == nil || src.MuxLength == nil {
		return Signal{}, fmt.Errorf("%w: a multiplexor without start and length", input.ErrNoSensor)
	}
	m := Signal{start: *src.MuxStart, length: *src.MuxLength, big: s.big, data: "unsigned"}
	if m.bytes, ok = config.SignalEnd(m.start, m.length, m.big); !ok {
		return Signal{}, fmt.Errorf("%w: a multiplexor of %d bits from bit %d", input.ErrNoSensor, m.length, m.start)
	}
	s.mux, s.value = &m, float64(*src.Mux)
	return s, nil
}

// matches reports whether the frame carries the signal.
func (s Signal) matches(f frame) bool {
	if f.extended != s.extended || (f.id^s.id)&s.mask != 0 {
		return false
	}
	if s.mux == nil {
		return true
	}
	v, err := s.mux.Decode(f.data)
	return err == nil && v == s.value
}

// Decode takes the number out of a frame's data.
func (s Signal) Decode(data []byte) (float64, error) {
	if len(data) < s.bytes {
		return 0, fmt.Errorf("%w: a frame of %d bytes, want %d", input.ErrReading, len(data), s.bytes)
	}
	var u uint64
	if s.big {
		// Number the bits in the order of transmission: bit 7 of byte 0 is 0.
		first := s.start/8*8 + 7 - s.start%8
		for i := first; i < first+s.length; i++ {
			u = u<<1 | uint64(data[i/8]>>(7-i%8)&1)
		}
	} else {
		for i := s.start + s.length - 1; i >= s.start; i-- {
			u = u<<1 | uint64(data[i/8]>>(i%8)&1)
		}
	}
	v := 0.0
	switch s.data {
	case "float32":
		v = float64(math.Float32frombits(uint32(u)))
	case "float64":
		v = math.Float64frombits(u)
	default:
		v = input.Integer(u, s.length, s.data == "signed")
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%w: the number is not finite", input.ErrReading)
	}
	return v, nil
}
