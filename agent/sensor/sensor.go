package sensor

import (
	"errors"

	"github.com/hencedge/hencedge/agent/input"
)

// Sensor gives one value at a time, in its own unit before the channel's scale
// and offset (see package input).
type Sensor = input.Sensor

// Errors of sensors.
var (
	// ErrNoSensor: the source names something that is not on this machine.
	ErrNoSensor = input.ErrNoSensor
	// ErrReading: the sensor is there but its reading cannot be used.
	ErrReading = input.ErrReading
	// ErrNoBaseline: a rate has no earlier reading to compare with yet.
	ErrNoBaseline = errors.New("first reading of a rate")
)

// noSensor returns ErrNoSensor with what exists.
func noSensor(what, name string, have []string) error { return input.Missing(what, name, have) }
