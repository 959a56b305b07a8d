package sensor

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/internal/role"
)

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
