package delivery

import (
	"errors"
	"time"
)

// Single objects may be refused while their stream is taken: those of an epoch that is
// over, for example. So many in a row, or one that nothing follows for so long, mean
// that the stream is refused; so does the first one, where nothing was ever taken.
const (
	refusedInRow  = 3
	refusedForAll = time.Minute
)

// note keeps why the receiver takes nothing of a stream, until it takes something.
func (c *Courier) note(stream string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.refusals[stream]
	if r == nil {
		r = new(refusing)
		c.refusals[stream] = r
	}
	switch {
	case errors.Is(err, errRefused), errors.Is(err, errUnread):
		if r.n++; r.n == 1 {
			r.since = c.o.Clock.Mono()
		}
		r.why = err.Error()
	case err == nil, errors.Is(err, errReplayed), errors.Is(err, errRenumbered):
		*r = refusing{taken: true}
	}
}

// allRefused returns the streams of which the receiver takes nothing, each with the
// last reason; c.mu is held.
func (c *Courier) allRefused() map[string]string {
	var out map[string]string
	for stream, r := range c.refusals {
		if r.n == 0 || r.taken && r.n < refusedInRow && c.o.Clock.Mono()-r.since < refusedForAll {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[stream] = r.why
	}
	return out
}
