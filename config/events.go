package config

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Events makes a stream of the messages of an input: each message is one sample
// of every channel, at the time that stands in it.
type Events struct {
	// From names the input: mqtt, or serial with lines of JSON. The channels
	// read the same input and, of mqtt, the same topic.
	From string `yaml:"from" cfg:"required"`
	// Time is the path of the timestamp in the message, and TimeFormat its form
	// (see Replay); without it a sample has the time at which it arrived.
	Time       string `yaml:"time"`
	TimeFormat string `yaml:"time_format"`
}

// Topic is the topic filter that the channels of an event stream share.
func (s Stream) Topic() string {
	for _, ch := range s.Channels {
		if ch.Source != nil {
			return ch.Source.Topic
		}
	}
	return ""
}

// events checks a stream of messages.
func (c *checker) events(path string, s Stream) {
	p := path + ".events"
	switch {
	case s.Replay != nil:
		c.failKey(p, "a replay takes its samples from a file", "remove \"replay\" or \"events\"")
		return
	case s.Interval != 0:
		c.failKey(path+".interval", "messages come at their own pace", "remove the interval")
	case s.OnGap != GapIgnore && c.sound(path+".on_gap"):
		c.failKey(path+".on_gap", "messages have no ticks that could be missed", "remove it")
	}
	if s.Events.Time == "" {
		if s.Events.TimeFormat != "" && c.sound(p+".time") && c.given(p+".time_format") {
			c.failKey(p+".time_format", "a format without the time", "add \"time\", the path of the timestamp")
		}
		if s.Lateness != 0 {
			c.failKey(path+".lateness", "without \"time\" messages are in the order in which they arrive", "add \"time\" to \"events\", or remove it")
		}
	} else {
		oneOf(c, p+".time_format", s.Events.TimeFormat, "rfc3339", "unix", "unix_ms", "unix_ns")
		c.jsonPath(p+".time", s.Events.Time)
	}
	for i, ch := range s.Channels {
		at := fmt.Sprintf("%s.channels[%d].source", path, i)
		switch src := ch.Source; {
		case src == nil || !c.sound(at):
		case src.From != s.Events.From:
			c.fail(at, fmt.Sprintf("the stream is made of the messages of %q", s.Events.From), fmt.Sprintf("write from: %s, or move the channel to another stream", s.Events.From))
		case src.Topic != s.Topic():
			c.fail(at+".topic", fmt.Sprintf("the stream's first channel reads %q", s.Topic()), "use the same topic for all channels of the stream")
		case src.Path == "":
			c.fail(at, "\"path\" is missing", "add \"path\": each channel of an event stream is a part of a JSON message")
		}
	}
}

// eventInput checks that the input of an event stream can give messages.
func (c *checker) eventInput(a *Agent, path string, s Stream) {
	in := a.Input(s.Events.From)
	switch {
	case in == nil:
		names := make([]string, len(a.Inputs))
		for i := range a.Inputs {
			names[i] = a.Inputs[i].Name
		}
		remedy := "add \"inputs:\" with it at the top level"
		if len(names) > 0 {
			remedy = yamlx.SuggestValue(s.Events.From, names)
		}
		c.fail(path+".events.from", fmt.Sprintf("there is no input %q", s.Events.From), remedy)
	case in.MQTT == nil && (in.Serial == nil || in.Serial.Format != "json") && in.Type() != "":
		c.fail(path+".events.from", fmt.Sprintf("the input %q gives no messages", in.Name), "use an mqtt input, or a serial one with format: json; for other inputs give the stream an interval")
	default:
		c.overlapping(a, path, s)
	}
}

// overlapping refuses an event stream whose topic filter takes messages that
// another filter of its input takes as well: brokers may deliver such a message
// once for each, and it would be two samples.
func (c *checker) overlapping(a *Agent, path string, s Stream) {
	mine := s.Topic()
	for _, other := range a.Streams {
		for _, ch := range other.Channels {
			if ch.Source == nil || ch.Source.From != s.Events.From || ch.Source.Topic == mine || !overlap(mine, ch.Source.Topic) {
				continue
			}
			c.fail(path+".events.from", fmt.Sprintf("stream %q reads %q from this input, which meets %q: brokers may deliver a message once for each", other.Name, ch.Source.Topic, mine),
				"give this stream an mqtt input of its own")
			return
		}
	}
}

// overlap reports whether a topic can match both filters.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	for i := 0; ; i++ {
		switch {
		case i < len(as) && as[i] == "#", i < len(bs) && bs[i] == "#": // '#' takes its parent too
			return true
		case i == len(as) || i == len(bs):
			return len(as) == len(bs)
		case as[i] != bs[i] && as[i] != "+" && bs[i] != "+":
			return false
		}
	}
}
