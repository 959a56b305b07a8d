package source

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
)

// Collector turns rows into windows and applies the policies for values that
// are missing or out of range.
type Collector struct {
	stream config.Stream
	count  *Counters
	log    *slog.Logger

	held     []float64 // last good value per channel; NaN before the first
	warned   []bool    // per channel, in this window
	sample   []float64 // of the row at hand
	cur      *Window
	bucket   int64
	last     time.Time
	position Position // of the last row

	free sync.Pool // of *Window that are done with
}

// Window is a finished window in physical units.
type Window struct {
	Start, End time.Time
	Samples    int
	Values     [][]float64 // by channel, then sample; within the channels' ranges
	Position   Position    // of the last row that it was made of, or that was left out after it
}

// NewCollector returns a collector of a stream's rows. It counts what becomes of them.
func NewCollector(s config.Stream, count *Counters, log *slog.Logger) *Collector {
	c := &Collector{stream: s, count: count, log: log, held: make([]float64, len(s.Channels)),
		warned: make([]bool, len(s.Channels))}
	for i := range c.held {
		c.held[i] = math.NaN()
	}
	return c
}

// Add takes one row, in the order of time except for steps of the clock, and
// returns the windows that it finishes, oldest first.
func (c *Collector) Add(r Row) (done []*Window) {
	finish := func() {
		if w := c.Flush(); w != nil {
			done = append(done, w)
		}
	}
	if r.tick {
		if b := bucketOf(r.At, c.stream.Window.Every); c.cur != nil && b != c.bucket {
			if b < c.bucket {
				c.clockStep(r.At)
			}
			finish()
		}
		return done
	}
	if c.cur != nil && (r.stepped || r.At.Before(c.last)) {
		c.clockStep(r.At)
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
func (c *Collector) clockStep(to time.Time) {
	c.count.clockSteps.Add(1)
	c.log.Warn("the clock was set or the machine slept; the window ends early", "from", c.last, "to", to)
}

// mark puts missing samples in the place of lost ones, as far as they belong to
// the present window.
func (c *Collector) mark(r Row) (done []*Window) {
	for k := r.lost; k > 0 && c.cur != nil && c.cur.Samples < c.stream.Window.Samples; k-- {
		gap := newRow(r.At.Add(-time.Duration(k)*c.stream.Interval), len(r.Values))
		if c.stream.Window.ByTime() && bucketOf(gap.At, c.stream.Window.Every) != c.bucket {
			break
		}
		for i := range gap.errs {
			gap.errs[i] = errLost
		}
		c.count.marked.Add(1)
		before := c.cur.Samples
		if done = append(done, c.put(gap)...); c.cur != nil && c.cur.Samples == before {
			break // the policy leaves such samples out
		}
	}
	return done
}

var errOutside = fmt.Errorf("%w: it is out of range", sensor.ErrReading)

var errLost = fmt.Errorf("%w: no sample was taken", sensor.ErrReading)

// put puts one row into the window that it belongs to.
func (c *Collector) put(r Row) (done []*Window) {
	finish := func() {
		if w := c.Flush(); w != nil {
			done = append(done, w)
		}
	}
	if c.stream.Window.ByTime() {
		b := bucketOf(r.At, c.stream.Window.Every)
		if c.cur != nil && b != c.bucket {
			finish()
		}
		c.bucket = b
	}
	c.last, c.position = r.At, r.position
	sample, ok := c.policies(r)
	if !ok {
		c.count.skipped.Add(1)
		return done
	}
	if c.cur == nil {
		c.open(r.At)
	}
	if c.cur.Samples >= c.stream.Window.Samples {
		c.count.overflow.Add(1)
		return done
	}
	for i, v := range sample {
		c.cur.Values[i] = append(c.cur.Values[i], v)
	}
	c.cur.Samples++
	c.count.samples.Add(1)
	if !c.stream.Window.ByTime() {
		c.cur.End = r.At
		if c.cur.Samples == c.stream.Window.Samples {
			finish()
		}
	}
	return done
}

func (c *Collector) open(at time.Time) {
	w := c.empty()
	w.Start, w.End = at, at
	if every := c.stream.Window.Every; every > 0 {
		w.Start = time.Unix(0, c.bucket*int64(every)).UTC()
		w.End = w.Start.Add(every)
	}
	clear(c.warned)
	c.cur = w
}

// empty returns a window without samples, with room for all.
func (c *Collector) empty() *Window {
	if w, ok := c.free.Get().(*Window); ok {
		return w
	}
	w := &Window{Values: make([][]float64, len(c.stream.Channels))}
	for i := range w.Values {
		w.Values[i] = make([]float64, 0, c.stream.Window.Samples)
	}
	return w
}

// Reuse wipes a window and keeps its memory for another one of the stream. It is safe for
// concurrent use with the other methods.
func (c *Collector) Reuse(w *Window) {
	for i, v := range w.Values {
		clear(v)
		w.Values[i] = v[:0]
	}
	*w = Window{Values: w.Values}
	c.free.Put(w)
}

// Wipe overwrites the values that outlive a window.
func (c *Collector) Wipe() {
	clear(c.held)
	clear(c.sample)
}

// Flush returns the current window, however full, or nil when it is empty.
func (c *Collector) Flush() *Window {
	w := c.cur
	c.cur = nil
	if w != nil {
		w.Position = c.position
	}
	return w
}

// policies turns a row into a sample with every value in range, which is valid
// until the next call; ok is false when the sample is to be left out.
func (c *Collector) policies(r Row) (sample []float64, ok bool) {
	if c.sample == nil {
		c.sample = make([]float64, len(c.stream.Channels))
	}
	sample, ok = c.sample, true
	for i, ch := range c.stream.Channels {
		v := r.Values[i]
		var err error
		if r.errs != nil {
			err = r.errs[i]
		}
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
			c.count.note(i, nil)
			sample[i], c.held[i] = v, v
			continue
		}
		if err == nil {
			err = sensor.ErrReading
		}
		c.count.note(i, err)
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
func (c *Collector) note(channel int, msg string, args ...any) {
	if c.warned[channel] {
		return
	}
	c.warned[channel] = true
	c.log.Warn(msg, append([]any{"channel", c.stream.Channels[channel].Name}, args...)...)
}

// FillSlots normalises and packs a window: sample i of channel k is
// u = (x-mid)/half in [-1, 1], in slot k*stride+i. Slots without a sample stay 0. Of a
// histogram the slots hold counts instead, as config.Grid says. out must be zero.
func FillSlots(out []float64, s config.Stream, values [][]float64) {
	if s.Histogram() {
		fillCounts(out, s, values)
		return
	}
	for k, ch := range s.Channels {
		mid, half := ch.Affine()
		for i, x := range values[k] {
			out[k*s.Stride()+i] = min(max((x-mid)/half, -1), 1)
		}
	}
}

// fillCounts puts how many samples are in each cell or above into the slots of every channel.
// The sums are exact: multiples of a power of two, at most 1.
func fillCounts(out []float64, s config.Stream, values [][]float64) {
	unit, stride := s.CountUnit(), s.Stride()
	for k, ch := range s.Channels {
		grid, err := ch.Grid()
		if err != nil {
			continue // no configuration passes with such a channel
		}
		counts := out[k*stride : k*stride+grid.Slots()]
		for _, x := range values[k] {
			if cell := grid.Cell(x); cell > 0 {
				counts[cell-1] += unit
			}
		}
		for i := len(counts) - 2; i >= 0; i-- {
			counts[i] += counts[i+1]
		}
	}
}
