package keyholder

import (
	"fmt"
	"time"
)

// order follows the times of a program's results. Missing samples leave a gap. Samples from
// an old copy of a spool or a file come again, under other numbers.
type order struct {
	start, end time.Time     // of the newest result
	step       time.Duration // from the one before
	part, full uint32        // samples from start on, and of the largest result
	gaps       uint64
	missing    time.Duration
	backward   uint64
}

// note takes a result that was read. It returns what is wrong with its time, or "".
func (o *order) note(r *Result) string {
	o.full = max(o.full, r.Samples)
	if o.start.IsZero() {
		o.start, o.end, o.part = r.Start, r.End, r.Samples
		return ""
	}
	if r.Start.Equal(o.start) && r.Samples > 0 && o.part+r.Samples <= o.full {
		o.part += r.Samples // the rest of an interval in which the device was reloaded
		return ""
	}
	if !r.Start.After(o.start) {
		o.backward++
		return fmt.Sprintf("it begins at %s, but one from %s was already read: it came late, or its samples were "+
			"sent again, by a device or replay whose state or spool is an old copy, or by a second board",
			r.Start.UTC().Format(time.RFC3339), o.start.UTC().Format(time.RFC3339))
	}
	step, gap, usual := r.Start.Sub(o.start), r.Start.Sub(o.end), o.step
	before := o.end
	o.start, o.end, o.step, o.part = r.Start, r.End, step, r.Samples
	if usual == 0 || 2*step <= 3*usual || 2*gap <= r.End.Sub(r.Start) {
		return ""
	}
	o.gaps++
	o.missing += gap
	return fmt.Sprintf("there is nothing from %s to %s, %v: no samples were taken, or their windows or results "+
		"were lost; the evaluator's and the agent's status say more",
		before.UTC().Format(time.RFC3339), r.Start.UTC().Format(time.RFC3339), gap.Round(time.Second))
}
