// Package loadbench measures an evaluator under load. It feeds the whole service with real
// windows of many devices, encrypted and signed beforehand, and checks every result.
//
// The parts, each with the files that a reader opens in this order:
//
//	record   what the segments add up to                           run.go, gpu.go
//	segment  seal windows, feed them, wait for their results       segment.go, seal.go, measure.go
//	house    the service, and the way to it                        open.go, mqtt.go, inprocess.go, house.go
//	checker  counts results, compares headers, decrypts samples    verify.go, checker.go
//	bed      keys, devices, encrypted windows, configuration       build.go, keys.go, compact.go, programs.go, bed.go
//
// Sealing a window costs about as much as all that the service does with it, on the same
// cores. So all windows of a segment are sealed before its clock starts. They lie outside
// the heap, where they do not change how often garbage is collected. Results are decrypted
// after the clock has stopped.
package loadbench

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// Options of Run.
type Options struct {
	Params   henc.Parameters
	Devices  int    // number of senders; 1 to MaxDevices
	Programs string // file of programs; empty: mean, variance and covariance of each device
	Samples  int    // per window and channel
	Channels int    // per window
	Windows  int    // different ciphertexts per device, sealed again and again
	Workers  int    // of the evaluator; 0: one per processor
	Seeded   bool   // a seed replaces half of each ciphertext
	Compact  int    // bits of precision of compact windows; 0: the windows are large
	// Places is how many windows of a class share a ciphertext when they are added up; 0: the
	// devices are of no class.
	Places int
	// Pack is how many results of the service share a ciphertext, at most, and Within how
	// long one waits for others. Pack 0: each has its own.
	Pack   int
	Within time.Duration

	Length  time.Duration // measured time of each load
	Rate    float64       // windows per second; 0: as many as the service takes
	Half    bool          // measure again, at half of the highest rate
	Memory  int64         // bytes for ciphertexts, signed windows and kept results; 0: an eighth of the machine's
	Broker  string        // empty: in process; Embedded; or a URL
	Profile string        // file for a processor profile of the first measured segment

	// How the evaluator computes: see evaluator.Deps. GPUs has the identifiers of its GPUs.
	GPUs    []string
	Context engine.NewContext
	More    func(henc.Parameters) ([]*henc.Context, error)
	Reopen  func(*henc.Context) (*henc.Context, error)

	Logger *slog.Logger
	// Progress is told how much of Length is measured, of all loads together. It may be nil.
	Progress func(done, total time.Duration)
	Remark   func(message string) // is told what is prepared and how much memory that takes
}

// A load takes an eighth of the machine's memory, within these bounds.
const (
	leastDefault = 256 << 20
	mostDefault  = 16 << 30
)

// defaultMemory returns the memory for a load on this machine, in bytes.
func defaultMemory() int64 {
	total := daemon.MachineMemory()
	return min(max(total/8, leastDefault), mostDefault)
}

// Embedded, as Options.Broker, starts a broker in this process.
const Embedded = "embedded"

// Bounds of Options.
const (
	MaxDevices  = 100_000
	MaxChannels = 64
	MaxWindows  = 1024
	minMemory   = 64 << 20
)

// ErrOptions: the options cannot work together.
var ErrOptions = errors.New("load")

func (o *Options) check() error {
	if o.Memory == 0 {
		o.Memory = defaultMemory()
	}
	for _, c := range []struct {
		bad  bool
		text string
	}{
		{o.Devices < 1 || o.Devices > MaxDevices, fmt.Sprintf("--devices %d: use 1 to %d", o.Devices, MaxDevices)},
		{o.Channels < 1 || o.Channels > MaxChannels,
			fmt.Sprintf("--channels %d: use 1 to %d", o.Channels, MaxChannels)},
		{o.Windows < 1 || o.Windows > MaxWindows, fmt.Sprintf("--windows %d: use 1 to %d", o.Windows, MaxWindows)},
		{o.Pack != 0 && (o.Pack < 2 || o.Pack > transport.MaxPacked),
			fmt.Sprintf("--pack %d: use 2 to %d", o.Pack, transport.MaxPacked)},
		{o.Pack != 0 && (o.Within < 10*time.Millisecond || o.Within > patience/2),
			fmt.Sprintf("--within %v: use 10ms to %v", o.Within, patience/2)},
		{o.Places != 0 && (o.Places < 2 || o.Places > o.Params.Slots() || o.Places&(o.Places-1) != 0),
			fmt.Sprintf("--places %d: use a power of two from 2 to %d", o.Places, o.Params.Slots())},
		{o.Compact != 0 && o.Compact != 12 && o.Compact != 16, fmt.Sprintf("--compact %d: use 12 or 16", o.Compact)},
		{o.Compact != 0 && (o.Seeded || o.Places != 0), "--compact: leave out --seeded and --places"},
		{o.Samples < 1, fmt.Sprintf("--samples %d: use at least 1", o.Samples)},
		{o.Workers < 0, fmt.Sprintf("--workers %d: use at least 0", o.Workers)},
		{o.Length < 100*time.Millisecond || o.Length > time.Hour,
			fmt.Sprintf("--seconds %g: use 0.1 to 3600", o.Length.Seconds())},
		{o.Rate < 0 || o.Rate > 1e6, fmt.Sprintf("--rate %g: use a number of windows per second up to 1e6", o.Rate)},
		{o.Memory < minMemory, fmt.Sprintf("--memory %d: use at least %d MiB", o.Memory>>20, minMemory>>20)},
	} {
		if c.bad {
			return fmt.Errorf("%w: %s", ErrOptions, c.text)
		}
	}
	return nil
}
