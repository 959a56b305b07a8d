package transport

import (
	"sync"
	"time"
)

// LogLimit allows one line a second for each reason, so that a flood of bad messages does not
// become a flood of log lines. It remembers every reason, so there must be few. The zero
// value is ready, and safe for concurrent use.
type LogLimit struct {
	mu      sync.Mutex
	reasons map[string]*logged
}

type logged struct {
	at      time.Time
	skipped int
}

// Allow reports whether to log now, and how many were skipped since the last
// line of this reason.
func (l *LogLimit) Allow(reason string, now time.Time) (ok bool, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reasons == nil {
		l.reasons = map[string]*logged{}
	}
	last := l.reasons[reason]
	if last == nil {
		l.reasons[reason] = &logged{at: now}
		return true, 0
	}
	if d := now.Sub(last.at); d >= 0 && d < time.Second {
		last.skipped++
		return false, 0
	}
	skipped = last.skipped
	last.at, last.skipped = now, 0
	return true, skipped
}
