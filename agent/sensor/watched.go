package sensor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/backoff"
)

// openPatience bounds how long opening a sensor may take.
const openPatience = 3 * time.Second

// watched is a sensor of this machine that may come and go. After a failure it is
// read again at the next tick; after further ones it is left alone for the
// back-off of inputs, and then looked for by its name: drivers that are loaded
// again, and devices that are plugged in again, change their numbers.
type watched struct {
	open func() (Sensor, error)
	log  *slog.Logger

	sensor  Sensor // nil: to be opened
	backoff backoff.Waits
	row     int // failures in a row
	until   time.Time
	last    error
}

// watch watches over a sensor; one that is not there is nil, and why says so.
func watch(s Sensor, why error, log *slog.Logger, open func() (Sensor, error)) *watched {
	w := &watched{open: open, log: log, sensor: s,
		backoff: backoff.Waits{First: config.DefaultRetry, Most: config.DefaultRetryMax}}
	if s == nil {
		w.last, w.row = why, 1
	}
	return w
}

// Read reads the sensor, or opens it first. Readings that cannot be used are no
// failure of the sensor.
func (w *watched) Read(ctx context.Context) (float64, time.Time, error) {
	if now := time.Now(); now.Before(w.until) {
		return 0, now.Round(0), fmt.Errorf("%w: %w", input.ErrWaiting, w.last)
	}
	v, at, err := w.read(ctx)
	switch {
	case ctx.Err() != nil:
	case err == nil, errors.Is(err, ErrNoBaseline), errors.Is(err, ErrReading):
		if w.row > 0 {
			w.log.Info("the sensor works again", "failures", w.row)
			w.row = 0
			w.backoff.Good()
		}
	default:
		w.failed(err)
	}
	return v, at, err
}

func (w *watched) read(ctx context.Context) (float64, time.Time, error) {
	if w.sensor == nil {
		s, err := w.open()
		if err != nil {
			return 0, time.Time{}, err
		}
		w.sensor = s
	}
	return w.sensor.Read(ctx)
}

func (w *watched) failed(err error) {
	w.row++
	w.last = err
	if w.row == 1 {
		w.log.Warn("the sensor failed; trying it again", "error", err)
		return
	}
	w.sensor = nil
	wait := w.backoff.Next()
	w.until = time.Now().Add(wait)
	w.log.Debug("the sensor failed again; looking for it by its name", "error", err, "in", wait.Round(time.Millisecond))
}

// openSensor opens a source of this machine, or an input. With m.Wait one that is
// not there is waited for; otherwise it is an error, as is one that hangs.
func (m Machine) openSensor(stream string, ch config.Channel) (Sensor, error) {
	src := *ch.Source
	if src.From != "" {
		return m.Open(src)
	}
	log := m.Log
	if log == nil {
		log = slog.Default()
	}
	log = log.With("stream", stream, "channel", ch.Name)
	s, err := within(openPatience, func() (Sensor, error) { return m.Open(src) })
	if err != nil {
		if !m.Wait {
			return nil, err
		}
		until := "samples without it"
		if ch.OnMissing != config.MissingMark {
			until = fmt.Sprintf("no samples of the stream (on_missing: %s)", ch.OnMissing)
		}
		log.Warn("the sensor is missing; waiting for it", "error", err, "until_then", until)
	}
	return watch(s, err, log, func() (Sensor, error) { return m.Open(src) }), nil
}

// within calls f, and gives it up after d: then it is ErrSlow, and f ends by
// itself.
func within[T any](d time.Duration, f func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	c := make(chan outcome, 1)
	go func() {
		v, err := f()
		c <- outcome{v, err}
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case o := <-c:
		return o.v, o.err
	case <-t.C:
		var none T
		return none, fmt.Errorf("%w within %v", ErrSlow, d)
	}
}

var _ Sensor = (*watched)(nil)
