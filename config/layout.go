package config

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Stride returns the number of slots that one channel occupies: the next power of
// two at or above Window.Samples. Channel k holds sample i in slot
// k*Stride()+i; the slots from Samples to Stride stay zero.
func (s Stream) Stride() int {
	stride := 1
	for stride < s.Window.Samples && stride < MaxSlots {
		stride <<= 1
	}
	return stride
}

// Slots returns the number of slots of the whole window, channels times stride. It
// must not exceed half the ring degree.
func (s Stream) Slots() int { return len(s.Channels) * s.Stride() }

// ChannelIndex returns the position of the channel with this name, or -1.
func (s Stream) ChannelIndex(name string) int {
	for i, c := range s.Channels {
		if c.Name == name {
			return i
		}
	}
	return -1
}

// Place returns the first slot of the windows at a place, in a ring with so many slots. The
// windows at all places fill slots that no other place uses, as long as Slots() is at most
// ringSlots/Places. Without Places it is 0.
func (s Stream) Place(place, ringSlots int) int {
	if s.Places < 2 {
		return 0
	}
	return place % s.Places * (ringSlots / s.Places)
}

// PlaceOf returns the place of a device without a configured one: the number that its name
// ends with, or the first four bytes of the name's SHA-256 (big endian), modulo places. It is
// 0 if places is below 2.
func PlaceOf(device string, places int) int {
	if places < 2 {
		return 0
	}
	digits := len(device) - len(strings.TrimRight(device, "0123456789"))
	if n, err := strconv.ParseUint(device[len(device)-digits:], 10, 64); err == nil {
		return int(n % uint64(places))
	}
	sum := sha256.Sum256([]byte(device))
	return int(binary.BigEndian.Uint32(sum[:]) % uint32(places))
}

// LevelAt returns the level at which windows are encrypted under parameters with this
// highest level.
func (s Stream) LevelAt(highest int) int {
	if s.Level == nil {
		return highest
	}
	return *s.Level
}

// Affine returns the normalisation of the channel: u = (x-mid)/half and
// x = mid + half*u, with half > 0 for a valid range.
func (c Channel) Affine() (mid, half float64) {
	return c.Range[0]/2 + c.Range[1]/2, c.Range[1]/2 - c.Range[0]/2
}

// A tag starts every layout hash. That of streams with places is another one, so that a
// reader which knows no places never takes their windows for others.
const (
	layoutTag       = "hencedge layout v1"
	layoutTagPlaces = "hencedge layout v2"
)

// LayoutHash identifies what the slots of a window mean. It is SHA-256 over the
// canonical form, in which every string is its length (8 bytes, big endian)
// and its bytes, every integer 8 bytes big endian in two's complement, and
// every float its IEEE 754 binary64 bits, 8 bytes big endian, -0 written as +0:
//
//	"hencedge layout v1", Name, Params, LogScale, Packing,
//	Window.Samples, Window.Every in nanoseconds, number of channels,
//	then for each channel: Name, Unit, Range[0], Range[1]
//
// With Places it begins with "hencedge layout v2", and Places stands before the number of
// channels. An empty Packing counts as PackingReal. What only the agent needs (sources,
// interval, level, policies for missing values) is left out.
func (s Stream) LayoutHash() [32]byte {
	b := make([]byte, 0, 256+64*len(s.Channels))
	str := func(v string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(v)))
		b = append(b, v...)
	}
	num := func(v int64) { b = binary.BigEndian.AppendUint64(b, uint64(v)) }
	flt := func(v float64) {
		// Adding +0 turns -0 into +0 and changes nothing else.
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v+0))
	}
	packing := s.Packing
	if packing == "" {
		packing = PackingReal
	}
	if s.Places > 0 {
		str(layoutTagPlaces)
	} else {
		str(layoutTag)
	}
	str(s.Name)
	str(s.Params)
	num(int64(s.LogScale))
	str(packing)
	num(int64(s.Window.Samples))
	num(int64(s.Window.Every))
	if s.Places > 0 {
		num(int64(s.Places))
	}
	num(int64(len(s.Channels)))
	for _, c := range s.Channels {
		str(c.Name)
		str(c.Unit)
		flt(c.Range[0])
		flt(c.Range[1])
	}
	return sha256.Sum256(b)
}

var degreeOf = regexp.MustCompile(`^[a-z]+([0-9]{2})-`)

// SlotsOf returns the number of slots of a parameter set, which its name tells:
// "edge13-d3" has ring degree 2^13 and half as many slots. It is 0 for a name
// of another form.
func SlotsOf(params string) int {
	m := degreeOf.FindStringSubmatch(params)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	if n < 2 || n > 16 {
		return 0
	}
	return 1 << (n - 1)
}

// filling returns the number of samples with which the channels fill the slots as far
// as their strides allow, 0 when it is not known or nothing fits.
func (s Stream) filling() int {
	if len(s.Channels) == 0 {
		return 0
	}
	most := SlotsOf(s.Params) / max(s.Places, 1) / len(s.Channels)
	if most == 0 {
		return 0
	}
	n := 1
	for 2*n <= most {
		n *= 2
	}
	return n
}
