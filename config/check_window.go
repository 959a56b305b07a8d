package config

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// MaxLateness bounds Stream.Lateness, and with it what waits in memory.
const MaxLateness = time.Hour

var degreeOf = regexp.MustCompile(`^[a-z]+([0-9]{2})-`)

// SlotsOf is the number of slots of a parameter set, which its name tells:
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

// filling is the number of samples with which the channels fill the slots as far
// as their strides allow, 0 when it is not known or nothing fits.
func (s Stream) filling() int {
	if len(s.Channels) == 0 {
		return 0
	}
	most := SlotsOf(s.Params) / len(s.Channels)
	if most == 0 {
		return 0
	}
	n := 1
	for 2*n <= most {
		n *= 2
	}
	return n
}

// filled checks a window that fills the slots; true means that its samples are
// known.
func (c *checker) filled(path string, s Stream) bool {
	p := path + ".window"
	if !c.sound(p, path+".params", path+".channels") {
		return false
	}
	switch n := s.filling(); {
	case s.Window.Every > 0:
		c.failKey(p+".every", "a window that fills the slots does not end by time", "remove \"fill\" or \"every\"")
	case SlotsOf(s.Params) == 0:
		c.fail(p+".fill", fmt.Sprintf("the name %q does not tell how many slots there are", s.Params), "write \"samples: 64\" instead, or a name such as edge12-d1")
	case n == 0:
		c.fail(p+".fill", fmt.Sprintf("%s do not fit into the %d slots of %s", yamlx.Plural(len(s.Channels), "channel"), SlotsOf(s.Params), s.Params), "split the channels into several streams, or use a larger parameter set")
	case c.doc != nil && c.given(p+".samples") && s.Window.Samples != n:
		c.failKey(p+".samples", fmt.Sprintf("both \"fill\" and \"samples\" are given; with %s the slots hold %d samples", yamlx.Plural(len(s.Channels), "channel"), n), "keep one of them")
	default:
		return true
	}
	return false
}

// eventTime checks what concerns gaps and lateness.
func (c *checker) eventTime(path string, s Stream) {
	oneOf(c, path+".on_gap", s.OnGap, GapIgnore, GapMark, GapEnd)
	if s.Replay != nil && s.OnGap != GapIgnore && c.sound(path+".on_gap") {
		c.failKey(path+".on_gap", "a replay has no ticks that could be missed", "remove it")
	}
	switch {
	case s.Lateness == 0:
	case s.Replay == nil && s.Events == nil:
		c.failKey(path+".lateness", "sensors are read in the order of time", "remove it; it is for replays and events")
	default:
		between(c, path+".lateness", s.Lateness, time.Millisecond, MaxLateness)
	}
}
