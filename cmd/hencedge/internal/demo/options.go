package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

// Options of Run. The zero value runs five windows under the constant DefaultParams.
type Options struct {
	Windows  int // windows to run; 0: 5; below 0: until ctx ends
	Params   string
	Compact  bool             // windows of a few bytes, which the evaluator bootstraps
	Backend  cutrantt.Backend // nil: the default of package henc
	Samples  int              // of a window; 0: 16
	Interval time.Duration    // between samples; 0: 100 ms
	Root     string           // where sensors are read, see sensor.Machine
	Web      bool             // also show it in a browser
	Listen   string           // of that page; empty: a free port of this machine
	Version  string           // of the software, which the board tells
	Logger   *slog.Logger     // nil: silent

	// OnStart is told what will run, before the first window; OnPage the link that opens
	// the page of Web once; OnRow gets every result, window by window and in the order of
	// the programs. All may be nil and are called from one goroutine.
	OnStart func(Cast)
	OnPage  func(link string) error
	OnRow   func(Row) error
}

func (o *Options) setDefaults() error {
	if o.Windows == 0 {
		o.Windows = 5
	}
	if o.Params == "" {
		o.Params = o.DefaultParams()
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
	if !o.Web {
		return nil
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if err := hasPage(); err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	return nil
}

// ErrSetup: the demo cannot run with these options.
var ErrSetup = errors.New("demo")

// DefaultParams shows the best precision in a small ring.
const DefaultParams = "edge13-d2p"

// DefaultParams returns the parameters where none are named: of compact windows the smallest that bootstrap.
func (o *Options) DefaultParams() string {
	if o.Compact {
		return "boot15"
	}
	return DefaultParams
}

// patience is how long the demo waits for the next result before it gives up. A bootstrap takes a processor that has
// other work minutes.
const (
	patience        = time.Minute
	compactPatience = 15 * time.Minute
)

// wait is how long the demo waits for the next result.
func (o *Options) wait() time.Duration {
	if o.Compact {
		return compactPatience
	}
	return patience
}
