package engine

import (
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
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

// widthOf returns the width of the device of a context. Devices with memory of their own
// run a batch in one set of launches. The processor gains nothing from batches: for three
// programs of edge13-d3 one item takes 39 ms of a core alone, 42 ms in batches of 4 and of
// 16 (BenchmarkRunBatch of package program, AVX-512). There each worker runs a job of its own.
func (o *Options) widthOf(ctx *henc.Context) width {
	if o.width != nil {
		return o.width(ctx)
	}
	m, ok := ctx.Ring().Backend().(cutrantt.Memory)
	if !ok {
		return width{batches: max(o.Workers, 1), most: 1}
	}
	return width{batches: 2, most: max(o.Batch, 1), memory: int64(m.Memory() / batchShare)}
}

// batchShare is the part of a device's memory that the values of one batch may take: two
// are under way, and windows that wait, keys and the device's own working memory need the
// rest.
const batchShare = 8
