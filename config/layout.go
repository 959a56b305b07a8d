package config

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Stride returns the number of slots that one channel occupies: the next power of
// two at or above Window.Samples. Channel k holds sample i in slot
// k*Stride()+i; the slots from Samples to Stride stay zero. Of a histogram the counts of
// Grid stand in place of the samples.
func (s Stream) Stride() int {
	need, stride := s.Window.Samples, 1
	if s.Histogram() {
		need = 1
		for _, c := range s.Channels {
			if g, err := c.Grid(); err == nil {
				need = max(need, g.Slots())
			}
		}
	}
	for stride < need && stride < MaxSlots {
		stride <<= 1
	}
	return stride
}

// Slots returns the number of slots of the whole window, channels times stride. It
// must not exceed half the ring degree.
func (s Stream) Slots() int { return len(s.Channels) * s.Stride() }

// Histogram reports whether the windows hold counts instead of samples.
func (s Stream) Histogram() bool { return s.Packing == PackingHistogram }

// Steps reports whether the windows hold one row of whole numbers, for models.
func (s Stream) Steps() bool { return s.Packing == PackingSteps }

// Digits reports whether the windows hold samples as whole numbers in digits, to be compared.
func (s Stream) Digits() bool { return s.Packing == PackingDigits }

// Whole reports whether the windows hold whole numbers, modulo henc.DefaultT.
func (s Stream) Whole() bool { return s.Steps() || s.Digits() }

// Compact returns the precision of compact windows in bits, 0 for a stream of another mode.
func (s Stream) Compact() int {
	switch s.Packing {
	case PackingCompact12:
		return 12
	case PackingCompact16:
		return 16
	}
	return 0
}

// Readings returns how many readings a compact window has on the wire: Slots, rounded up to a power of
// two, at least 64. Those after Slots, and those of missing samples, are 0.
func (s Stream) Readings() int {
	n := minCompact
	for n < s.Slots() && n < MaxCompact {
		n <<= 1
	}
	return n
}

// CountUnit returns the value that a sample adds to slots of a histogram: 2^-m, with 2^m the
// least power of two at or above Window.Samples. So no slot of a window exceeds 1.
func (s Stream) CountUnit() float64 {
	unit := 1.0
	for n := 1; n < s.Window.Samples && n < MaxSamples; n <<= 1 {
		unit /= 2
	}
	return unit
}

// A Grid divides the range of a channel into bins of equal width. Edge j, from 0 to Bins, is
// the decimal number Range[0] + j*Resolution, rounded to float64 once: edge 3 of [0, 1] at 0.1
// is the float64 0.3. An edge and the values between two edges are different cells: cell 2j is
// edge j itself, and cell 2j+1 everything between the edges j and j+1. So a comparison with an
// edge is decided for every value.
//
// Slot i of a channel holds how many samples of the window are in cell i+1 or above, times
// CountUnit. All samples are in cell 0 or above, which needs no slot.
type Grid struct {
	Bins        int
	first, step float64 // whole numbers below 2^53: the range's start and the resolution, times unit
	unit        float64 // a power of ten that float64 holds exactly
}

// errGrid says why a range and a resolution make no grid.
type errGrid struct{ cause, remedy string }

func (e *errGrid) Error() string { return e.cause }

// Grid returns the bins of a channel of a histogram. It fails if the range does not hold a
// whole number of them, from 1 to MaxSlots/2.
func (c Channel) Grid() (Grid, error) { return c.grid("histogram", "bin", MaxSlots/2) }

// StepGrid returns the steps of a channel of mode steps or digits: reading k is the edge k of the grid, from 0 to Bins.
// It fails if the range does not hold a whole number of steps, from 1 to MaxSteps.
func (c Channel) StepGrid() (Grid, error) { return c.grid("stream of whole steps", "step", MaxSteps) }

