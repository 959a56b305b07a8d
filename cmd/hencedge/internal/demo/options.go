package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

// Options of Run. The zero value runs five windows under DefaultParams.
type Options struct {
	Windows  int // windows to run; 0: 5; below 0: until ctx ends
	Params   string
	Backend  cutrantt.Backend // nil: the default of package henc
	Samples  int              // of a window; 0: 16
	Interval time.Duration    // between samples; 0: 100 ms
	Root     string           // where sensors are read, see sensor.Machine
	Logger   *slog.Logger     // nil: silent

	// OnStart is told what will run, before the first window; OnRow gets every
	// result, window by window and in the order of the programs. Both may be
	// nil and are called from one goroutine.
	OnStart func(Cast)
	OnRow   func(Row) error
}

func (o *Options) setDefaults() error {
	if o.Windows == 0 {
		o.Windows = 5
	}
	if o.Params == "" {
		o.Params = DefaultParams
	}
	if o.Samples == 0 {
		o.Samples = 16
	}
	if o.Interval == 0 {
		o.Interval = 100 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Samples < 2 || o.Interval < time.Millisecond {
		return fmt.Errorf("%w: %d samples every %v; use at least 2 samples and 1 ms", ErrSetup, o.Samples, o.Interval)
	}
	return nil
}

// ErrSetup: the demo cannot run with these options.
var ErrSetup = errors.New("demo")

// DefaultParams shows the best precision in a small ring.
const DefaultParams = "edge13-d2p"

// patience is how long the demo waits for the next result before it gives up.
const patience = time.Minute
