package config

import (
	"strings"
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
