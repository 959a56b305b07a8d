package store

import (
	"sync"
	"time"
)

// Delays between the windows that are let through to a store that takes nothing.
const (
	firstProbe = time.Second
	lastProbe  = time.Minute
)

// pressure knows whether a store takes windows. While it does not, senders are told to
// wait, so that a full disk here does not cost them the same megabytes again and again.
// Now and then one of them may try.
type pressure struct {
	mu    sync.Mutex
	delay time.Duration // 0: the store works
	until time.Time
}

// failed notes a window that the store did not take.
func (p *pressure) failed(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = min(max(2*p.delay, firstProbe), lastProbe)
	p.until = now.Add(p.delay)
}

// worked notes one that it took.
func (p *pressure) worked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = 0
}

// busy reports whether a sender should wait. When the delay is over, the first one to
// ask may try, and the others wait once more.
func (p *pressure) busy(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delay == 0 {
		return false
	}
	if now.Before(p.until) && p.until.Sub(now) <= lastProbe { // or the clock went back
		return true
	}
	p.until = now.Add(p.delay)
	return false
}
