package transport

import "sync"

// Refusals remember why objects were refused, for the newest so many, so that a sender
// that asks is told. It is safe for concurrent use.
type Refusals struct {
	limit int

	mu      sync.Mutex
	reasons map[[32]byte]string
	order   [][32]byte // oldest first
}

// NewRefusals makes a memory of limit objects.
func NewRefusals(limit int) *Refusals {
	return &Refusals{limit: limit, reasons: map[[32]byte]string{}}
}

// Add notes why an object was refused.
func (r *Refusals) Add(object [32]byte, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.reasons[object]; !known {
		r.order = append(r.order, object)
	}
	r.reasons[object] = reason
	if len(r.order) > r.limit {
		delete(r.reasons, r.order[0])
		r.order = r.order[1:]
	}
}

// Reason is why an object was refused; empty for one that was not, or is forgotten.
func (r *Refusals) Reason(object [32]byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reasons[object]
}
