package transport

import "sync"

// Refusals remember why the newest objects were refused, to answer senders that ask. It is
// safe for concurrent use.
type Refusals struct {
	limit int

	mu      sync.Mutex
	reasons map[[32]byte]Refusal
	order   [][32]byte // oldest first
}

// Refusal says why an object was refused.
type Refusal struct {
	Reason string // a label of Reasons or of the receiver's own; empty: it was not refused
	Detail string // what differs, for people; may be empty
}

// NewRefusals returns Refusals for the newest limit objects.
func NewRefusals(limit int) *Refusals {
	return &Refusals{limit: limit, reasons: map[[32]byte]Refusal{}}
}

// Add notes why an object was refused.
func (r *Refusals) Add(object [32]byte, why Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.reasons[object]; !known {
		r.order = append(r.order, object)
	}
	r.reasons[object] = why
	if len(r.order) > r.limit {
		delete(r.reasons, r.order[0])
		r.order = r.order[1:]
	}
}

// Get returns why an object was refused, or an empty Refusal if it was not or is forgotten.
func (r *Refusals) Get(object [32]byte) Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reasons[object]
}
