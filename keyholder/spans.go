package keyholder

import (
	"time"

	"github.com/hencedge/hencedge/internal/traces"
	"github.com/hencedge/hencedge/transport"
)

// tracedTaken exports the arrival and the verification of the results of an object.
func (w *watch) tracedTaken(obj *transport.Object, results []transport.Meta, s transport.Staged, arrived,
	verified time.Time) {
	if w.o.Traces == nil {
		return
	}
	for i := range results {
		m := &results[i]
		span, ok := traces.Result(m, obj.ID, len(s.Sealed))
		if !ok || !w.o.Traces.Wants(span.Window) {
			continue
		}
		span.Parent = traces.Published(obj.ID, m.Program, m.Subject)
		span.Name, span.Start, span.End = "receive", arrived.Add(-s.Took), arrived
		w.o.Traces.Add(span)
		span.Name, span.Start, span.End = "verify", arrived, verified
		w.o.Traces.Add(span)
	}
}

// tracedResult exports a step of a result that was decrypted: when, and nothing of what it says. A
// result that cannot be read has none.
func (w *watch) tracedResult(name string, r *Result, start, end time.Time) {
	if len(r.Inputs) == 0 || !w.o.Traces.Wants(r.Inputs[0]) {
		return
	}
	w.o.Traces.Add(traces.Span{Name: name, Window: r.Inputs[0], Links: r.Inputs[1:], Device: r.Device,
		Program: r.Program, Object: r.ID, Sequence: r.Sequence, Bytes: r.Size(), Start: start, End: end,
		Parent: traces.Published(r.ID, r.Program, r.Device)})
}
