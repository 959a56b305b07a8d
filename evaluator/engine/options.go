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
	// ReadKeys reads the evaluation keys into another context. If it is nil, the keys stay
	// on their first device: More is not called, and the jobs of a failed device fail.
	ReadKeys func(*henc.Context) ([]Keys, error)
	// More makes contexts for the parameters on further devices; nil means none.
	More func(henc.Parameters) ([]*henc.Context, error)
	// Reopen makes a new context on a device that failed; nil means that this is not
	// possible.
	Reopen func(*henc.Context) (*henc.Context, error)
	// Policy says what happens when a device fails. OnFallback is called when a device
	// fails or its memory is exhausted. Stop ends the service.
	Policy     config.FallbackPolicy
	OnFallback func()
	// OnBatch, if not nil, is called for every batch, however small.
	OnBatch func()
	Stop    func(err error)
	Now     func() time.Time
	Logger  *slog.Logger
	// Workers bounds the runs on the processor at a time and Batch the runs in one batch of
	// a GPU. Latency bounds how long a run waits for its batch to grow while the GPU computes.
	Workers, Batch int
	Latency        time.Duration
	// Places is the most windows that may be added up; 0 means 1.
	Places int

	width func(*henc.Context) width // replaces widthOf in tests
}

// widthOf returns the width of a context's device. A device with its own memory runs a
// batch in one set of launches. The processor gains nothing from batches, so each worker
// runs one job at a time: three programs of edge13-d3 take 39 ms of a core for one item
// alone, and 42 ms in batches of 4 or 16 (BenchmarkRunBatch of package program, AVX-512).
func (o *Options) widthOf(ctx *henc.Context) width {
	if o.width != nil {
		return o.width(ctx)
	}
	processor, gpu := o.widths()
	m, ok := ctx.Ring().Backend().(cutrantt.Memory)
	if !ok {
		return processor
	}
	gpu.memory = int64(m.Memory() / batchShare)
	return gpu
}

func (o *Options) widths() (processor, gpu width) {
	return width{batches: max(o.Workers, 1), most: 1}, width{batches: 2, most: max(o.Batch, 1)}
}

// Runs returns how many runs of one parameter set the processor takes at a time, and a GPU.
// Each holds its windows, beside those that wait elsewhere.
func (o *Options) Runs() (processor, gpu int) {
	p, g := o.widths()
	return o.runs(p), o.runs(g)
}

// runs returns how many runs a device takes at a time. While the processor computes as many as it
// can, others with places wait: the more there are, the more places have a window when the next
// batch begins.
func (o *Options) runs(w width) int {
	items, waiting, places := w.batches*w.most, 0, max(o.Places, 1)
	if w.most == 1 && places > 1 {
		waiting = max(items, fewestWaiting)
	}
	return max(items, min((items+waiting)*places, mostAdded))
}

// fewestWaiting is how many runs for each place wait for the processor at least. Of 32 windows
// at random places, each of 8 places has one nine times in ten.
const fewestWaiting = 4

// mostAdded bounds the runs of a device at a time that are there only to be added up: each
// holds a window.
const mostAdded = 2048

// batchShare divides the memory of a device into shares, one for the values of a batch.
// Two batches run at a time; queued windows, keys and working memory need the rest.
const batchShare = 8
