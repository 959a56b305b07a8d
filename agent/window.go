package agent

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
)

// window is a finished window in physical units.
type window struct {
	start, end time.Time
	samples    int
	values     [][]float64 // by channel, then sample; within the channels' ranges
	cursor     position    // of the last row that it was made of, or that was left out after it
}

// collector turns rows into windows and applies the policies for values that
// are missing or out of range.
type collector struct {
	stream config.Stream
	count  *streamCounters
	log    *slog.Logger

	held   []float64 // last good value per channel; NaN before the first
	warned []bool    // per channel, in this window
	sample []float64 // of the row at hand
	cur    *window
	bucket int64
	last   time.Time
	cursor position // of the last row

	free *sync.Pool // of *window that are done with; nil: none are used again
}

func newCollector(s config.Stream, count *streamCounters, log *slog.Logger) *collector {
	c := &collector{stream: s, count: count, log: log, held: make([]float64, len(s.Channels)), warned: make([]bool, len(s.Channels))}
	for i := range c.held {
		c.held[i] = math.NaN()
	}
	return c
}

// add takes one row, in the order of time except for steps of the clock, and
// gives the windows that it finishes, oldest first.
func (c *collector) add(r row) (done []*window) {
	finish := func() {
		if w := c.flush(); w != nil {
			done = append(done, w)
		}
	}
	if r.tick {
		if b := bucketOf(r.at, c.stream.Window.Every); c.cur != nil && b != c.bucket {
			if b < c.bucket {
				c.clockStep(r.at)
			}
			finish()
		}
		return done
	}
	if c.cur != nil && (r.stepped || r.at.Before(c.last)) {
		c.clockStep(r.at)
		finish()
	}
	if r.lost > 0 {
		switch c.stream.OnGap {
		case config.GapEnd:
			finish()
		case config.GapMark:
			done = append(done, c.mark(r)...)
		}
	}
	return append(done, c.put(r)...)
}

// clockStep tells that the window at hand ends early.
func (c *collector) clockStep(to time.Time) {
	c.count.clockSteps.Add(1)
	c.log.Warn("the clock was set or the machine slept; the window ends early", "from", c.last, "to", to)
}

// mark puts missing samples in the place of lost ones, as far as they belong to
// the present window.
func (c *collector) mark(r row) (done []*window) {
	for k := r.lost; k > 0 && c.cur != nil && c.cur.samples < c.stream.Window.Samples; k-- {
		gap := newRow(r.at.Add(-time.Duration(k)*c.stream.Interval), len(r.values))
		if c.stream.Window.ByTime() && bucketOf(gap.at, c.stream.Window.Every) != c.bucket {
			break
		}
		for i := range gap.errs {
			gap.errs[i] = errLost
		}
		c.count.marked.Add(1)
		before := c.cur.samples
		if done = append(done, c.put(gap)...); c.cur != nil && c.cur.samples == before {
			break // the policy leaves such samples out
		}
	}
	return done
}

var errOutside = fmt.Errorf("%w: it is out of range", sensor.ErrReading)

var errLost = fmt.Errorf("%w: no sample was taken", sensor.ErrReading)

// put puts one row into the window that it belongs to.
func (c *collector) put(r row) (done []*window) {
	finish := func() {
		if w := c.flush(); w != nil {
			done = append(done, w)
		}
	}
	if c.stream.Window.ByTime() {
		b := bucketOf(r.at, c.stream.Window.Every)
		if c.cur != nil && b != c.bucket {
			finish()
		}
		c.bucket = b
	}
	c.last, c.cursor = r.at, r.cursor
	sample, ok := c.policies(r)
	if !ok {
		c.count.skipped.Add(1)
		return done
	}
	if c.cur == nil {
		c.open(r.at)
	}
	if c.cur.samples >= c.stream.Window.Samples {
		c.count.overflow.Add(1)
		return done
	}
	for i, v := range sample {
		c.cur.values[i] = append(c.cur.values[i], v)
	}
	c.cur.samples++
	c.count.samples.Add(1)
	if !c.stream.Window.ByTime() {
		c.cur.end = r.at
		if c.cur.samples == c.stream.Window.Samples {
			finish()
		}
	}
	return done
}

