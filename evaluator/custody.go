package evaluator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/transport"
)

// openCustody takes stored custody if the configuration has a store, else direct custody.
func (s *Service) openCustody(keys []engine.Keys) error {
	if s.cfg.Store == nil {
		return nil // direct already
	}
	d, err := openStored(s.pipeline, keys)
	if err == nil {
		s.custody = d
	}
	return err
}

// custody decides who answers for windows and results while the service works on
// them. With direct custody nobody does: what is lost on the way stays lost. With
// stored custody this evaluator does, from its disk.
type custody interface {
	// resume joins the windows that an earlier process took. It runs before verify and take.
	resume(working context.Context)
	// verify verifies one object and decodes its window.
	verify(o transport.Staged) verdict
	// take joins the window of one object and queues the jobs that it completes, or reports
	// why not. Objects of one topic are taken in order, others at the same time.
	take(working context.Context, o transport.Staged, v verdict)
	// publish seals the result of a job and hands it over.
	publish(ctx context.Context, j *job, seal func() (*result, error)) (*result, error)
	// finish ends a job. err says why there is no result; nil means that there is one.
	finish(ctx context.Context, j *job, err error)
	// expire drops windows that have waited too long.
	expire(now time.Time)

	// listen subscribes to the questions of devices.
	listen(ctx context.Context, client transport.Client) error
	// deliver starts the delivery of receipts and results. It calls end when results
	// cannot be delivered any more. The function that it returns waits until done is
	// closed and the last results are delivered, for a while at most.
	deliver(ctx context.Context, client transport.Client, end func(), done <-chan struct{}) (hangUp func() error)

	// describe adds to the state of the service, health to what is wrong with it, and
	// collect to its metrics.
	describe(st *State)
	health(now time.Time) []string
	collect(ch chan<- prometheus.Metric)

	close() error
}
