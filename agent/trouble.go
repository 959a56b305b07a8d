package agent

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Trouble is a channel that has no usable value at the moment.
type Trouble struct {
	Stream  string    `json:"stream"`
	Channel string    `json:"channel"`
	Since   time.Time `json:"since"` // with the monotonic reading: how long ago does not change when the clock is set
	Error   string    `json:"error"`
}

// troubles are the channels of a stream without a value, by their index.
type troubles struct {
	any  atomic.Bool // the map is not empty
	mu   sync.Mutex
	list map[int]trouble
}

type trouble struct {
	since time.Time
	err   error
}

// note takes the outcome of a channel's newest sample.
func (t *troubles) note(channel int, err error) {
	if err == nil && !t.any.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.list, channel)
	} else {
		now, ok := t.list[channel]
		if !ok {
			now.since = time.Now()
		}
		now.err = err
		if t.list == nil {
			t.list = map[int]trouble{}
		}
		t.list[channel] = now
	}
	t.any.Store(len(t.list) > 0)
}

// troubles lists the channels without a value, by stream and channel: those whose newest
// sample has none, and all of a stream of messages that cannot come.
func (a *Agent) troubles() (out []Trouble) {
	for _, s := range a.streams {
		t := &s.count.troubles
		t.mu.Lock()
		for i, now := range t.list {
			out = append(out, Trouble{s.cfg.Name, s.cfg.Channels[i].Name, now.since, now.err.Error()})
		}
		t.mu.Unlock()
		e, ok := s.source.(*events)
		if !ok {
			continue
		}
		if since, why := e.silence(); why != nil {
			out = slices.DeleteFunc(out, func(t Trouble) bool { return t.Stream == s.cfg.Name })
			for _, ch := range s.cfg.Channels {
				out = append(out, Trouble{s.cfg.Name, ch.Name, since, why.Error()})
			}
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

// silent are the reasons of channels without a value for too long.
func (a *Agent) silent() (out []string) {
	for _, t := range a.troubles() {
		if age := time.Since(t.Since); age > silentTooLong {
			out = append(out, fmt.Sprintf("stream %s, channel %s: no value for %v: %s", t.Stream, t.Channel, age.Round(time.Second), t.Error))
		}
	}
	return out
}
