package config

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// stream checks one stream.
func (c *checker) stream(path string, s Stream) {
	if s.Replay != nil {
		c.timeZone(path+".replay", *s.Replay)
	} else if s.Events != nil {
		c.events(path, s)
	}
	if !s.Window.Fill || c.filled(path, s) {
		c.window(path, s)
	}
	c.places(path, s)
	c.compact(path, s)
	c.whole(path, s)
	names := make([]string, len(s.Channels))
	for i, ch := range s.Channels {
		names[i] = ch.Name
		at := fmt.Sprintf("%s.channels[%d]", path, i)
		if c.channel(at, ch) && c.Sound(path+".mode") {
			c.resolution(at+".resolution", s, ch)
		}
	}
	c.unique(path+".channels", "channel", names)
}

// timeZone checks that timestamps with a layout of their own have one zone.
func (c *checker) timeZone(path string, r Replay) {
	if _, zoned, err := TimeLayouts(r.TimeFormat); err != nil || r.Timezone == "" || !zoned ||
		c.Failed(path+".timezone") {
		return
	}
	c.Fail(path+".timezone", fmt.Sprintf("timestamps of the format %s carry their own zone", yamlx.Quote(r.TimeFormat)),
		"remove timezone")
}

// events checks that all channels of a stream of messages read the same messages.
func (c *checker) events(path string, s Stream) {
	for i, ch := range s.Channels {
		at := fmt.Sprintf("%s.channels[%d].source", path, i)
		switch src := ch.Source; {
		case src == nil || !c.Sound(at):
		case src.From != s.Events.From:
			c.Fail(at, fmt.Sprintf("the stream is made of the messages of %q", s.Events.From),
				fmt.Sprintf("write from: %s, or move the channel to another stream", s.Events.From))
		case src.Topic != s.Topic():
			c.Fail(at+".topic", fmt.Sprintf("the stream's first channel reads %q", s.Topic()),
				"use the same topic for all channels of the stream")
		}
	}
}

// window checks that the samples of a window fit into it and into the slots.
func (c *checker) window(path string, s Stream) {
	w, p := s.Window, path+".window"
	every, interval := yamlx.ShowDuration(w.Every), yamlx.ShowDuration(s.Interval)
	if !c.Sound(p, path+".interval") {
		return
	}
	need := 0 // samples of a window by time, when the interval is known
	if w.ByTime() && s.Interval > 0 {
		need = int((w.Every + s.Interval - 1) / s.Interval)
	}
	switch {
	case w.Samples <= 0 || !c.Sound(p):
		return
	case w.ByTime() && w.Every < s.Interval:
		c.Fail(p+".every", fmt.Sprintf("a window of %s is shorter than the interval of %s", every, interval),
			fmt.Sprintf("write every: %s or longer, or a shorter interval", interval))
		return
	case need > MaxSamples:
		longest := yamlx.ShowDuration(min(MaxSamples*s.Interval, 7*24*time.Hour))
		c.Fail(p+".every",
			fmt.Sprintf("%s at one sample each %s are %d samples; a window holds at most %d", every, interval, need,
				MaxSamples),
			fmt.Sprintf("write every: %s or shorter, or a longer interval", longest))
		return
	case w.Samples < need:
		c.Fail(p+".samples",
			fmt.Sprintf("%s at one sample each %s are %d samples, more than %d", every, interval, need, w.Samples),
			fmt.Sprintf("write samples: %d, or leave it out", need))
		return
	}
	n := len(s.Channels)
	switch {
	case n <= MaxChannels && s.Slots() <= MaxSlots:
	case s.Histogram():
		c.Fail(path+".channels", fmt.Sprintf("the bins of %s take %d slots; no parameter set has more than %d",
			yamlx.Plural(n, "channel"), s.Slots(), MaxSlots),
			"use a coarser resolution, or split the channels into two streams")
	default:
		c.Fail(path+".channels", fmt.Sprintf("%s of %d samples take %d slots; no parameter set has more than %d",
			yamlx.Plural(n, "channel"), w.Samples, s.Slots(), MaxSlots),
			"use a shorter window, or split the channels into two streams")
	}
}

// places checks that a window fits into its part of the slots.
func (c *checker) places(path string, s Stream) {
	slots := SlotsOf(s.Params)
	if s.Places < 2 || slots == 0 || !c.Sound(path+".places", path+".params", path+".window", path+".channels") {
		return
	}
	if need := s.Slots(); need > slots/s.Places {
		c.Fail(path+".places", fmt.Sprintf("a window takes %d slots, and each of %d places in the %d slots of %s "+
			"has %d", need, s.Places, slots, s.Params, slots/s.Places),
			"use fewer places, a shorter window or fewer channels")
	}
}

// compact checks what only compact windows need, or cannot have.
func (c *checker) compact(path string, s Stream) {
	if !c.Sound(path+".mode", path+".precision") {
		return
	}
	if s.Mode != ModeCompact {
		if s.Precision != 0 {
			c.Fail(path+".precision", "only compact windows have a precision",
				"write mode: compact in the stream, or leave it out")
		}
		return
	}
	const remove = "leave it out"
	switch {
	case s.Places != 0:
		c.Fail(path+".places", "the evaluator chooses the places of compact windows", remove)
	case s.LogScale != 0:
		c.Fail(path+".log_scale", "compact windows have a scale of their own", remove)
	case s.Level != nil:
		c.Fail(path+".level", "compact windows have no level", remove)
	}
	if !c.Sound(path + ".params") {
		return
	}
	if !strings.HasPrefix(s.Params, "boot") {
		c.Fail(path+".params", fmt.Sprintf("the evaluator bootstraps compact windows, which %s cannot do", s.Params),
			"write params: boot15, or boot16")
		return
	}
	most := min(MaxCompact, SlotsOf(s.Params))
	if need := s.Slots(); need > most && c.Sound(path+".window", path+".channels") {
		c.Fail(path+".channels", fmt.Sprintf("a window takes %d slots, a compact one has at most %d", need, most),
			"use a shorter window, or split the channels into two streams")
	}
}

