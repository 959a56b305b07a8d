package agent

import (
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/internal/traces"
	"github.com/hencedge/hencedge/transport"
)

// maxTraced bounds the windows whose delivery is waited for. Beyond that those that wait are
// forgotten: they lack the span of their delivery.
const maxTraced = 1024

// tracing exports the steps of windows. The zero value is off.
type tracing struct {
	out *traces.Tracer // nil: off

	mu      sync.Mutex
	waiting map[[32]byte]waiting // by object: sealed and not delivered yet
}

// waiting is a window between its encryption and its delivery.
type waiting struct {
	span  traces.Span
	since time.Time
}

// sealed exports the sampling of a window, from start to end, and its encryption, which was over
// at now.
func (t *tracing) sealed(s *seal.Sealed, start, end, now time.Time) {
	if t.out == nil { // the id costs a hash
		return
	}
	id := transport.ObjectID(s.Object)
	if !t.out.Wants(id) {
		return
	}
	span := traces.Reading(&s.Meta, id, len(s.Object))
	read, encrypt := span, span
	read.Name, read.ID, read.Start, read.End = "read", traces.Window(id), start, end
	encrypt.Name, encrypt.Start, encrypt.End = "encrypt", now.Add(-s.Encrypt), now
	t.out.Add(read)
	t.out.Add(encrypt)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil || len(t.waiting) >= maxTraced {
		t.waiting = map[[32]byte]waiting{}
	}
	t.waiting[id] = waiting{span, now}
}

// delivered exports the delivery of a window: its time in the spool and on the way.
func (t *tracing) delivered(id [32]byte, now time.Time) {
	t.mu.Lock()
	w, ok := t.waiting[id]
	delete(t.waiting, id)
	t.mu.Unlock()
	if ok {
		w.span.Name, w.span.Start, w.span.End = "publish", w.since, now
		t.out.Add(w.span)
	}
}
