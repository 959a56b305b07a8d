package source

import (
	"context"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// smallestStep is the least change of the wall clock that counts as a step:
// slewing it, as time synchronisation does, changes it by less between samples.
const smallestStep = time.Second

// firstSample is how long after the start the first sample is taken at the
// latest: long enough for the rates of processors, which count in hundredths of
// a second, and for devices nearby.
const firstSample = 250 * time.Millisecond

// live samples sensors on monotonic ticks.
type live struct {
	unrepeatable
	clock    role.Clock
	reader   *sensor.Reader
	sources  []config.Source
	counters *Counters

	started bool
	start   time.Duration // monotonic
	tick    int64         // of the last sample
	lead    time.Duration // of the wall clock before the monotonic one at the last sample
}

// OpenLive opens the sensors of a stream. errs has one entry for each channel.
func OpenLive(m sensor.Machine, s config.Stream, counters *Counters) (src Source, errs []error) {
	l := &live{unrepeatable: unrepeatable{s.Interval}, clock: m.Clock, counters: counters}
	for _, ch := range s.Channels {
		l.sources = append(l.sources, *ch.Source)
	}
	l.reader, errs = m.OpenChannels(s)
	return l, errs
}

// Trouble returns nil: each channel has troubles of its own.
func (l *live) Trouble() (time.Time, error) { return time.Time{}, nil }

// Periodic returns true.
func (l *live) Periodic() bool { return true }

// Close gives the sensors up.
func (l *live) Close() error {
	l.reader.Close()
	return nil
}

// due returns when the tick at hand is, on the monotonic clock.
func (l *live) due() time.Duration { return l.start + time.Duration(l.tick)*l.interval }

// overdue passes over ticks until the one at hand is late by less than an interval, and
// gives their number.
func (l *live) overdue() int64 {
	lost := int64((l.clock.Mono() - l.due()) / l.interval)
	if lost <= 0 {
		return 0
	}
	l.counters.missedTicks.Add(uint64(lost))
	l.tick += lost
	return lost
}

// Next waits for the next tick and reads every sensor. The first call reads
// once in advance, to give rates something to compare with and inputs a reason
// to start; the first sample is one interval later, or firstSample where that is
// shorter. Ticks that have passed by a whole interval or
// more are left out.
func (l *live) Next(ctx context.Context) (Row, error) {
	if !l.started {
		// Tick 1, an interval after start, is the first sample.
		l.started, l.start = true, l.clock.Mono()+min(l.interval, firstSample)-l.interval
		// Only the baseline counts.
		if err := l.reader.Read(ctx, func(int, float64, error) {}); err != nil {
			return Row{}, err
		}
	}
	l.tick++
	lost := l.overdue()
	if err := l.clock.Sleep(ctx, l.due()-l.clock.Mono()); err != nil {
		return Row{}, err
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
		return Row{}, err
	}
	return out, nil
}
