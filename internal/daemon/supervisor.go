package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Supervisor runs one role: it reloads configurations, talks to the service
// manager and answers on the control socket. Its fields are set before Run.
type Supervisor struct {
	Role, Version string
	Load          func() (*Candidate, error) // reads and checks the configuration as it is now
	Notify        *Notifier
	Reload        <-chan string // a reason a time, such as "SIGHUP"
	Protection    Protection    // of this process, for the status

	asked   chan request // by `reload` over the control socket
	control string       // path of the control socket
	// Of the reload under way. Only Run's goroutine uses these two.
	pending chan<- error // who waits for it
	outcome error        // what pending gets once a service works again
	said    atomic.Bool  // whether the last line said that there is a connection

	mu      sync.Mutex
	current *Candidate
	service Service
	since   time.Time
	last    ReloadReport
	reason  string // of the reload under way; "" when there is none
	state   string
}

// request is a reload that somebody waits for.
type request struct {
	reason string
	done   chan<- error // with room for one
}

// Candidate is a configuration that was read and found valid. Nothing has been
// changed or locked for it yet.
type Candidate struct {
	Hash    string        // of the configuration's text, in hexadecimal
	Stop    time.Duration // how long an orderly stop may take
	Control string        // path of the control socket; only that of the first counts
	Log     *slog.Logger
	// Open makes the service. It is called when no other service of this
	// supervisor runs.
	Open func() (Service, error)
	// Trial, if above 0, is the time within which the service must reach the broker.
	// Otherwise the supervisor goes back to the previous configuration.
	Trial time.Duration
	// Confirmed is called when a trial has succeeded, Failed when it has not.
	Confirmed func() error
	Failed    func(reason error)
}

// Service is a role that is ready to run with one configuration.
type Service interface {
	prometheus.Collector
	Healther
	Statuser
	// Run works until ctx ends and then stops in an orderly way. It calls ready once
	// it does its work, and has released everything when it returns.
	Run(ctx context.Context, ready func()) error
	// Connected reports whether there is a connection to the broker.
	Connected() bool
	// Line is the state in a few words, for `systemctl status`.
	Line() string
}

// ReloadReport says how the last reload went.
type ReloadReport struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
	OK     bool      `json:"ok"`
	Error  string    `json:"error,omitempty"`
}

// ErrWentBack says that a new configuration did not work, so that the previous one is in
// use again.
var ErrWentBack = errors.New("the previous configuration is in use again")

var errStopping = errors.New("the service is stopping")

// use makes a service the current one.
func (s *Supervisor) use(c *Candidate, service Service, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.service, s.state = c, service, state
}

func (s *Supervisor) setState(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

func (s *Supervisor) setReason(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = reason
}

// succeeded records that the reload under way, if there is one, succeeded.
func (s *Supervisor) succeeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != "" {
		s.last = ReloadReport{Time: time.Now(), Reason: s.reason, OK: true}
		s.reason = ""
	}
}

// refused records why a reload failed: the one under way, or else the last one, whose
// service started but did not work.
func (s *Supervisor) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = ReloadReport{Time: time.Now(), Reason: cmp.Or(s.reason, s.last.Reason), Error: err.Error()}
	s.reason = ""
}

func (s *Supervisor) logger() *slog.Logger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Log
}

func (s *Supervisor) now() (Service, *Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.service, s.current
}

// tell logs a failure to reach the service manager. The service goes on.
func (s *Supervisor) tell(err error) {
	if err != nil {
		s.logger().Warn("cannot notify the service manager", "error", err)
	}
}

// line is the service's own state, and that of the last reload if it failed.
func (s *Supervisor) line() string {
	service, _ := s.now()
	s.said.Store(service.Connected())
	s.mu.Lock()
	last, state := s.last, s.state
	s.mu.Unlock()
	text := service.Line()
	if state == "finished" {
		text = "finished: " + text
	}
	if !last.Time.IsZero() && !last.OK && last.Error != "" {
		text += "; the last reload was refused: " + firstLine(errors.New(last.Error))
	}
	return text
}
