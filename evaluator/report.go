package evaluator

import "github.com/hencedge/hencedge/transport"

// refuseWindow counts and reports an object that is not taken, and returns err with what
// differs between the device and this configuration.
func (s *Service) refuseWindow(o transport.Staged, err error) error {
	err = s.explain(o.Topic, o.Sealed, err)
	s.refusedAt(o.Topic, err)
	s.refuse(o.Topic, err)
	return err
}

// refuse counts and reports a refusal.
func (s *Service) refuse(topic string, err error) {
	s.report(s.tally.refuse(err), topic, err)
}

// report tells of a refusal that was counted, of each reason once a second at most.
func (s *Service) report(reason, topic string, err error) {
	if ok, skipped := s.reports.Allow(reason, s.now()); ok {
		s.log.Warn("refused", "reason", reason, "topic", topic, "error", err, "more", skipped)
	}
	if s.deps.OnRefused != nil {
		s.deps.OnRefused(reason, err)
	}
}

// lost reports a window that left before every program had made its result of it.
func (s *Service) lost(w *window) {
	s.refuse("", unjoined(w))
	for _, program := range w.missed {
		s.unmade.note(program, Reason(ErrUnjoined), s.now())
	}
}

// failed reports a result that could not be made or sent.
func (s *Service) failed(j *job, err error) {
	s.tally.failure(j.prog.planned.Name)
	s.refuse(j.prog.planned.Name, err)
	if final(err) {
		s.unmade.note(j.prog.planned.Name, Reason(err), s.now())
	}
}
