package results

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/alert"
)

// alarms runs the alarms of a watch. Without any in the configuration it does nothing.
type alarms struct {
	ctx  context.Context // ends with the watch, or when the alarms cannot go on
	on   *alert.Alarms   // nil: none
	log  *slog.Logger
	end  context.CancelFunc
	done chan struct{}
	err  error // of the alarms; valid when done is closed
}

// startAlarms opens the alarms of a configuration and starts to deliver them.
func startAlarms(ctx context.Context, cfg *config.KeyHolder, log *slog.Logger) (*alarms, error) {
	a := &alarms{log: log, done: make(chan struct{})}
	a.ctx, a.end = context.WithCancel(ctx)
	if cfg.Alerts == nil {
		close(a.done)
		return a, nil
	}
	for _, w := range alert.Warnings(cfg.Alerts, cfg.Broker) {
		log.Warn(w)
	}
	var err error
	a.on, err = alert.Open(alert.Options{Config: cfg.Alerts, Holder: cfg.Name, State: cfg.State, Logger: log})
	if err != nil {
		a.end()
		return nil, err
	}
	go func() {
		defer close(a.done)
		if a.err = a.on.Run(a.ctx); a.err != nil {
			a.end()
		}
	}()
	return a, nil
}

// observe hands a result to the alarms.
func (a *alarms) observe(r *keyholder.Result) error {
	if a.on == nil {
		return nil
	}
	return a.on.Observe(a.ctx, &alert.Result{Program: r.Program, Device: r.Device, Evaluator: r.Evaluator, Unit: r.Unit,
		Start: r.Start, End: r.End, Values: r.Values, Bound: r.Bound})
}

// lastWait bounds how long a watch that has read all its results waits for receivers.
const lastWait = 10 * time.Second

// finish gives events that wait a last chance, unless the watch was interrupted, and returns
// why the alarms could not go on. Events that are left are delivered after the next start.
func (a *alarms) finish(ctx context.Context) error {
	if a.on != nil && ctx.Err() == nil && a.ctx.Err() == nil {
		last, stop := context.WithTimeout(a.ctx, lastWait)
		defer stop()
		if n := a.on.Drain(last); n > 0 {
			a.log.Warn("events of alarms wait for their receivers; the next watch delivers them", "events", n)
		}
	}
	a.end()
	<-a.done
	return a.err
}

// stop ends the alarms, if finish has not, and gives their state free.
func (a *alarms) stop() {
	a.end()
	<-a.done
	if a.on == nil {
		return
	}
	if err := a.on.Close(); err != nil {
		a.log.Error("the state of the alarms was not closed", "error", err)
	}
}

// collector returns what the metrics show.
func (s *session) collector() prometheus.Collector {
	all := append(collectors{&s.tally}, s.metrics...)
	if s.alarms.on != nil {
		all = append(all, s.alarms.on)
	}
	return all
}

// collectors are several collectors as one.
type collectors []prometheus.Collector

func (c collectors) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range c {
		one.Describe(ch)
	}
}

func (c collectors) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c {
		one.Collect(ch)
	}
}

// Health returns the problems of those that know theirs.
func (c collectors) Health() (reasons []string) {
	for _, one := range c {
		if h, ok := one.(daemon.Healther); ok {
			reasons = append(reasons, h.Health()...)
		}
	}
	return reasons
}

var errNoAlerts = errors.New(`the configuration has no "alerts"`)
