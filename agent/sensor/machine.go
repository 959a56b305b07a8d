package sensor

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/internal/role"
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

// Machine is where sensors are read: the file system under Root ("" or "/" for
// this machine, or a recorded tree with sys and proc in it) and the clock.
type Machine struct {
	Root  string
	Clock role.Clock // nil: the machine's clock

	// Inputs are those of the configuration; nil: none.
	Inputs *Inputs
	// Wait says that sensors that are not there are waited for.
	Wait bool
	Log  *slog.Logger // nil: slog.Default

	files *fileCache // of one reader; nil: none
}

func (m Machine) clock() role.Clock {
	if m.Clock == nil {
		return role.SystemClock()
	}
	return m.Clock
}

func (m Machine) path(elem ...string) string {
	root := m.Root
	if root == "" {
		root = "/"
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

// read reads a small file.
func (m Machine) read(path string) (string, error) { return m.files.read(path) }

// readNumber reads a file with one number.
func (m Machine) readNumber(path string) (float64, error) { return input.ReadNumber(path) }

// gauge is a sensor whose value stands in one place.
type gauge struct {
	m    Machine
	read func() (float64, error)
}

func (g gauge) Read(ctx context.Context) (float64, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	v, err := g.read()
	return v, g.m.Clock.Now(), err
}

// noSensor returns ErrNoSensor with what exists.
func noSensor(what, name string, have []string) error { return input.Missing(what, name, have) }
