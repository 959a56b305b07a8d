package agent

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Trouble is a channel that has no usable value at the moment.
type Trouble struct {
	Stream  string    `json:"stream"`
	Channel string    `json:"channel"`
	Since   time.Time `json:"since"` // with the monotonic reading: how long ago does not change when the clock is set
	Error   string    `json:"error"`
}

// troubles lists the channels without a value, by stream and channel: those whose newest
// sample has none, and all of a stream of messages that cannot come.
func (a *Agent) troubles() (out []Trouble) {
	for _, s := range a.streams {
		since, silent := s.Source.Trouble()
		if silent != nil { // of all channels, whatever their newest sample was
			for _, ch := range s.Config.Channels {
				out = append(out, Trouble{s.Config.Name, ch.Name, since, silent.Error()})
			}
			continue
		}
		for i, t := range s.Count.Trouble() {
			out = append(out, Trouble{s.Config.Name, s.Config.Channels[i].Name, t.Since, t.Err.Error()})
		}
	}
	slices.SortFunc(out, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Channel, b.Channel))
	})
	return out
}

// silentTooLong is how long a channel may be without a value before the agent
// calls itself unhealthy.
const silentTooLong = 5 * time.Minute

// silent returns the reasons of channels without a value for too long.
func (a *Agent) silent() (out []string) {
	for _, t := range a.troubles() {
		if age := time.Since(t.Since); age > silentTooLong {
			out = append(out, fmt.Sprintf("stream %s, channel %s: no value for %v: %s", t.Stream, t.Channel,
				age.Round(time.Second), t.Error))
		}
	}
	return out
}
