package sensor

import (
	"context"
	"time"

	"github.com/hencedge/hencedge/config"
)

// Reader reads the sensors of one stream together, as of one instant. A sensor that
// hangs holds up neither the others nor a stop.
type Reader struct {
	sensors  []Sensor
	interval time.Duration
	files    fileCache
	rounds   *rounds // nil before the first read
}

// OpenChannels opens the sensors of a stream, in the order of its channels. errs has one
// entry for each channel. With m.Wait a sensor that is not there is no error: its
// samples are missing until it comes.
func (m Machine) OpenChannels(s config.Stream) (r *Reader, errs []error) {
	r = NewReader(nil, s.Interval)
	m.Clock, m.files = m.clock(), &r.files
	for _, ch := range s.Channels {
		sensor, err := m.openSensor(s.Name, ch)
		r.sensors, errs = append(r.sensors, sensor), append(errs, err)
	}
	return r, errs
}

// OpenPresent opens those sensors of a stream that are in /sys and /proc of this machine
// now. errs has one entry for each channel. The reader is nil where there are none.
func (m Machine) OpenPresent(s config.Stream) (r *Reader, errs []error) {
	r = NewReader(nil, s.Interval)
	m.files = &r.files
	for _, ch := range s.Channels {
		sensor, err := within(openPatience, func() (Sensor, error) { return m.Open(*ch.Source) })
		if errs = append(errs, err); err == nil && ch.Source.From == "" {
			r.sensors = append(r.sensors, sensor)
		}
	}
	if len(r.sensors) == 0 {
		return nil, errs
	}
	return r, errs
}

// NewReader returns a reader of sensors that are read at an interval.
func NewReader(sensors []Sensor, interval time.Duration) *Reader {
	return &Reader{sensors: sensors, interval: interval}
}

// Read asks every sensor, and calls put with the answer of each in their order. It
// returns ctx's error, at once when ctx ends.
func (r *Reader) Read(ctx context.Context, put func(i int, v float64, err error)) error {
	if r.rounds == nil {
		r.rounds = newRounds(r.sensors, r.interval)
	}
	r.files.forget()
	return r.rounds.read(ctx, put)
}

// Close lets go of the sensors. A read that hangs ends by itself.
func (r *Reader) Close() {
	if r.rounds != nil {
		r.rounds.close()
	}
}
