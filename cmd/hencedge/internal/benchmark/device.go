package benchmark

import (
	"context"
	"slices"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

// How device time is measured: runs of calls between two events, long enough
// that the events do not count, and few enough calls that they fit the queue.
const (
	runTime  = 400 * time.Microsecond // of a run, at least
	maxCalls = 32                     // of a run, at most
	minRuns  = 20
	maxRuns  = 2000
)

// measureDevice times f(0), f(1), ... f(sets-1), f(0), ... by events: each sample
// is the time of one run over its calls. The sets were used before. With alone
// set a run is one call.
func measureDevice(ctx context.Context, m cutrantt.Meter, minTime time.Duration, sets int, alone bool, f func(set int) error) (stats, error) {
	next := 0
	run := func(calls int) (time.Duration, error) {
		d, err := m.Time(func() error {
			for range calls {
				if err := f(next % sets); err != nil {
					return err
				}
				next++
			}
			return nil
		})
		return d / time.Duration(calls), err
	}
	calls := 1
	if !alone {
		d, err := run(4)
		if err != nil {
			return stats{}, err
		}
		calls = int(min(maxCalls, runTime/max(d, 1)+1))
	}
	var samples []time.Duration
	for start := time.Now(); len(samples) < minRuns || len(samples) < maxRuns && time.Since(start) < minTime; {
		if err := ctx.Err(); err != nil {
			return stats{}, err
		}
		d, err := run(calls)
		if err != nil {
			return stats{}, err
		}
		samples = append(samples, d)
	}
	s := summarise(samples)
	s.iters *= calls
	return s, nil
}

// parts are the times of the parts of a call, by name.
type parts struct{ samples map[string][]time.Duration }

// time runs one part.
func (p *parts) time(name string, f func() error) error {
	start := time.Now()
	err := f()
	if p.samples == nil {
		p.samples = map[string][]time.Duration{}
	}
	p.samples[name] = append(p.samples[name], time.Since(start))
	return err
}

// medians are in microseconds.
func (p *parts) medians() map[string]float64 {
	out := map[string]float64{}
	for name, s := range p.samples {
		s = slices.Clone(s)
		out[name] = us(summarise(s).median)
	}
	return out
}
