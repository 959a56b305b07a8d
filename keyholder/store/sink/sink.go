// Package sink tells others of the results in a database: a broker, InfluxDB, Prometheus.
// Each sink has its place among the results, in the order of arrival, and is told of the next ones
// until it has taken them: at least once, whether it is away or this process is killed.
package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/backoff"
	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/keyholder/store"
)

// Options of Open. Store, which must be open for writing with History of the configuration, and
// Logger are required.
type Options struct {
	Store *store.Store
	Sinks []config.Sink // of that History, checked
	// RetryMin and RetryMax bound the waits after failures; 0: 1 s and 5 min.
	RetryMin, RetryMax time.Duration
	Now                func() time.Time // nil: time.Now
	Logger             *slog.Logger
}

// Sinks are the sinks of a configuration.
type Sinks struct {
	o     Options
	lanes []*lane
}

// sender tells a receiver of results.
type sender interface {
	// send returns for how many of the results the work is done, from the first one on: the
	// receiver has taken them, except for one for each error in refused, which it can never take.
	send(ctx context.Context, rows []store.Row) (done int, refused []error, err error)
	Close()
}

// lane takes results to one sink.
type lane struct {
	o      *Options
	cfg    *config.Sink
	to     sender
	report string // the last failure that was logged
	unfit  string // and the last refusal of results that are not sent again

	sent, refused, failed atomic.Int64 // results, results, attempts
}

// Bounds of delivery.
const (
	batch        = 200 // results at a time
	sendTimeout  = 30 * time.Second
	idle         = 10 * time.Second // between looks when nothing is stored
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
)

// Open returns the sinks. They are told of results once Run is called. It fails if a file that
// the configuration names cannot be used.
func Open(o Options) (*Sinks, error) {
	s := &Sinks{o: o}
	for i := range o.Sinks {
		l := &lane{o: &s.o, cfg: &o.Sinks[i]}
		var err error
		if m := l.cfg.MQTT; m != nil {
			l.to, err = newMQTT(m, o.Logger.With("sink", l.cfg.Name))
		} else if l.cfg.Influx != nil {
			l.to, err = newInflux(l.cfg.Influx)
		} else if l.cfg.RemoteWrite != nil {
			l.to, err = newRemote(l.cfg.RemoteWrite, o.Now)
		} else {
			err = fmt.Errorf("%w: no type", config.ErrInvalid)
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("sink %s: %w", l.cfg.Name, err)
		}
		s.lanes = append(s.lanes, l)
	}
	return s, nil
}

// Close ends connections. Call it when Run has returned.
func (s *Sinks) Close() {
	for _, l := range s.lanes {
		l.to.Close()
	}
}

// Run tells sinks of results until ctx ends.
func (s *Sinks) Run(ctx context.Context) {
	var lanes sync.WaitGroup
	for _, l := range s.lanes {
		lanes.Go(func() { l.run(ctx) })
	}
	lanes.Wait()
}

func (l *lane) run(ctx context.Context) {
	waits := backoff.Waits{First: l.o.RetryMin, Most: l.o.RetryMax}
	if waits.First <= 0 {
		waits.First = firstRetry
	}
	if waits.Most <= 0 {
		waits.Most = longestRetry
	}
	for ctx.Err() == nil {
		changed, wait := l.o.Store.Changed(), idle
		n, err := l.next(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.fail(err)
			if n > 0 { // it takes some
				waits.Good()
			}
			changed, wait = nil, pause(err, &waits)
		default:
			waits.Good()
			l.report = ""
			if n > 0 {
				continue
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// pause returns the wait after a failure: at least what the receiver asks for, within the longest.
func pause(err error, waits *backoff.Waits) time.Duration {
	d := waits.Next()
	var status *outlet.StatusError
	if errors.As(err, &status) {
		d = max(d, min(status.After, waits.Most))
	}
	return d
}

// next sends the next results, and returns for how many the work is done.
func (l *lane) next(ctx context.Context) (int, error) {
	ctx, stop := context.WithTimeout(ctx, sendTimeout)
	defer stop()
	from, err := l.o.Store.Sent(ctx, l.cfg.Name)
	if err != nil {
		return 0, err
	}
	var rows, wanted []store.Row
	if err := l.o.Store.Arrived(ctx, from, batch, func(r store.Row) error {
		rows = append(rows, r)
		if len(l.cfg.Programs) == 0 || slices.Contains(l.cfg.Programs, r.Program) {
			wanted = append(wanted, r)
		}
		return nil
	}); err != nil || len(rows) == 0 {
		return 0, err
	}
	to := rows[len(rows)-1].ID
	if len(wanted) > 0 {
		n, refused, err := l.to.send(ctx, wanted)
		l.sent.Add(int64(n - len(refused)))
		l.refuse(refused)
		if err != nil {
			if n > 0 {
				err = errors.Join(err, l.o.Store.SetSent(context.WithoutCancel(ctx), l.cfg.Name, wanted[n-1].ID))
			}
			return n, err
		}
	}
	return len(rows), l.o.Store.SetSent(ctx, l.cfg.Name, to)
}

// fail counts and logs a failure; one that comes again is logged once.
func (l *lane) fail(err error) {
	l.failed.Add(1)
	if text := err.Error(); text != l.report {
		l.report = text
		what := "a sink is away; results wait for it in the database"
		if errors.Is(err, outlet.ErrRefused) {
			what = "a sink refuses results; they are sent again"
		}
		l.o.Logger.Warn(what, "sink", l.cfg.Name, "error", err)
	}
}

// refuse counts and logs results that the sink can never take; a reason that comes again in the
// next requests is logged once.
func (l *lane) refuse(refused []error) {
	l.refused.Add(int64(len(refused)))
	text := ""
	if len(refused) > 0 {
		text = refused[0].Error()
		if text != l.unfit {
			l.o.Logger.Warn("a sink can never take some results; it goes on without them", "sink", l.cfg.Name,
				"results", len(refused), "error", refused[0])
		}
	}
	l.unfit = text
}

const prefix = "hencedge_keyholder_sink"

var (
	descSent = prometheus.NewDesc(prefix+"_results_total", "Results that a sink has taken, since the start.",
		[]string{"sink"}, nil)
	descRefused = prometheus.NewDesc(prefix+"_refused_total",
		"Results that a sink can never take and that are not sent again, since the start.", []string{"sink"}, nil)
	descFailed = prometheus.NewDesc(prefix+"_failures_total", "Attempts to reach a sink that failed, since the start.",
		[]string{"sink"}, nil)
)

var _ prometheus.Collector = (*Sinks)(nil)

// Describe makes Sinks a prometheus.Collector.
func (s *Sinks) Describe(ch chan<- *prometheus.Desc) {
	ch <- descSent
	ch <- descRefused
	ch <- descFailed
}

// Collect gives the counts as they are now.
func (s *Sinks) Collect(ch chan<- prometheus.Metric) {
	for _, l := range s.lanes {
		ch <- prometheus.MustNewConstMetric(descSent, prometheus.CounterValue, float64(l.sent.Load()), l.cfg.Name)
		ch <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, float64(l.refused.Load()), l.cfg.Name)
		ch <- prometheus.MustNewConstMetric(descFailed, prometheus.CounterValue, float64(l.failed.Load()), l.cfg.Name)
	}
}
