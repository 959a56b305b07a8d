package daemon

import (
	"fmt"
	"sync"
	"time"
)

// Pulse knows which pieces of work have begun and not ended. It tells work that hangs, such
// as on a device that does not answer, from a service that waits for something to do. The
// zero value is ready to use. Pulse is safe for concurrent use.
type Pulse struct {
	mu   sync.Mutex
	last int
	open map[int]step
}

type step struct {
	what  string
	began time.Time
}

// Begin records the start of a piece of work. end must be called when it is over.
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

// Stalled returns doing with the name of a piece of work and its time so far, if one takes
// limit or longer; otherwise "". doing has the verbs %s and %v.
func (p *Pulse) Stalled(limit time.Duration, doing string) string {
	what, took := p.Oldest()
	if what == "" || took < limit {
		return ""
	}
	return fmt.Sprintf(doing, what, took.Round(time.Second))
}

// Oldest returns the piece of work that has taken longest so far, or "".
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
