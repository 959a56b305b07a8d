package loadbench

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
)

// patience bounds waits for something that comes soon if everything works: the service's
// start and end, and the next result.
const patience = time.Minute

// house is the running service, with the way to it.
type house struct {
	*bed
	service  *evaluator.Service
	registry *prometheus.Registry
	checker  *checker
	way      way
	arena    arena
	fed      int64   // windows of each device so far
	outside  outside // what this process does beside the service

	stopped  func() error
	patience time.Duration // with results that do not come

	mu       sync.Mutex
	contexts []*henc.Context
}

// way takes windows to the service and results from it to the checker.
type way interface {
	// feed hands over the chunks of a window, in order. It may block while the service
	// has no room.
	feed(ctx context.Context, p *prepared) error
	close() error
}
