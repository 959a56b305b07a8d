package agent

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// row is one sample of every channel of a stream.
type row struct {
	at     time.Time
	values []float64 // in the channels' units; NaN where missing
	errs   []error   // why a value is missing
	cursor position  // in a replay, after this row; zero for sensors
	lost   int64     // ticks before this one at which no sample was taken
	// tick says that this is no sample, only the time: windows that have ended may go.
	tick bool
	// stepped says that the wall clock has moved against the monotonic one
	// since the last row: it was set, or the machine slept.
	stepped bool
}

// rowSource gives the samples of a stream. next blocks until a sample is due;
// it fails with the context's error, with io.EOF at the end, or for good.
type rowSource interface {
	next(ctx context.Context) (row, error)
	close() error
}

// newRow is a row in which every value is missing.
func newRow(at time.Time, channels int) row {
	r := row{at: at, values: make([]float64, channels), errs: make([]error, channels)}
	for i := range r.values {
		r.values[i] = math.NaN()
	}
	return r
}

func (r *row) miss(i int, err error) { r.values[i], r.errs[i] = math.NaN(), err }

// set converts a reading to the channel's unit.
func (r *row) set(i int, src config.Source, reading float64) {
	scale := src.Scale
	if scale == 0 {
		scale = 1
	}
	v := reading*scale + src.Offset
	if math.IsNaN(v) || math.IsInf(v, 0) {
		r.miss(i, fmt.Errorf("%w: the value is not finite", sensor.ErrReading))
		return
	}
	r.values[i], r.errs[i] = v, nil
}

// smallestStep is the least change of the wall clock that counts as a step:
// slewing it, as time synchronisation does, changes it by less between samples.
const smallestStep = time.Second

// firstSample is how long after the start the first sample is taken at the
// latest: long enough for the rates of processors, which count in hundredths of
// a second, and for devices nearby.
const firstSample = 250 * time.Millisecond

// live samples sensors on monotonic ticks.
type live struct {
	clock    role.Clock
	interval time.Duration
	reader   *sensor.Reader
	sources  []config.Source
	missed   func(ticks int64)

	started bool
	start   time.Duration // monotonic
	tick    int64         // of the last sample
	lead    time.Duration // of the wall clock before the monotonic one at the last sample
}

// openLive opens the sensors of a stream; errs has one entry per channel.
func openLive(m sensor.Machine, s config.Stream) (l *live, errs []error) {
	l = &live{clock: m.Clock, interval: s.Interval, missed: func(int64) {}}
	for _, ch := range s.Channels {
		l.sources = append(l.sources, *ch.Source)
	}
	l.reader, errs = m.OpenChannels(s)
	return l, errs
}

func (l *live) close() error {
	l.reader.Close()
	return nil
}

// due is when the tick at hand is, on the monotonic clock.
func (l *live) due() time.Duration { return l.start + time.Duration(l.tick)*l.interval }

// overdue passes over ticks until the one at hand is late by less than an interval, and
// gives their number.
func (l *live) overdue() int64 {
	lost := int64((l.clock.Mono() - l.due()) / l.interval)
	if lost <= 0 {
		return 0
	}
	l.missed(lost)
	l.tick += lost
	return lost
}

// next waits for the next tick and reads every sensor. The first call reads
// once in advance, to give rates something to compare with and inputs a reason
// to start; the first sample is one interval later, or firstSample where that is
// shorter. Ticks that have passed by a whole interval or
// more are left out.
func (l *live) next(ctx context.Context) (row, error) {
	if !l.started {
		// Tick 1, an interval after start, is the first sample.
		l.started, l.start = true, l.clock.Mono()+min(l.interval, firstSample)-l.interval
		// Only the baseline counts.
		if err := l.reader.Read(ctx, func(int, float64, error) {}); err != nil {
			return row{}, err
		}
	}
	l.tick++
	lost := l.overdue()
	if err := l.clock.Sleep(ctx, l.due()-l.clock.Mono()); err != nil {
		return row{}, err
	}
	lost += l.overdue() // the process, or the machine, may have stood still
	mono, now := role.Both(l.clock)
	// The time is that of the tick: how much later this goroutine runs is not the same
	// each time, and would put one tick more into some windows by time than they hold.
	out := newRow(now.Add(l.due()-mono), len(l.sources))
	out.lost = lost
	lead := time.Duration(now.UnixNano()) - mono
	out.stepped = l.tick > 1+lost && (lead-l.lead).Abs() >= max(l.interval, smallestStep)
	l.lead = lead
	if err := l.reader.Read(ctx, func(i int, v float64, err error) {
		if err != nil {
			out.miss(i, err)
		} else {
			out.set(i, l.sources[i], v)
		}
	}); err != nil {
		return row{}, err
	}
	return out, nil
}
