package source

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Counters are the live counts of a stream's samples, and the troubles of its channels.
type Counters struct {
	Troubles

	samples, skipped, missing, held, outside, clamped, overflow, late, marked atomic.Uint64
	badCells, badRows                                                         atomic.Uint64 // of a replay
	missedTicks, clockSteps                                                   atomic.Uint64
}

// Stats are the counts of a stream's samples since the start.
type Stats struct {
	Samples     uint64 // samples that went into windows
	Skipped     uint64 // samples left out: by policy, before the first good value, messages without a usable time
	Missing     uint64 // channel values that could not be read
	Held        uint64 // of these, replaced by the last good value
	Outside     uint64 // channel values out of range
	Clamped     uint64 // of these, moved to the end of the range
	Overflow    uint64 // samples beyond the capacity of a window by time
	Late        uint64 // samples that came too late for their window
	BadCells    uint64 // cells of a replay that are not numbers, taken as missing
	BadRows     uint64 // rows of a replay left out because of a cell
	MissedTicks uint64 // ticks left out because sampling was late
	Marked      uint64 // of these, replaced by missing samples
	ClockSteps  uint64 // windows cut short because the clock was set or the machine slept
}

// Stats returns the counts so far.
func (c *Counters) Stats() Stats {
	return Stats{
		Samples: c.samples.Load(), Skipped: c.skipped.Load(), Missing: c.missing.Load(), Held: c.held.Load(),
		Outside: c.outside.Load(), Clamped: c.clamped.Load(), Overflow: c.overflow.Load(), Late: c.late.Load(),
		BadCells: c.badCells.Load(), BadRows: c.badRows.Load(), MissedTicks: c.missedTicks.Load(),
		Marked:     c.marked.Load(),
		ClockSteps: c.clockSteps.Load(),
	}
}

// Samples returns how many samples went into windows so far.
func (c *Counters) Samples() uint64 { return c.samples.Load() }

// Troubles are the channels of a stream without a value, by their index.
type Troubles struct {
	present atomic.Bool // the map is not empty
	mu      sync.Mutex
	list    map[int]Trouble
}

// Trouble is why a channel has no usable value at the moment.
type Trouble struct {
	Since time.Time // with its monotonic reading
	Err   error
}

// Trouble returns the channels without a value, by their index.
func (t *Troubles) Trouble() map[int]Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.list)
}

// note takes the outcome of a channel's newest sample.
func (t *Troubles) note(channel int, err error) {
	if err == nil && !t.present.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.list, channel)
	} else {
		now, ok := t.list[channel]
		if !ok {
			now.Since = time.Now()
		}
		now.Err = err
		if t.list == nil {
			t.list = map[int]Trouble{}
		}
		t.list[channel] = now
	}
	t.present.Store(len(t.list) > 0)
}
