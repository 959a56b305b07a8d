package agent

import (
	"sync/atomic"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// streamCounters are the live counts of one stream.
type streamCounters struct {
	samples, skipped, missing, held, outside, clamped, overflow, late, marked atomic.Uint64
	badCells, badRows                                                         atomic.Uint64 // of a replay
	missedTicks, clockSteps                                                   atomic.Uint64
	windows, partial, encryptErrors                                           atomic.Uint64
	bodyBytes, objectBytes, encryptNanos, gapNanos                            atomic.Uint64
	troubles                                                                  troubles
}

// StreamStats are the counts of one stream since the start.
type StreamStats struct {
	Samples      uint64 // samples that went into windows
	Skipped      uint64 // samples left out: by policy, before the first good value, messages without a usable time
	Missing      uint64 // channel values that could not be read
	Held         uint64 // of these, replaced by the last good value
	Outside      uint64 // channel values out of range
	Clamped      uint64 // of these, moved to the end of the range
	Overflow     uint64 // samples beyond the capacity of a window by time
	Late         uint64 // samples that came too late for their window
	BadCells     uint64 // cells of a replay that are not numbers, taken as missing
	BadRows      uint64 // rows of a replay left out because of a cell
	MissedTicks  uint64 // ticks left out because sampling was late
	Marked       uint64 // of these, replaced by missing samples
	ClockSteps   uint64 // windows cut short because the clock was set or the machine slept
	Windows      uint64 // windows sealed
	Partial      uint64 // of these, with fewer samples than the window holds
	Errors       uint64 // windows lost because they could not be encrypted or sealed
	BodyBytes    uint64 // of ciphertexts
	ObjectBytes  uint64 // of sealed objects
	EncryptNanos uint64 // time spent encoding and encrypting
	GapNanos     uint64 // time before this start for which there are no samples
}

func (c *streamCounters) stats() StreamStats {
	return StreamStats{
		Samples: c.samples.Load(), Skipped: c.skipped.Load(), Missing: c.missing.Load(), Held: c.held.Load(),
		Outside: c.outside.Load(), Clamped: c.clamped.Load(), Overflow: c.overflow.Load(),
		Late: c.late.Load(), Marked: c.marked.Load(), MissedTicks: c.missedTicks.Load(), ClockSteps: c.clockSteps.Load(),
		BadCells: c.badCells.Load(), BadRows: c.badRows.Load(),
		Windows: c.windows.Load(), Partial: c.partial.Load(), Errors: c.encryptErrors.Load(),
		BodyBytes: c.bodyBytes.Load(), ObjectBytes: c.objectBytes.Load(), EncryptNanos: c.encryptNanos.Load(), GapNanos: c.gapNanos.Load(),
	}
}

// Stats are the counts of an agent since the start.
type Stats struct {
	Boot      uint64 // boot epoch of this start
	Streams   map[string]StreamStats
	Inputs    map[string]sensor.InputStats
	Spool     spool.Stats
	Delivery  delivery.Stats
	Sent      uint64 // objects delivered, at the acknowledgement level of their streams
	SentBytes uint64 // their bytes, before chunking
	Retries   uint64 // sends that failed and were tried again
	Refused   uint64 // objects dropped because they can never be sent
	Fallbacks uint64 // devices that failed while they encrypted
}
