package loadbench

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
)

// patience bounds the waits for what comes soon if everything works: the start and the end of
// the service, and the next result.
const patience = time.Minute

// house is the running service and the way to it.
type house struct {
	*bed
	service  *evaluator.Service
	registry *prometheus.Registry
	checker  *checker
	way      way
	arena    arena
	fed      int64   // windows per device so far
	outside  outside // processor time that is not the service's

	stopped  func() error  // stops the service and waits for it
	patience time.Duration // until missing results count as lost

	mu       sync.Mutex
	contexts []*henc.Context
}

// way takes windows to the service and results from it to the checker.
type way interface {
	// feed hands over the chunks of a window, in order, the last of them once due has
	// returned. It may block until the service has room.
	feed(ctx context.Context, p *prepared, due func() error) error
	close() error
}