// whole checks what streams of modes steps and digits need, and that no others use their parameters.
func (c *checker) whole(path string, s Stream) {
	if !c.Sound(path+".mode", path+".params") {
		return
	}
	integers := strings.HasPrefix(s.Params, "bfv")
	if s.Mode != ModeSteps && s.Mode != ModeDigits {
		if integers {
			c.Fail(path+".params", fmt.Sprintf("%s holds whole numbers, which only streams of modes steps and digits "+
				"have", s.Params),
				"write mode: steps, mode: digits, or other parameters such as edge12-d1")
		}
		return
	}
	const remove = "leave it out"
	switch {
	case s.Places != 0:
		c.Fail(path+".places", "windows of whole numbers cannot share a ciphertext", remove)
	case s.LogScale != 0:
		c.Fail(path+".log_scale", "whole numbers have no scale", remove)
	case s.Level != nil:
		c.Fail(path+".level", "whole numbers have no levels", remove)
	case s.Window.Fill && s.Mode == ModeSteps:
		c.Fail(path+".window.fill", "a window of mode steps is one row", `write "samples: 1"`)
	case s.Window.Fill:
		c.Fail(path+".window.fill", "a sample of mode digits takes several slots",
			`write "samples: 64", or every: instead`)
	case s.Mode == ModeSteps && s.Window.Samples != 1 && c.Sound(path+".window"):
		c.Fail(path+".window.samples", fmt.Sprintf("a window of mode steps is one row of readings, not %d",
			s.Window.Samples),
			`write "samples: 1", and in every: the interval, if windows end by time`)
	case s.Mode == ModeDigits && len(s.Channels) > 1 && c.Sound(path+".channels"):
		c.Fail(path+".channels", fmt.Sprintf("a stream of mode digits has one channel, not %d", len(s.Channels)),
			"give each channel a stream of its own")
	case !integers:
		c.Fail(path+".params", fmt.Sprintf("%s does not hold whole numbers", s.Params), "write params: bfv13, or bfv14")
	}
}

// filled checks a window that fills the slots. It reports whether the number of its samples
// is known.
func (c *checker) filled(path string, s Stream) bool {
	p := path + ".window"
	if !c.Sound(p, path+".params", path+".channels") {
		return false
	}
	channels := yamlx.Plural(len(s.Channels), "channel")
	switch n := s.filling(); {
	case s.Histogram():
		c.Fail(p+".fill", "the samples of a histogram take no slots", "write \"samples: 4096\" or every: instead")
	case SlotsOf(s.Params) == 0:
		c.Fail(p+".fill", fmt.Sprintf("the name %q does not tell how many slots there are", s.Params),
			"write \"samples: 64\" instead, or a name such as edge12-d1")
	case n == 0:
		c.Fail(p+".fill", fmt.Sprintf("%s do not fit into the %d slots of %s", channels, SlotsOf(s.Params), s.Params),
			"split the channels into several streams, or use a larger parameter set")
	case c.Doc != nil && c.Given(p+".samples") && s.Window.Samples != n:
		c.FailKey(p+".samples",
			fmt.Sprintf(`both "fill" and "samples" are given; with %s the slots hold %d samples`, channels, n),
			"keep one of them")
	default:
		return true
	}
	return false
}

// resolution checks the bins or steps of a channel whose range is sound.
func (c *checker) resolution(path string, s Stream, ch Channel) {
	var bad *errGrid
	grid := ch.Grid
	if s.Whole() {
		grid = ch.StepGrid
	}
	switch _, err := grid(); {
	case !s.Histogram() && !s.Whole() && ch.Resolution != 0:
		c.Fail(path, "only histograms, steps and digits have a resolution",
			"write mode: histogram, mode: steps or mode: digits in the stream, or leave it out")
	case (s.Histogram() || s.Whole()) && errors.As(err, &bad):
		c.Fail(path, bad.cause, bad.remedy)
	}
}

// channel checks the range of a channel. It reports whether that is sound.
func (c *checker) channel(path string, ch Channel) bool {
	lo, hi := ch.Range[0], ch.Range[1]
	ranged := c.Sound(path + ".range")
	if ranged {
		_, half := ch.Affine()
		switch {
		case lo > hi:
			c.Fail(path+".range", fmt.Sprintf("the minimum %g is above the maximum %g", lo, hi),
				fmt.Sprintf("write [%g, %g]", hi, lo))
			ranged = false
		case !(half > 0) || !finite(hi-lo) || !finite(1/half):
			c.Fail(path+".range", fmt.Sprintf("the range [%g, %g] is %s", lo, hi, unusable(lo, hi)),
				"write the smallest and the largest value that the sensor can give, such as [-40, 125]")
			ranged = false
		}
	}
	if v := ch.MissingValue; v != nil && ranged && (*v < lo || *v > hi) {
		c.Fail(path+".missing_value", fmt.Sprintf("%g is outside the range [%g, %g]", *v, lo, hi),
			"choose a value within the range, or widen the range")
	}
	if ch.Source != nil {
		c.source(path+".source", *ch.Source, ch.Unit)
	}
	return ranged
}

// unusable says what is wrong with a range whose ends are in order.
func unusable(lo, hi float64) string {
	switch {
	case lo == hi:
		return "empty"
	case !finite(hi - lo):
		return "too wide to compute with"
	}
	return "too narrow to compute with"
}

// finite reports whether x is a usable number.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
