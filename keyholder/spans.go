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
		if !ok || !w.o.Traces.Takes(&span) {
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
	span, ok := traces.Result(&transport.Meta{Inputs: r.Inputs, Fleet: r.Fleet, Subject: r.Device, Program: r.Program,
		Sequence: r.Sequence}, r.ID, r.Size())
	if !ok || !w.o.Traces.Takes(&span) {
		return
	}
	span.Name, span.Start, span.End, span.Parent = name, start, end, traces.Published(r.ID, r.Program, r.Device)
	w.o.Traces.Add(span)
}
