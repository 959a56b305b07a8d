package config

import (
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

var (
	paramsPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	columnPattern = regexp.MustCompile(`^[^\x00-\x1f\x7f]{1,256}$`)
)

// stream checks one stream; live says that the agent will read its sources.
func (c *checker) stream(path string, s Stream, live bool) {
	c.name(path+".name", s.Name)
	if !paramsPattern.MatchString(s.Params) {
		c.fail(path+".params", "invalid parameter set name "+yamlx.Quote(s.Params), "use a name such as edge12-d1; docs/parameters.md lists them")
	}
	if s.LogScale != 0 {
		between(c, path+".log_scale", s.LogScale, 10, 60)
	}
	if s.Level != nil {
		between(c, path+".level", *s.Level, 0, 64)
	}
	oneOf(c, path+".packing", s.Packing, PackingReal)
	c.timing(path, s, live)
	c.eventTime(path, s)
	if s.Events != nil {
		c.events(path, s)
	}
	if !s.Window.Fill || c.filled(path, s) {
		c.window(path, s)
	}
	if s.Replay != nil {
		c.replay(path+".replay", *s.Replay)
	}
	names := make([]string, len(s.Channels))
	for i, ch := range s.Channels {
		names[i] = ch.Name
		p := fmt.Sprintf("%s.channels[%d]", path, i)
		c.channel(p, ch, live)
		if ch.Source != nil {
			c.sourceFits(p+".source", s, *ch.Source)
		}
	}
	c.unique(path+".channels", "channel", names)
}

func (c *checker) timing(path string, s Stream, live bool) {
	switch {
	case s.Replay != nil && s.Interval != 0:
		c.failKey(path+".interval", "a replay takes its times from the file", "remove interval")
	case s.Interval != 0:
		between(c, path+".interval", s.Interval, time.Millisecond, 24*time.Hour)
	case live && s.Replay == nil && s.Events == nil && c.sound(path+".interval", path+".replay", path+".events"):
		c.fail(path, "\"interval\" is missing", "add \"interval: 1s\", the time between samples")
	}
}

func (c *checker) window(path string, s Stream) {
	w, p := s.Window, path+".window"
	if !c.sound(p, path+".interval") {
		return
	}
	need := 0 // samples of a window by time, when the interval is known
	if w.ByTime() {
		between(c, p+".every", w.Every, 10*time.Millisecond, 7*24*time.Hour)
		if s.Interval > 0 {
			need = int((w.Every + s.Interval - 1) / s.Interval)
		}
	}
	switch {
	case w.ByTime() && w.Every < s.Interval:
		c.fail(p+".every", fmt.Sprintf("a window of %s is shorter than the interval of %s", yamlx.ShowDuration(w.Every), yamlx.ShowDuration(s.Interval)), fmt.Sprintf("write every: %s or longer, or a shorter interval", yamlx.ShowDuration(s.Interval)))
		return
	case need > MaxSamples:
		c.fail(p+".every", fmt.Sprintf("%s at one sample each %s are %d samples; a window holds at most %d", yamlx.ShowDuration(w.Every), yamlx.ShowDuration(s.Interval), need, MaxSamples), fmt.Sprintf("write every: %s or shorter, or a longer interval", yamlx.ShowDuration(min(MaxSamples*s.Interval, 7*24*time.Hour))))
		return
	case w.Samples == 0 && w.ByTime():
		c.fail(p, "\"samples\" is missing", "add \"samples: 64\", the most samples that a window can hold")
		return
	case w.Samples == 0:
		c.fail(p, "the window has no end", "add \"samples: 64\" to end it by count or \"every: 1m\" to end it by time")
		return
	case w.Samples < 0 || w.Samples > MaxSamples:
		c.fail(p+".samples", fmt.Sprintf("%d samples are out of range", w.Samples), fmt.Sprintf("use a window of 1 to %d samples", MaxSamples))
		return
	case w.Samples < need:
		c.fail(p+".samples", fmt.Sprintf("%s at one sample each %s are %d samples, more than %d", yamlx.ShowDuration(w.Every), yamlx.ShowDuration(s.Interval), need, w.Samples),
			fmt.Sprintf("write samples: %d, or leave it out", need))
		return
	}
	if n := len(s.Channels); n > MaxChannels || s.Slots() > MaxSlots {
		c.fail(path+".channels", fmt.Sprintf("%s of %d samples take %d slots; no parameter set has more than %d", yamlx.Plural(n, "channel"), w.Samples, s.Slots(), MaxSlots),
			"use a shorter window, or split the channels into two streams")
	}
}

func (c *checker) channel(path string, ch Channel, live bool) {
	c.name(path+".name", ch.Name)
	c.unit(path+".unit", ch.Unit)
	lo, hi := ch.Range[0], ch.Range[1]
	ranged := c.sound(path + ".range")
	if ranged {
		_, half := ch.Affine()
		switch {
		case lo > hi:
			c.fail(path+".range", fmt.Sprintf("the minimum %g is above the maximum %g", lo, hi), fmt.Sprintf("write [%g, %g]", hi, lo))
			ranged = false
		case !(half > 0) || !finite(hi-lo) || !finite(1/half):
			c.fail(path+".range", fmt.Sprintf("the range [%g, %g] is %s", lo, hi, unusable(lo, hi)), "write the smallest and the largest value that the sensor can give, such as [-40, 125]")
			ranged = false
		}
	}
	oneOf(c, path+".on_missing", ch.OnMissing, MissingHold, MissingSkip, MissingMark)
	oneOf(c, path+".on_range", ch.OnRange, OutsideClamp, OutsideMissing)
	switch v := ch.MissingValue; {
	case ch.OnMissing == MissingMark && v == nil && c.sound(path+".missing_value"):
		c.fail(path+".on_missing", "mark needs a value to write", "add \"missing_value\", a number within the range that never occurs otherwise")
	case v != nil && ch.OnMissing != MissingMark && c.sound(path+".on_missing"):
		c.failKey(path+".missing_value", "missing_value is used only with on_missing: mark", "add \"on_missing: mark\" or remove it")
	case v != nil && ranged && (*v < lo || *v > hi):
		c.fail(path+".missing_value", fmt.Sprintf("%g is outside the range [%g, %g]", *v, lo, hi), "choose a value within the range, or widen the range")
	}
	switch {
	case ch.Source != nil:
		c.source(path+".source", *ch.Source, ch.Unit)
	case live && c.sound(path+".source"):
		c.fail(path, "\"source\" is missing", "add \"source: {type: cpu}\" or another source")
	}
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

// sourceFits checks a source against the stream that it is in.
func (c *checker) sourceFits(path string, s Stream, src Source) {
	if !c.sound(path+".type") || src.Type == "" {
		return
	}
	switch replay := src.Type == SourceReplay; {
	case replay && s.Replay == nil:
		c.fail(path+".type", "the stream has no replay file", "add \"replay: {file: ..., time: ...}\" to the stream")
	case !replay && s.Replay != nil:
		c.fail(path+".type", fmt.Sprintf("a stream with a replay file cannot read %s sensors", src.Type), "write source: {type: replay, column: ...}, or move the channel to a stream without replay")
	}
}

func (c *checker) replay(path string, r Replay) {
	if r.Format == "" {
		c.fail(path, "the format of the file is not clear from its name", "add \"format: csv\" or \"format: ndjson\"")
	} else {
		oneOf(c, path+".format", r.Format, "csv", "ndjson")
	}
	c.timeFormat(path, r)
	oneOf(c, path+".bad_cells", r.BadCells, BadFail, BadSkip, BadMissing)
	switch {
	case r.Format == "ndjson" && r.Decimal != "":
		c.failKey(path+".decimal", "numbers in JSON have a decimal point", "remove it")
	case r.Format == "csv":
		if oneOf(c, path+".decimal", r.Decimal, ".", ","); r.Decimal == r.Delimiter {
			c.fail(path+".decimal", "the decimal mark is also the delimiter", "set delimiter, for example to \";\"")
		}
	}
	if !columnPattern.MatchString(r.Time) {
		c.fail(path+".time", "not a column name", "write the column or field of the timestamp")
	}
	if r.Format == "ndjson" && r.Delimiter != "" {
		c.failKey(path+".delimiter", "NDJSON has no delimiter", "remove it")
	} else if r.Delimiter != "" && r.Delimiter != "tab" {
		d, n := utf8.DecodeRuneInString(r.Delimiter)
		if n != len(r.Delimiter) || d == '"' || d == '\r' || d == '\n' || d == utf8.RuneError {
			c.fail(path+".delimiter", fmt.Sprintf("invalid delimiter %q", r.Delimiter), "use one character, such as \",\" or \";\", or \"tab\"")
		}
	}
	if _, err := r.ReplayFactor(); err != nil {
		c.fail(path+".speed", err.Error(), "use realtime, fast, or a factor such as 10x")
	}
}
