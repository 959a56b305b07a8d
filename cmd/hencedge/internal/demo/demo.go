// Package demo runs all of hencedge in one process: an MQTT broker with mutual TLS, an
// agent on this machine's sensors, an evaluator, and a key holder. The three roles meet
// only at the broker, each with just the keys that it would have in production. Every
// decrypted result is compared with the plaintext truth and with the promised error.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// DefaultParams shows the best precision in a small ring.
const DefaultParams = "edge13-d2p"

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

// ErrSetup: the demo cannot run with these options.
var ErrSetup = errors.New("demo")

// patience is how long the demo waits for the next result before it gives up.
const patience = time.Minute

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

// Cast is who plays.
type Cast struct {
	Params   string    `json:"params"`
	LogN     int       `json:"logN"`
	Backend  string    `json:"backend"`
	Device   string    `json:"device"` // of the backend
	Broker   string    `json:"broker"`
	Samples  int       `json:"samples"`
	Interval float64   `json:"interval_seconds"`
	Channels []Channel `json:"channels"`
	Programs []Program `json:"programs"`
	Left     []string  `json:"left_out,omitempty"` // programs that do not fit the parameters, with the reason
}

// Channel is a sensor in use.
type Channel struct {
	Name  string     `json:"name"`
	Unit  string     `json:"unit"`
	Range [2]float64 `json:"range"`
}

// Program is a program in use with its promise.
type Program struct {
	Name    string  `json:"name"`
	Channel string  `json:"channel"`
	Expr    string  `json:"expr"`
	Unit    string  `json:"unit,omitempty"`
	Depth   int     `json:"depth"`
	Bound   float64 `json:"bound"`
}

// Row is one result.
type Row struct {
	Window    int       `json:"window"` // from 1
	Channel   string    `json:"channel"`
	Program   string    `json:"program"`
	Unit      string    `json:"unit,omitempty"`
	Decrypted []float64 `json:"decrypted"`
	Truth     []float64 `json:"truth"`
	Error     float64   `json:"error"` // largest |decrypted - truth|
	Bound     float64   `json:"bound"` // promised
	OK        bool      `json:"ok"`    // Error is within Bound

	Uploaded   int     `json:"bytes"`        // sealed window, shared by all programs of the window
	Downloaded int     `json:"result_bytes"` // sealed result
	Encrypt    float64 `json:"encrypt_ms"`
	Evaluate   float64 `json:"evaluate_ms"`
	Latency    float64 `json:"latency_ms"` // from the window's last sample to its decrypted result
}

// Run runs the demo and returns its summary. If ctx ends early or an error exceeds its
// bound, Summary.OK is false and the error is nil.
func Run(ctx context.Context, o Options) (*Summary, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	params, err := henc.Named(o.Params)
	if err != nil {
		return nil, fmt.Errorf("%w: parameters: %w", ErrSetup, err)
	}
	started := time.Now()
	s, err := newStage(o, params)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	if o.OnStart != nil {
		o.OnStart(s.cast)
	}
	sum := newSummary(s.cast, started)
	err = s.play(ctx, func(r Row) error {
		sum.add(r)
		if o.OnRow != nil {
			return o.OnRow(r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sum.finish()
	return sum, nil
}
