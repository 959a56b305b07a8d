package input

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/config"
)

// Messenger is an Input of messages.
type Messenger interface {
	Input
	// Messages calls f with each message on the topic filter (inputs without
	// topics ignore it), in order, from the call of begin on. f must not block.
	// It is called before the first sensor is read.
	Messages(topic string, f func(text string)) (begin func(), err error)
	// Trouble says why no message can come at the moment, nil when one can.
	Trouble() error
}

// Input is an open device or connection. All sensors are made before the first
// of them is read; after that, reads are safe for concurrent use.
type Input interface {
	// Sensor makes the sensor of one source. It touches no device. An error is
	// a mistake in the configuration.
	Sensor(src config.Source) (Sensor, error)
	// Close stops the input and waits until it has stopped.
	Close() error
}

// Sensor gives one value at a time, in its own unit before the channel's scale
// and offset.
type Sensor interface {
	// Read takes a sample and the wall time at which it was taken. An error
	// makes the sample missing; the sensor stays usable.
	Read(ctx context.Context) (float64, time.Time, error)
}

// Errors of sensors.
var (
	// ErrNoSensor: the source names something that is not on this machine.
	ErrNoSensor = errors.New("no such sensor")
	// ErrReading: the sensor is there but its reading cannot be used.
	ErrReading = errors.New("unusable reading")
	// ErrNoValue: nothing has been received yet.
	ErrNoValue = errors.New("no value yet")
	// ErrStale: the newest value is too old.
	ErrStale = errors.New("the newest value is too old")
	// ErrWaiting: the device failed and is left alone for a while.
	ErrWaiting = errors.New("waiting after a failure")
)

// Env is what an input is given by the agent.
type Env struct {
	// Log is told when the input begins to fail and when it works again; nil
	// means slog.Default.
	Log *slog.Logger
	// Count may be nil.
	Count *Counters
}

// Counters count what an input did since the start.
type Counters struct {
	Values   atomic.Uint64 // values received
	Bad      atomic.Uint64 // of what was received, what held no usable value
	Failures atomic.Uint64 // polls and connections that failed
}

// Logger is never nil.
func (e Env) Logger() *slog.Logger {
	if e.Log == nil {
		return slog.Default()
	}
	return e.Log
}

// Counters is never nil.
func (e Env) Counters() *Counters {
	if e.Count == nil {
		return new(Counters)
	}
	return e.Count
}
