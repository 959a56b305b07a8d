package engine

import (
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// Options say which devices an Engine may use, and what it does when one fails.
type Options struct {
	// ReadKeys reads the evaluation keys into another context; nil means that they lie
	// where they are. Then there are no further devices, and a device that fails fails
	// its jobs.
	ReadKeys func(*henc.Context) ([]Keys, error)
	// More makes contexts on further devices for parameters; nil means none.
	More func(henc.Parameters) ([]*henc.Context, error)
	// Reopen makes a context on the device of one that failed; nil means that there is
	// no way.
	Reopen func(*henc.Context) (*henc.Context, error)
	// Policy says what happens when a device fails. OnFallback is called then, and when
	// the memory of a device is exhausted. Stop ends the service.
	Policy     config.FallbackPolicy
	OnFallback func()
	// OnBatch is called for each run of one or more jobs together; nil: it is not.
	OnBatch func()
	Stop    func(err error)
	Now     func() time.Time
	Logger  *slog.Logger
	// Workers is how many runs the processor takes at a time, Batch how many runs of one
	// form a GPU takes as one, and Latency how long a run may wait for others while the
	// GPU computes.
	Workers, Batch int
	Latency        time.Duration

	width func(*henc.Context) width // for tests: what widthOf returns
}
