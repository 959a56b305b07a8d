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

func (d *direct) intakes(workers int) int { return min(workers, 4) }

func (d *direct) resume(context.Context) {}

func (d *direct) take(working context.Context, o transport.Staged) {
	jobs, err := d.join(o)
	if err != nil {
		d.p.devices.refuseWindow(o, err)
	}
	for _, j := range jobs {
		d.p.queue(working, j)
	}
}

// join verifies one object and returns the jobs that its window completes.
func (d *direct) join(o transport.Staged) ([]*job, error) {
	start := time.Now()
	obj, err := d.p.verifier.OpenFrom(o.Topic, o.Sealed)
	if err != nil {
		return nil, err
	}
	d.p.stages.since(stageVerify, start)
	w, err := d.p.window(obj)
	if err != nil {
		return nil, err
	}
	start = time.Now()
	jobs, err := d.p.join.add(w)
	if err != nil {
		return nil, err
	}
	d.p.stages.since(stageJoin, start)
	d.p.accepted(w, len(jobs))
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
