package store

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/keyholder"
)

// The database is the outbox of its sinks: a mark of each says how far it was told. A sink that
// is new begins with the next result.

const sinkMark = "sink " // and the name

// Sent returns the number of the newest result that a sink of the configuration has.
func (s *Store) Sent(ctx context.Context, sink string) (id int64, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	err = s.db.QueryRowContext(ctx, s.base.bind("SELECT position FROM marks WHERE name = ?"), sinkMark+sink).Scan(&id)
	return id, err
}

// SetSent records that a sink has all results up to a number.
func (s *Store) SetSent(ctx context.Context, sink string, id int64) error {
	_, err := s.exec(ctx, markSQL, sinkMark+sink, id)
	return err
}

// Changed returns a channel that is closed when the next result is stored.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// ready makes the database ready for results: its tables, the marks of sinks, the newest values.
func (s *Store) ready(ctx context.Context) error {
	if err := s.base.sound(ctx, s.db); err != nil {
		return err
	}
	s.mu.Lock()
	done := s.begun
	s.mu.Unlock()
	if done {
		return nil
	}
	err := s.inTx(ctx, func(tx transaction) error {
		var names []string
		for i := range s.o.History.Sinks {
			names = append(names, sinkMark+s.o.History.Sinks[i].Name)
			if _, err := tx.exec(ctx, "INSERT INTO marks (name, position) SELECT CAST(? AS TEXT), "+
				"coalesce(max(id), 0) FROM results WHERE true ON CONFLICT (name) DO NOTHING", names[i]); err != nil {
				return err
			}
		}
		rows, err := tx.tx.QueryContext(ctx, "SELECT name FROM marks")
		if err != nil {
			return err
		}
		defer rows.Close()
		var gone []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			if strings.HasPrefix(name, sinkMark) && !slices.Contains(names, name) {
				gone = append(gone, name)
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, name := range gone {
			if _, err := tx.exec(ctx, "DELETE FROM marks WHERE name = ?", name); err != nil {
				return err
			}
		}
		return nil
	})
	var known []Series
	if err == nil && s.o.History.LastValues {
		known, err = s.Series(ctx)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	for i := range known {
		s.last[subject{known[i].Program, known[i].Device}] = known[i]
	}
	return nil
}

// sent returns the number of the newest result that all sinks have.
func (s *Store) sent(ctx context.Context) (int64, error) {
	least := int64(math.MaxInt64)
	for i := range s.o.History.Sinks {
		id, err := s.Sent(ctx, s.o.History.Sinks[i].Name)
		if err != nil {
			return 0, err
		}
		least = min(least, id)
	}
	return least, nil
}

type subject struct{ program, device string }

// told wakes sinks, and takes the newest value.
func (s *Store) told(r *keyholder.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	key := subject{r.Program, r.Device}
	if s.o.History.LastValues && !r.Start.Before(s.last[key].Start) {
		v := Series{Program: r.Program, Device: r.Device, Unit: r.Unit, Start: r.Start, End: r.End, Value: math.NaN(),
			Bound: r.Bound}
		if len(r.Values) > 0 {
			v.Value = r.Values[0]
		}
		s.last[key] = v
	}
}

var (
	descValue = prometheus.NewDesc("hencedge_result_value", "First value of the newest window.",
		[]string{"program", "device", "unit"}, nil)
	descBound = prometheus.NewDesc("hencedge_result_bound", "Promised error of the value.",
		[]string{"program", "device"}, nil)
	descEnd = prometheus.NewDesc("hencedge_result_end_seconds", "End of the newest window.",
		[]string{"program", "device"}, nil)
)

// LastValues is a prometheus.Collector of the newest values, of a Store with config.LastValues.
type LastValues struct{ *Store }

// Describe makes LastValues a prometheus.Collector.
func (LastValues) Describe(ch chan<- *prometheus.Desc) {
	ch <- descValue
	ch <- descBound
	ch <- descEnd
}

// Collect gives the values as they are now.
func (s LastValues) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, v, labels...)
		if err == nil { // else a label is no UTF-8
			ch <- m
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.last {
		gauge(descValue, v.Value, v.Program, v.Device, v.Unit)
		gauge(descBound, v.Bound, v.Program, v.Device)
		gauge(descEnd, float64(v.End.UnixMilli())/1000, v.Program, v.Device)
	}
}
