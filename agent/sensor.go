package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
)

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
	// ErrNoBaseline: a rate has no earlier reading to compare with yet.
	ErrNoBaseline = errors.New("first reading of a rate")
)

// Machine is where sensors are read: the file system under Root ("" or "/" for
// this machine, or a recorded tree with sys and proc in it) and the clock.
type Machine struct {
	Root  string
	Clock Clock // nil: the machine's clock
}

func (m Machine) clock() Clock {
	if m.Clock == nil {
		return SystemClock()
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

// maxFile bounds what is read from one file of /proc or /sys, in bytes.
const maxFile = 1 << 20

// read reads a small file.
func (m Machine) read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("%w: %s is larger than %d bytes", ErrReading, path, maxFile)
	}
	return string(b), nil
}

// readNumber reads a file with one number.
func (m Machine) readNumber(path string) (float64, error) {
	text, err := m.read(path)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%w: %s holds %q, not a number", ErrReading, path, clip(text))
	}
	return v, nil
}

// clip shortens foreign text for messages.
func clip(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// Open makes the sensor that src describes. It fails with ErrNoSensor, naming
// what there is instead, when this machine has no such thing. Replay columns
// are not sensors.
func (m Machine) Open(src config.Source) (Sensor, error) {
	m.Clock = m.clock()
	switch src.Type {
	case config.SourceHwmon:
		return m.openHwmon(src)
	case config.SourceThermal:
		return m.openThermal(src)
	case config.SourceCPU:
		return m.openCPU(src)
	case config.SourceMemory:
		return m.openMemory(src)
	case config.SourceLoad:
		return m.openLoad(src)
	case config.SourceDisk:
		return m.openDisk(src)
	case config.SourceNet:
		return m.openNet(src)
	}
	return nil, fmt.Errorf("%w: a source of type %q cannot be opened", ErrNoSensor, src.Type)
}

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

// noSensor is ErrNoSensor with what exists.
func noSensor(what, name string, have []string) error {
	if len(have) == 0 {
		return fmt.Errorf("%w: %s %q; this machine has none", ErrNoSensor, what, name)
	}
	const most = 12
	if len(have) > most {
		have = append(have[:most:most], "...")
	}
	return fmt.Errorf("%w: %s %q; this machine has %s", ErrNoSensor, what, name, strings.Join(have, ", "))
}
