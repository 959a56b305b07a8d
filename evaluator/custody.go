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
	// enter waits for the turn of a job's result in its program, and entered ends that turn:
	// the result is in a pack.
	enter(ctx context.Context, j *job) error
	entered(j *job)
	// publishPack is publish for the results of several jobs together.
	publishPack(ctx context.Context, jobs []*job, seal sealPack) (*result, error)
	// finish ends a job. err says why there is no result; nil means that there is one.
	finish(ctx context.Context, j *job, err error)
	// admitSum begins the job that makes a result of a sum. It reports whether the job is to be
	// done.
	admitSum(j *job) bool
	// added ends a job that added a window to a sum; err says why it did not. It reports whether
	// the sum goes on without the window, if there is an error.
	added(j *job, err error) bool
	// addAgain adds the windows of a sum again, after a device was lost. It fails with
	// engine.ErrLost if they are not kept.
	addAgain(j *job) (*engine.Sum, error)
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

// sealPack seals a pack. It also returns the headers of its results.
type sealPack = func() (*result, []transport.Meta, error)

// direct is custody without a store: windows go from the broker to their programs,
// and results from the programs to the broker.
type direct struct{ p *pipeline }

func (d *direct) resume(context.Context) {}

func (d *direct) verify(o transport.Staged) (v verdict) {
	if v.obj, v.err = d.p.open(o); v.err == nil {
		v.w, v.err = d.p.window(v.obj)
	}
	return v
}

func (d *direct) take(working context.Context, o transport.Staged, v verdict) {
	jobs, err := d.join(v)
	if err != nil {
		d.p.devices.refuseWindow(o, err)
	}
	for _, j := range gather(jobs) {
		d.p.queue(working, j)
	}
}

// join returns the jobs that a window completes.
func (d *direct) join(v verdict) ([]*job, error) {
	if v.err != nil {
		return nil, v.err
	}
	start := time.Now()
	jobs, err := d.p.join.add(v.w)
	if err != nil {
		return nil, err
	}
	for _, run := range d.p.fleetsOf(v.w.stream) {
		j, ready, err := d.p.addTo(run, v.w)
		if err != nil {
			d.p.leftOut(run, err)
		} else {
			jobs = append(jobs, j)
		}
		d.p.ready(run, ready)
	}
	d.p.stages.since(stageJoin, start)
	d.p.accepted(v.w, len(jobs))
	return jobs, nil
}

func (d *direct) admitSum(*job) bool { return true }

func (d *direct) added(*job, error) bool { return true }

func (d *direct) addAgain(*job) (*engine.Sum, error) { return nil, engine.ErrLost }

func (d *direct) publish(ctx context.Context, _ *job, seal func() (*result, error)) (*result, error) {
	r, err := seal()
	if err != nil {
		return nil, err
	}
	defer d.p.stages.since(stagePublish, time.Now())
	return r, d.p.sender.SendSealed(ctx, r.topic, r.sealed)
}

func (d *direct) enter(context.Context, *job) error { return nil }

func (d *direct) entered(*job) {}

func (d *direct) publishPack(ctx context.Context, jobs []*job, seal sealPack) (*result, error) {
	return d.publish(ctx, nil, func() (*result, error) {
		r, _, err := seal()
		return r, err
	})
}

func (d *direct) finish(context.Context, *job, error) {}

func (d *direct) expire(now time.Time) { d.p.join.expire(now) }

func (d *direct) listen(context.Context, transport.Client) error { return nil }

func (d *direct) deliver(context.Context, transport.Client, func(), <-chan struct{}) func() error {
	return func() error { return nil }
}

func (d *direct) describe(*State) {}

func (d *direct) health(time.Time) []string { return nil }

func (d *direct) collect(chan<- prometheus.Metric) {}

func (d *direct) close() error { return nil }
