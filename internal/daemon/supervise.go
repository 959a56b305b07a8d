package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Run runs the role until ctx ends or the role ends by itself. A reload reads and
// checks the configuration first; a bad one is reported and changes nothing. With
// a good one the service ends in good order and a new one starts; if that cannot
// start, or is on trial and finds no broker, the last one that worked starts again.
func (s *Supervisor) Run(ctx context.Context) (err error) {
	defer func() {
		if err != nil { // the last line that `systemctl status` shows
			_ = s.Notify.Status("failed: " + firstLine(err))
		}
	}()
	c, err := s.Load()
	if err != nil {
		return err
	}
	s.since, s.asked = time.Now(), make(chan request)
	opened := s.takeTime(ctx, "starting")
	service, err := c.Open()
	opened()
	if err != nil {
		return err
	}
	s.use(c, service, "starting")
	s.control = c.Control
	stopControl, err := ServeControl(s.control, s, c.Log)
	if err != nil {
		c.Log.Warn("cannot serve the control socket: status and reload get no answer", "error", err)
		stopControl = func() {}
	}
	defer stopControl()
	stopAlive := s.keepAlive(ctx)
	defer func() {
		s.reply(errStopping)
		stopAlive()
		if ctx.Err() != nil && err == nil {
			s.tell(s.Notify.Status("stopped"))
		}
	}()
	before := c // the last one that worked
	for {
		next, worked, err := s.generation(ctx, c, service)
		if worked {
			before = c
		}
		switch {
		case next != nil:
			c, service, err = s.replace(ctx, before, next)
		case err != nil && !worked && c != before && ctx.Err() == nil:
			c, service, err = s.goBack(ctx, before, c, err)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// generation runs one service. It returns the candidate to start next, or nil and how
// the service ended. worked reports whether the service became ready and, on trial,
// reached the broker.
func (s *Supervisor) generation(ctx context.Context, c *Candidate, service Service) (
	next *Candidate, worked bool, err error,
) {
	// A service that ends at once must not hide that it was told to.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	trial, tried := service.(*onTrial)
	readied, isReady := make(chan struct{}), false
	ready := readied // nil once it was seen
	hasWorked := func() bool { return isReady && (!tried || trial.proved.Load()) }
	done := make(chan error, 1)
	go func() {
		var once sync.Once
		done <- service.Run(run, func() {
			s.setState("running")
			s.succeeded()
			s.tell(s.Notify.Ready(s.line()))
			once.Do(func() { close(readied) })
		})
	}()
	begins := func() {
		isReady, ready = true, nil
		if s.pending != nil && s.outcome == nil {
			c.Log.Info("the configuration was reloaded", "hash", c.Hash)
		}
		s.reply(s.outcome)
	}
	ended := done // nil once it has
	for {
		select {
		case <-ready:
			begins()
			continue
		case err := <-ended:
			select {
			case <-ready:
				begins()
			default:
			}
			if err != nil || !s.Notify.managed() {
				return nil, hasWorked(), err
			}
			// A service manager would start it again, and it would repeat all its work.
			ended = nil
			done <- nil
			s.setState("finished")
			s.succeeded()
			begins()
			c.Log.Info("nothing is left to do; waiting for a reload or a stop")
			s.tell(s.Notify.Ready(s.line()))
			continue
		case <-ctx.Done():
			s.stopping(c)
			stop()
			err := <-done
			s.setState("stopped")
			return nil, hasWorked(), err
		case reason := <-s.Reload:
			if next = s.prepare(request{reason, make(chan error, 1)}); next == nil {
				continue
			}
		case r := <-s.asked:
			if next = s.prepare(r); next == nil {
				continue
			}
		}
		stop()
		if !s.ended(ctx, c, done) {
			next = nil
		}
		return next, hasWorked(), nil
	}
}

// ended waits for the end of c's service, which was stopped for a reload. It returns false
// when the supervisor is to stop instead.
func (s *Supervisor) ended(ctx context.Context, c *Candidate, done <-chan error) bool {
	s.tell(s.Notify.Extend(c.Stop + stopMargin)) // a reload has otherwise no more time than a start
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		s.stopping(c)
		err = <-done
	}
	if err != nil {
		c.Log.Warn("the service did not end cleanly before the reload", "error", err)
	}
	if ctx.Err() != nil {
		s.reply(errStopping)
		return false
	}
	return true
}

// stopping tells the service manager that c's service ends, and how long that takes.
func (s *Supervisor) stopping(c *Candidate) {
	s.setState("stopping")
	s.tell(s.Notify.Stopping(c.Stop + stopMargin))
}

// stopMargin is the time that a stop takes beyond delivery, to close connections and files.
const stopMargin = 15 * time.Second

// prepare reads the configuration for a reload. It returns nil, and reports the reason, if
// that fails.
func (s *Supervisor) prepare(r request) *Candidate {
	reason := r.reason
	s.reply(errors.New("another reload came before this one had finished"))
	s.pending, s.outcome = r.done, nil
	s.tell(s.Notify.Reloading())
	log := s.logger()
	log.Info("reloading the configuration", "reason", reason)
	s.setReason(reason)
	next, err := s.Load()
	if err != nil {
		s.refused(err)
		log.Error("the new configuration is invalid; the previous one stays in use", "reason", reason, "error", err)
		s.tell(s.Notify.Ready("reload refused, the previous configuration stays in use: " + firstLine(err)))
		s.reply(err)
		return nil
	}
	return next
}

// replace starts next in place of the service that has ended. If next fails, it starts
// before again.
func (s *Supervisor) replace(ctx context.Context, before, next *Candidate) (*Candidate, Service, error) {
	s.setState("reloading")
	service, err := s.open(ctx, next)
	if err != nil {
		return s.goBack(ctx, before, next, err)
	}
	if next.Control != s.control {
		next.Log.Warn("control.socket takes effect with the next start", "until_then", s.control)
	}
	s.use(next, s.trial(next, service), "starting")
	service, _ = s.now()
	return next, service, nil
}

// open makes a candidate's service, and asks the service manager for the time.
func (s *Supervisor) open(ctx context.Context, c *Candidate) (Service, error) {
	opened := s.takeTime(ctx, "reloading")
	defer opened()
	s.release()
	return c.Open()
}

// release forgets the service that has ended and returns its memory to the system.
// Evaluation keys can take gigabytes, and the next service needs that room.
func (s *Supervisor) release() {
	s.keepReport()
	runtime.GC()         // memory of a GPU and of pools needs two rounds
	debug.FreeOSMemory() // the second one
}

// keepReport replaces the service by its last status and health.
func (s *Supervisor) keepReport() {
	service, _ := s.now()
	was := &past{status: service.Status(), health: service.Health()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.service = was
}

// past stands in for a service that has ended until the next one exists.
type past struct {
	status any
	health []string
}

func (p *past) Run(context.Context, func()) error { return errors.New("the service has ended") }
func (p *past) Connected() bool                   { return false }
func (p *past) Line() string                      { return "reloading" }
func (p *past) Status() any                       { return p.status }
func (p *past) Health() []string                  { return p.health }
func (p *past) Describe(chan<- *prometheus.Desc)  {}
func (p *past) Collect(chan<- prometheus.Metric)  {}

// goBack starts the configuration before again after bad failed.
func (s *Supervisor) goBack(ctx context.Context, before, bad *Candidate, reason error) (*Candidate, Service, error) {
	if bad.Failed != nil {
		bad.Failed(reason)
	}
	s.outcome = fmt.Errorf("%w: %w", ErrWentBack, reason)
	s.refused(s.outcome)
	before.Log.Error("the new configuration does not work; going back", "error", reason)
	again, err := s.open(ctx, before)
	if err != nil {
		err = errors.Join(reason, fmt.Errorf("restart with the previous configuration: %w", err))
		s.reply(err)
		return nil, nil, err
	}
	s.use(before, again, "starting")
	return before, again, nil
}

// reply sends err to whoever waits for the reload under way, if anybody does.
func (s *Supervisor) reply(err error) {
	if s.pending != nil {
		s.pending <- err
		s.pending = nil
	}
}

// AskReload reloads. It returns nil once the new configuration is in use, or the reason
// why it is not.
func (s *Supervisor) AskReload(ctx context.Context, reason string) error {
	done := make(chan error, 1)
	select {
	case s.asked <- request{reason, done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