func (c Channel) grid(of, bin string, most float64) (Grid, error) {
	fail := func(cause, remedy string) (Grid, error) { return Grid{}, &errGrid{cause, remedy} }
	if !(c.Resolution > 0) || !finite(c.Resolution) || !finite(c.Range[0]) || !finite(c.Range[1]) {
		return fail("a channel of a "+of+" needs a resolution above 0", "write the width of a "+bin+", such as 0.5")
	}
	var whole [3]float64
	unit, ok := 1.0, false
	for k := 0; k <= maxGridDigits && !ok; k++ {
		ok = true
		for i, x := range []float64{c.Range[0], c.Range[1], c.Resolution} {
			whole[i] = math.RoundToEven(x * unit)
			ok = ok && math.Abs(whole[i]) < 1<<53 && whole[i]/unit == x
		}
		if !ok {
			unit *= 10
		}
	}
	if !ok {
		return fail("range and resolution have too many digits for exact "+bin+"s",
			fmt.Sprintf("write them with at most %d decimal places and 15 digits in all", maxGridDigits))
	}
	first, span, step := whole[0], whole[1]-whole[0], whole[2]
	switch bins := span / step; {
	case span <= 0:
		return fail("the range is empty", "write the smallest and the largest value")
	case bins > most:
		return fail(fmt.Sprintf("the range holds %.0f %ss of %g; %.0f are the most", bins, bin, c.Resolution, most),
			"use a coarser resolution or a narrower range")
	case math.Mod(span, step) != 0:
		return fail(fmt.Sprintf("the range [%g, %g] is no whole number of %ss of %g", c.Range[0], c.Range[1], bin,
			c.Resolution), fmt.Sprintf("write range: [%g, %g], or another resolution", c.Range[0],
			(first+step*math.Ceil(bins))/unit))
	default:
		return Grid{int(bins), first, step, unit}, nil
	}
}

// maxGridDigits is the most decimal places of a range and a resolution: powers of ten up to it
// are exact in float64.
const maxGridDigits = 15

// Slots returns the number of slots of a channel.
func (g Grid) Slots() int { return 2 * g.Bins }

// Edge returns edge j, from 0 to Bins, in the channel's unit.
func (g Grid) Edge(j int) float64 { return (g.first + float64(j)*g.step) / g.unit }

// Width returns the width of a bin in the channel's unit.
func (g Grid) Width() float64 { return g.step / g.unit }

// Nearest returns the edge nearest to a value, from 0 to Bins. Values outside of the range, and NaN, belong to its
// ends.
func (g Grid) Nearest(x float64) int {
	switch at := math.Round((x*g.unit - g.first) / g.step); {
	case at >= float64(g.Bins):
		return g.Bins
	case at > 0: // not NaN
		return int(at)
	}
	return 0
}

// Cell returns the cell of a value, from 0 to 2*Bins. Values outside of the range belong to
// its ends, and NaN to the lower one.
func (g Grid) Cell(x float64) int {
	if !(x > g.Edge(0)) {
		return 0
	}
	if x >= g.Edge(g.Bins) {
		return 2 * g.Bins
	}
	j := min(max(int((x*g.unit-g.first)/g.step), 0), g.Bins-1) // off by one at most
	for j > 0 && x < g.Edge(j) {
		j--
	}
	for x >= g.Edge(j+1) {
		j++
	}
	if x == g.Edge(j) {
		return 2 * j
	}
	return 2*j + 1
}

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

// A tag starts every layout hash. Those of streams with places, of histograms and of steps are others,
// so that a reader which does not know them never takes their windows for others.
const (
	layoutTag       = "hencedge layout v1"
	layoutTagPlaces = "hencedge layout v2"
	layoutTagCounts = "hencedge layout v3"
	layoutTagSteps  = "hencedge layout v4"
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
// channels. That of a histogram begins with "hencedge layout v3"; Places stands there in any
// case, 0 without them, and Resolution after the range of each channel. That of modes steps and digits begins with
// "hencedge layout v4" and has Resolution too, but no Places. An empty Packing
// counts as PackingReal. What only the agent needs (sources, interval, level, policies for
// missing values) is left out.
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
	switch {
	case s.Histogram():
		str(layoutTagCounts)
	case s.Whole():
		str(layoutTagSteps)
	case s.Places > 0:
		str(layoutTagPlaces)
	default:
		str(layoutTag)
	}
	str(s.Name)
	str(s.Params)
	num(int64(s.LogScale))
	str(packing)
	num(int64(s.Window.Samples))
	num(int64(s.Window.Every))
	if (s.Places > 0 || s.Histogram()) && !s.Whole() {
		num(int64(s.Places))
	}
	num(int64(len(s.Channels)))
	for _, c := range s.Channels {
		str(c.Name)
		str(c.Unit)
		flt(c.Range[0])
		flt(c.Range[1])
		if s.Histogram() || s.Whole() {
			flt(c.Resolution)
		}
	}
	return sha256.Sum256(b)
}

var degreeOf = regexp.MustCompile(`^[a-z]+([0-9]{2})(-|$)`)

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
