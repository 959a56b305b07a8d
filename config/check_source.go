package config

import (
	"fmt"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// source checks the numbers of a source, and that it gives its channel's unit.
func (c *checker) source(path string, s Source, unit string) {
	if !c.Sound(path + ".type") {
		return
	}
	switch s.Type {
	case SourceI2C, SourceSPI:
		c.registers(path, s, 0xff)
	case SourceModbus:
		c.registers(path, s, 0xffff)
	case SourceCAN:
		c.mux(path, s)
		c.signal(path, s)
	}
	native := s.NativeUnit()
	if native != "" && unit != native && s.Scale == 1 && s.Offset == 0 && knownUnit(unit) {
		c.Fail(yamlx.Parent(path)+".unit", fmt.Sprintf("the source gives %s, not %s", native, unit),
			fmt.Sprintf("write unit: %q, or convert with the source's scale and offset", native))
	}
}

// registers checks that a number lies within the registers, and its bits within the number.
func (c *checker) registers(path string, s Source, last int) {
	bits := DataBits(s.Data)
	if bits == 0 || c.Failed(path+".data") || c.Failed(path+".register") {
		return
	}
	size := bits / 8
	if s.Type == SourceModbus {
		size = bits / 16
	}
	if s.Register != nil && *s.Register <= last && *s.Register+size-1 > last {
		c.Fail(path+".register", fmt.Sprintf("%s at register %d goes beyond the last, %d", s.Data, *s.Register, last),
			"use a lower register")
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
	case start < 0 || length < 1 || start+length > bits:
		c.Fail(path, fmt.Sprintf("%d bits from bit %d are not within the %d bits of %s", length, start, bits, s.Data),
			"make start + length at most the number of bits")
	}
}

// signal checks that a CAN signal fits into a frame.
func (c *checker) signal(path string, s Source) {
	if s.Start == nil || s.Length == nil || c.Failed(path+".start") || c.Failed(path+".length") ||
		c.Failed(path+".data") {
		return
	}
	if end, ok := SignalEnd(*s.Start, *s.Length, s.Order == "big"); !ok {
		c.Fail(path, fmt.Sprintf("%d bits from bit %d do not fit into a frame of 64 bytes", *s.Length, *s.Start),
			"make start + length at most 512; in big-endian order start is the highest bit, as in DBC files")
	} else if end > 64 {
		c.Fail(path, "the signal is outside the frame of 64 bytes",
			"correct \"start\", \"length\" and \"order\"; in big-endian order start is the highest bit, as in DBC "+
				"files")
	}
}

// mux checks the multiplexor of a CAN signal.
func (c *checker) mux(path string, s Source) {
	if s.Mux == nil || s.MuxStart == nil || s.MuxLength == nil ||
		!c.Sound(path+".mux", path+".mux_start", path+".mux_length") {
		return
	}
	if _, ok := SignalEnd(*s.MuxStart, *s.MuxLength, s.Order == "big"); !ok {
		c.Fail(path,
			fmt.Sprintf("a multiplexor of %d bits from bit %d does not fit into a frame of 64 bytes", *s.MuxLength,
				*s.MuxStart),
			"correct \"mux_start\" and \"mux_length\"")
	}
	if *s.Mux < 0 || *s.Mux>>*s.MuxLength != 0 {
		c.Fail(path+".mux", fmt.Sprintf("a multiplexor of %d bits cannot be %d", *s.MuxLength, *s.Mux),
			fmt.Sprintf("use a value from 0 to %d, or a larger \"mux_length\"", 1<<*s.MuxLength-1))
	}
}
