package evaluator

import (
	"sync"
	"time"
)

// reporter logs refusals, at most one line a second for each reason: a flood of
// bad messages must not become a flood of log lines. All are counted.
type reporter struct {
	mu      sync.Mutex
	reasons map[string]*reported
}

type reported struct {
	at      time.Time
	skipped int
}

// allow reports whether to log now, and how many were skipped since the last
// line of this reason.
func (r *reporter) allow(reason string, now time.Time) (ok bool, skipped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reasons == nil {
		r.reasons = map[string]*reported{}
	}
	last := r.reasons[reason]
	if last == nil {
		r.reasons[reason] = &reported{at: now}
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

// refuse counts and reports a refusal.
func (s *Service) refuse(topic string, err error) {
	s.report(s.tally.refuse(err), topic, err)
}

// report tells of a refusal that was counted.
func (s *Service) report(reason, topic string, err error) {
	if ok, skipped := s.reports.allow(reason, s.now()); ok {
		s.log.Warn("refused", "reason", reason, "topic", topic, "error", err, "more", skipped)
	}
	if s.deps.OnRefused != nil {
		s.deps.OnRefused(reason, err)
	}
}

// lost reports a window that no result used.
func (s *Service) lost(w *window) {
	s.refuse("", unjoined(w))
}

// failed reports a result that could not be made or sent.
func (s *Service) failed(j *job, err error) {
	s.tally.failure(j.prog.planned.Name)
	s.refuse(j.prog.planned.Name, err)
}
