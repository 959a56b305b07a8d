package benchmark

import (
	"context"
	"slices"
	"time"

	"github.com/hencedge/hencedge/internal/meter"
)

// How device time is measured: runs of calls between two events, long enough
// that the events do not count, and few enough calls that they fit the queue, or a
// graph.
const (
	runTime    = 400 * time.Microsecond // of a run, at least
	maxCalls   = 32                     // of a run, at most
	graphTime  = time.Millisecond       // of a run that is one graph, at least
	maxKernels = 1024                   // of a run that is one graph, at most, if it has more than one call
	minRuns    = 20
	maxRuns    = 2000
)

// measureDevice times f(0), f(1), ... f(sets-1), f(0), ... by events: each sample
// is the time of one run over its calls. The sets were used before; a call launches
// so many kernels. With alone set a run is one call. graphCalls is how many calls a
// run has that the device worked off as one graph, and 0 where it did not.
func measureDevice(ctx context.Context, m meter.Meter, minTime time.Duration, sets int, launches uint64, alone bool,
	f func(set int) error) (s stats, graphCalls int, err error) {
	next := 0
	of := func(calls int) func() error {
		return func() error {
			for range calls {
				if err := f(next % sets); err != nil {
					return err
				}
				next++
			}
			return nil
		}
	}
	run := func(calls int) (time.Duration, error) {
		d, err := m.Time(of(calls))
		return d / time.Duration(calls), err
	}
	calls := 1
	if !alone {
		if graphCalls, err = callsOfGraph(m, sets, launches, of); err != nil {
			return stats{}, 0, err
		}
		calls = graphCalls
	}
	if graphCalls > 0 {
		run = func(calls int) (time.Duration, error) {
			d, _, err := m.TimeRun(of(calls), of(calls))
			return d / time.Duration(calls), err
		}
	} else if !alone {
		d, err := run(4)
		if err != nil {
			return stats{}, 0, err
		}
		calls = int(min(maxCalls, runTime/max(d, 1)+1))
	}
	var samples []time.Duration
	for start := time.Now(); len(samples) < minRuns || len(samples) < maxRuns && time.Since(start) < minTime; {
		if err := ctx.Err(); err != nil {
			return stats{}, 0, err
		}
		d, err := run(calls)
		if err != nil {
			return stats{}, 0, err
		}
		samples = append(samples, d)
	}
	s = summarise(samples)
	s.iters *= calls
	return s, graphCalls, nil
}

// callsOfGraph is how many calls make a run that the device works off as one graph: all
// sets as often as the time asks for, if the graph then is not too large, so that every
// run finds its inputs where the others did and is the same graph. It is 0 where there
// are no graphs, or calls do more than launch kernels.
func callsOfGraph(m meter.Meter, sets int, launches uint64, of func(calls int) func() error) (int, error) {
	most := int(max(maxKernels/max(launches, 1), 1))
	calls := min(sets, most)
	d, parts, err := m.TimeRun(of(calls), of(calls))
	if err != nil || parts != 1 {
		return 0, err
	}
	rounds := int(graphTime/max(d, 1)) + 1
	if calls < sets { // already too large
		return calls, nil
	}
	return min(rounds, max(most/sets, 1)) * sets, nil
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
