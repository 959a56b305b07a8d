package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// statusEvery is the interval at which the line of `systemctl status` is renewed; tests
// change it. When the connection to the broker comes or goes, the line is renewed at once.
var statusEvery = 5 * time.Second

// lookEvery is the interval at which the connection to the broker is checked.
const lookEvery = time.Second

// keepAlive renews the status line and feeds the watchdog twice in its time, until stop is
// called. Each time it asks the service for its state, which takes the same locks as the
// service's work. A service that hangs in a lock, or says that it has stalled, is therefore
// not reported alive.
func (s *Supervisor) keepAlive(ctx context.Context) (stop func()) {
	if !s.Notify.managed() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a stop that drains is alive too
	every := statusEvery
	if w := s.Notify.Watchdog(); w > 0 {
		every = min(every, w/2)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(max(min(every, lookEvery), 10*time.Millisecond))
		defer tick.Stop()
		told := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			service, _ := s.now()
			// A tick comes a little early or late.
			if service.Connected() == s.said.Load() && time.Since(told) < every-every/10 {
				continue
			}
			told = time.Now()
			status, alive := s.line(), true
			if reason := s.stalled(); reason != "" {
				status, alive = "stalled: "+reason, false
			}
			lines := []string{"STATUS=" + status}
			if alive && s.Notify.Watchdog() > 0 {
				lines = append(lines, "WATCHDOG=1")
			}
			s.tell(s.Notify.Send(lines...))
		}
	})
	return func() { cancel(); wg.Wait() }
}

// stalled returns why the service makes no progress, or "".
func (s *Supervisor) stalled() string {
	service, c := s.now()
	if t, ok := service.(*onTrial); ok {
		service = t.Service
	}
	st, ok := service.(Staller)
	if !ok {
		return ""
	}
	reason := st.Stalled()
	if reason != "" {
		c.Log.Error("the service has stalled; the watchdog, if there is one, will end it", "reason", reason)
	}
	return reason
}

// startStep is the time that a start asks for, again and again while it lasts: evaluation
// keys can take gigabytes.
const startStep = time.Minute

// takeTime keeps the service manager from giving up until done is called.
func (s *Supervisor) takeTime(ctx context.Context, status string) (done func()) {
	if !s.Notify.managed() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(startStep / 3)
		defer tick.Stop()
		for {
			_ = s.Notify.Send(extend(startStep), "STATUS="+status) // nobody to tell yet
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// trial returns the service of c, which ends with errTrial if c has a trial and the service
// does not connect to the broker within it.
func (s *Supervisor) trial(c *Candidate, service Service) Service {
	if c.Trial <= 0 {
		return service
	}
	return &onTrial{Service: service, c: c}
}

type onTrial struct {
	Service
	c      *Candidate
	proved atomic.Bool // the trial has succeeded
}

// errTrial: a trial has failed. errOffline is the usual reason.
var (
	errTrial   = errors.New("the configuration failed its trial")
	errOffline = fmt.Errorf("%w: no connection to the broker in time", errTrial)
)

func (o *onTrial) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(max(o.c.Trial/100, 10*time.Millisecond))
		defer tick.Stop()
		over := time.After(o.c.Trial)
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-over:
				cancel(errOffline)
				return
			case <-tick.C:
				if !o.Connected() {
					continue
				}
				if o.c.Confirmed != nil {
					if err := o.c.Confirmed(); err != nil {
						cancel(fmt.Errorf("%w: it cannot be kept: %w", errTrial, err))
						return
					}
				}
				o.proved.Store(true)
				return
			}
		}
	})
	err := o.Service.Run(ctx, ready)
	close(ended)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, err)
	}
	return err
}

// Status describes the supervisor and its service.
func (s *Supervisor) Status() any {
	service, c := s.now()
	reasons := s.Health()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := SupervisorStatus{Role: s.Role, Version: s.Version, State: s.state, Since: s.since, Config: c.Hash,
		Protection: s.Protection,
		Healthy:    len(reasons) == 0, Reasons: append([]string{}, reasons...), Service: service.Status()}
	if !s.last.Time.IsZero() {
		last := s.last
		out.LastReload = &last
	}
	return out
}

// SupervisorStatus is what `status` shows.
type SupervisorStatus struct {
	Role       string        `json:"role"`
	Version    string        `json:"version"`
	State      string        `json:"state"` // starting, running, finished, reloading, stopping, stopped
	Since      time.Time     `json:"since"`
	Config     string        `json:"config_hash"` // SHA-256 of the configuration's text
	LastReload *ReloadReport `json:"last_reload,omitempty"`
	Protection Protection    `json:"protection"` // of the memory
	Healthy    bool          `json:"healthy"`
	Reasons    []string      `json:"reasons"` // why not
	Service    any           `json:"service"`
}

// Health is the service's, and a refused reload.
func (s *Supervisor) Health() []string {
	service, _ := s.now()
	out := service.Health()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == "finished" { // it needs neither broker nor sensors
		out = nil
	}
	if !s.last.Time.IsZero() && !s.last.OK && s.last.Error != "" {
		out = append(out, "the last reload was refused: "+firstLine(errors.New(s.last.Error)))
	}
	return out
}

// Describe describes no metrics in advance: they change with the service.
func (s *Supervisor) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of the service that runs now and of the supervisor.
func (s *Supervisor) Collect(ch chan<- prometheus.Metric) {
	service, _ := s.now()
	service.Collect(ch)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	reasons := len(s.Health())
	s.mu.Lock()
	since, last := s.since, s.last
	s.mu.Unlock()
	gauge(descInfo, 1, s.Role, s.Version)
	gauge(descStart, float64(since.UnixMilli())/1e3)
	gauge(descProblems, float64(reasons))
	if !last.Time.IsZero() {
		good := 0.0
		if last.OK {
			good = 1
		}
		gauge(descReload, good)
		gauge(descReloaded, float64(last.Time.UnixMilli())/1e3)
	}
}

// What every service exports besides its own.
var (
	descInfo = prometheus.NewDesc("hencedge_info", "1; the labels tell what runs here.", []string{"role", "version"},
		nil)
	descStart = prometheus.NewDesc("hencedge_start_timestamp_seconds", "Unix time of the start of the service.", nil,
		nil)
	descProblems = prometheus.NewDesc("hencedge_health_problems", "Reasons for which /healthz answers 503.", nil, nil)
	descReload   = prometheus.NewDesc("hencedge_reload_success",
		"1 when the last reload succeeded, 0 when it was refused; absent before the first.", nil, nil)
	descReloaded = prometheus.NewDesc("hencedge_reload_timestamp_seconds", "Unix time of the last reload.", nil, nil)
)
