package evaluator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/transport"
)

// custody decides who answers for windows and results while the service works on
// them. With direct custody nobody does: what is lost on the way stays lost. With
// stored custody this evaluator does, from its disk.
type custody interface {
	// intakes returns how many intakes may run at a time.
	intakes(workers int) int
	// resume joins the windows that an earlier process took. It runs before take.
	resume(working context.Context)
	// take verifies one object, joins its window and queues the jobs that it completes.
	take(working context.Context, o transport.Staged)
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

// openCustody returns stored custody if the configuration has a store, else direct
// custody.
func (s *Service) openCustody(keys []engine.Keys) (custody, error) {
	if s.cfg.Store == nil {
		return &direct{s}, nil
	}
	return openStored(s, keys)
}

// direct is custody without a store: windows go from the broker to their programs,
// and results from the programs to the broker.
type direct struct{ s *Service }

func (d *direct) intakes(workers int) int { return min(workers, 4) }

func (d *direct) resume(context.Context) {}

func (d *direct) take(working context.Context, o transport.Staged) {
	jobs, err := d.join(o)
	if err != nil {
		d.s.refuseWindow(o, err)
	}
	for _, j := range jobs {
		d.s.queue(working, j)
	}
}

// join verifies one object and returns the jobs that its window completes.
func (d *direct) join(o transport.Staged) ([]*job, error) {
	obj, err := d.s.verifier.OpenFrom(o.Topic, o.Sealed)
	if err != nil {
		return nil, err
	}
	w, err := d.s.window(obj)
	if err != nil {
		return nil, err
	}
	jobs, err := d.s.join.add(w)
	if err != nil {
		return nil, err
	}
	d.s.accepted(w, len(jobs))
	return jobs, nil
}

func (d *direct) publish(ctx context.Context, _ *job, seal func() (*result, error)) (*result, error) {
	r, err := seal()
	if err != nil {
		return nil, err
	}
	return r, d.s.sender.Send(ctx, r.topic, r.sealed)
}

func (d *direct) finish(context.Context, *job, error) {}

func (d *direct) expire(now time.Time) { d.s.join.expire(now) }

func (d *direct) listen(context.Context, transport.Client) error { return nil }

func (d *direct) deliver(context.Context, transport.Client, func(), <-chan struct{}) func() error {
	return func() error { return nil }
}

func (d *direct) describe(*State) {}

func (d *direct) health(time.Time) []string { return nil }

func (d *direct) collect(chan<- prometheus.Metric) {}

func (d *direct) close() error { return nil }
