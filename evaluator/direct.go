package evaluator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/transport"
)

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
	d.p.stages.since(stageJoin, start)
	d.p.accepted(v.w, len(jobs))
	return jobs, nil
}

func (d *direct) publish(ctx context.Context, _ *job, seal func() (*result, error)) (*result, error) {
	r, err := seal()
	if err != nil {
		return nil, err
	}
	defer d.p.stages.since(stagePublish, time.Now())
	return r, d.p.sender.Send(ctx, r.topic, r.sealed)
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
