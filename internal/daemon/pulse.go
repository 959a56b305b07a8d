package daemon

import (
	"sync"
	"time"
)

// Pulse knows which pieces of work have begun and not ended, so that one that hangs
// (a device that does not answer, say) can be told from a service that waits for
// something to do. The zero value is ready. It is safe for concurrent use.
type Pulse struct {
	mu   sync.Mutex
	last int
	open map[int]step
}

type step struct {
	what  string
	began time.Time
}

// Begin notes that a piece of work begins; end must be called when it is over.
func (p *Pulse) Begin(what string) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[int]step{}
	}
	p.last++
	n := p.last
	p.open[n] = step{what, time.Now()}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, n)
	}
}

// Oldest is the piece of work that has taken longest so far; "" when there is none.
func (p *Pulse) Oldest() (what string, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		if d := time.Since(s.began); what == "" || d > took {
			what, took = s.what, d
		}
	}
	return what, took
}