func (c *collector) open(at time.Time) {
	w := c.empty()
	w.start, w.end = at, at
	if every := c.stream.Window.Every; every > 0 {
		w.start = time.Unix(0, c.bucket*int64(every)).UTC()
		w.end = w.start.Add(every)
	}
	clear(c.warned)
	c.cur = w
}

// empty is a window without samples, with room for all.
func (c *collector) empty() *window {
	if c.free != nil {
		if w, ok := c.free.Get().(*window); ok {
			return w
		}
	}
	w := &window{values: make([][]float64, len(c.stream.Channels))}
	for i := range w.values {
		w.values[i] = make([]float64, 0, c.stream.Window.Samples)
	}
	return w
}

// reuse wipes a window and keeps its memory for another one of the stream.
func (s *stream) reuse(w *window) {
	for i, v := range w.values {
		clear(v)
		w.values[i] = v[:0]
	}
	*w = window{values: w.values}
	s.windows.Put(w)
}

// wipe overwrites the values that outlive a window.
func (c *collector) wipe() {
	clear(c.held)
	clear(c.sample)
}

// flush gives the current window, however full, or nil when it is empty.
func (c *collector) flush() *window {
	w := c.cur
	c.cur = nil
	if w != nil {
		w.cursor = c.cursor
	}
	return w
}

// bucketOf is the number of the interval of Unix time that t lies in.
func bucketOf(t time.Time, every time.Duration) int64 {
	ns, e := t.UnixNano(), int64(every)
	b := ns / e
	if ns%e < 0 {
		b--
	}
	return b
}

// policies turns a row into a sample with every value in range, which is valid
// until the next call; ok is false when the sample is to be left out.
func (c *collector) policies(r row) (sample []float64, ok bool) {
	if c.sample == nil {
		c.sample = make([]float64, len(c.stream.Channels))
	}
	sample, ok = c.sample, true
	for i, ch := range c.stream.Channels {
		v, err := r.values[i], r.errs[i]
		if math.IsNaN(v) {
			c.note(i, "a sample is missing", "error", err)
		} else if v < ch.Range[0] || v > ch.Range[1] {
			c.count.outside.Add(1)
			// The value itself is secret: a log is read by others than results.
			c.note(i, "a value is out of range", "min", ch.Range[0], "max", ch.Range[1], "policy", ch.OnRange)
			if ch.OnRange == config.OutsideMissing {
				err = errOutside
				v = math.NaN()
			} else {
				v = min(max(v, ch.Range[0]), ch.Range[1])
				c.count.clamped.Add(1)
			}
		}
		if !math.IsNaN(v) {
			c.count.troubles.note(i, nil)
			sample[i], c.held[i] = v, v
			continue
		}
		if err == nil {
			err = sensor.ErrReading
		}
		c.count.troubles.note(i, err)
		c.count.missing.Add(1)
		switch {
		case ch.OnMissing == config.MissingMark && ch.MissingValue != nil:
			sample[i] = *ch.MissingValue
		case ch.OnMissing == config.MissingSkip || math.IsNaN(c.held[i]):
			ok = false
		default:
			sample[i] = c.held[i]
			c.count.held.Add(1)
		}
	}
	return sample, ok
}

// note logs the first trouble of a channel in a window.
func (c *collector) note(channel int, msg string, args ...any) {
	if c.warned[channel] {
		return
	}
	c.warned[channel] = true
	c.log.Warn(msg, append([]any{"channel", c.stream.Channels[channel].Name}, args...)...)
}

// fillSlots normalises and packs a window: sample i of channel k is
// u = (x-mid)/half in [-1, 1], in slot k*stride+i. Slots without a sample stay 0.
func fillSlots(out []float64, s config.Stream, values [][]float64) {
	for k, ch := range s.Channels {
		mid, half := ch.Affine()
		for i, x := range values[k] {
			out[k*s.Stride()+i] = min(max((x-mid)/half, -1), 1)
		}
	}
}
