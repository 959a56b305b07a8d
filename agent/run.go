package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
)

// Run samples, encrypts and sends until ctx ends or every replay file is through. Then it
// stops in the order that shutDown lists, for at most the configured stop timeout once
// ctx has ended. It returns nil after an orderly stop. Otherwise it returns what went
// wrong: a replay file (source.ErrReplay), windows that could not be delivered in time
// (ErrUndelivered), a broker that refuses this client.
func (a *Agent) Run(ctx context.Context) error { return a.run(ctx, 0) }

// Once is Run for one window of every stream. It fails with ErrNoSamples when a
// stream of sensors gives nothing for half a minute, or messages cannot come.
func (a *Agent) Once(ctx context.Context) error { return a.run(ctx, 1) }

// run samples until limit windows of every stream are done; 0 is no limit.
func (a *Agent) run(ctx context.Context, limit int) (err error) {
	if !a.used.CompareAndSwap(false, true) {
		return ErrUsed
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	r, err := a.start(ctx, limit > 0)
	if err != nil {
		return err
	}
	return errors.Join(r.sampleAll(limit), r.shutDown())
}

// running is what an agent has while it runs.
type running struct {
	agent   *Agent
	client  transport.Client
	courier *delivery.Courier

	sampling     context.Context // ends with the context of Run, or earlier
	stopSampling func()
	delivering   context.Context // goes on after sampling
	stopDelivery func()
	delivered    chan error // what the courier ended with
	stopMeter    func()
	release      []func() // what start acquired, in its order
}

// start begins everything that runs until the shutdown, in the order in which each part
// needs the ones before:
//
//  1. the connection to the broker, with the last will
//  2. the metrics
//  3. delivery from the spool
//  4. the subscriptions: remote configurations, the device's own status
//  5. the energy meter
//
// connected makes start fail when there is no connection in time.
func (a *Agent) start(ctx context.Context, connected bool) (_ *running, err error) {
	r := &running{agent: a, delivered: make(chan error, 1)}
	defer func() {
		if err != nil {
			r.letGo()
		}
	}()
	var hangUp func()
	if r.client, hangUp, err = a.connect(ctx, connected); err != nil {
		return nil, err
	}
	r.release = append(r.release, hangUp)
	a.link.use(r.client, a.now())
	if r.courier, err = a.newCourier(r.client); err != nil {
		return nil, err
	}
	a.courier.Store(r.courier)
	var served prometheus.Collector = a
	if a.deps.Metrics != nil {
		served = a.deps.Metrics
	}
	stopMetrics, err := daemon.ServeMetrics(a.cfg.Metrics.Listen, served, a.log)
	if err != nil {
		return nil, err
	}
	r.release = append(r.release, stopMetrics)
	r.sampling, r.stopSampling = context.WithCancel(ctx)
	r.delivering, r.stopDelivery = context.WithCancel(context.WithoutCancel(ctx))
	r.release = append(r.release, r.stopSampling, r.deliver(ctx), a.listen(ctx, r.client),
		a.watchDuplicates(ctx, r.client), a.announceRenewals(ctx, r.client))
	if a.deps.OnReady != nil {
		a.deps.OnReady()
	}
	a.stopping(r.stopSampling)
	r.stopMeter = a.meter.Start()
	return r, nil
}

// deliver sends what is in the spool until stop is called, or for a while after ctx ends.
// Sampling ends when nothing more can be delivered.
func (r *running) deliver(ctx context.Context) (stop func()) {
	var bound sync.WaitGroup // nothing of the agent outlives Run
	bound.Go(func() {
		select {
		case <-ctx.Done():
			r.agent.later(r.delivering, r.client, r.stopDelivery)
		case <-r.delivering.Done():
		}
	})
	go func() {
		err := r.courier.Run(r.delivering)
		if err != nil {
			r.stopSampling()
			r.stopDelivery()
		}
		r.delivered <- err
	}()
	return func() {
		r.stopDelivery()
		bound.Wait()
	}
}

// later calls stop after the stop timeout, unless ctx ends first. It calls stop earlier
// when all windows are on disk and there is no connection. The timeout is real time
// whatever the agent's clock is, since it bounds a shutdown.
func (a *Agent) later(ctx context.Context, client transport.Client, stop func()) {
	t := time.NewTimer(a.cfg.StopTimeout)
	defer t.Stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-t.C:
			stop()
		case <-look.C:
			if a.spool.Durable() && !client.Connected() && a.spool.Closed() && a.spool.Stats().MemoryObjects == 0 {
				stop()
			}
		case <-ctx.Done():
			return
		}
	}
}

// sampleAll runs every stream until its samples end, and returns what went wrong. The
// last window of each is in the spool then.
func (r *running) sampleAll(limit int) error {
	a := r.agent
	errs := make([]error, len(a.streams)+1)
	expect, stopExpecting := context.WithCancel(r.sampling)
	defer stopExpecting()
	var streams, expecting sync.WaitGroup
	if limit > 0 {
		expecting.Go(func() { errs[len(a.streams)] = a.expectSamples(expect, firstWindow, r.stopSampling) })
	}
	for i, s := range a.streams {
		streams.Go(func() { errs[i] = a.sample(r.sampling, r.delivering, s, limit) })
	}
	streams.Wait()
	stopExpecting()
	expecting.Wait()
	return errors.Join(errs...)
}

// shutDown ends in this order what start began, after sampling has ended and the last
// windows are in the spool:
//
//  1. The spool takes no more windows. Delivery goes on until it is empty, the stop
//     timeout is over, or the windows are on disk and there is no connection.
//  2. The energy meter reads its sensor once more.
//  3. What the spool has in memory is written to disk. What stays is told.
//  4. The device says that it goes offline.
//  5. Subscriptions, delivery, metrics and the connection end, the last one first.
//
// Close does the rest: sources, inputs, state, spool and keys.
func (r *running) shutDown() error {
	defer r.letGo()
	a := r.agent
	r.stopSampling()
	a.spool.Close()
	errs := []error{<-r.delivered, a.failure()}
	r.stopMeter()
	a.spool.Flush()
	switch left := a.spool.Stats(); {
	case left.Objects > 0 && a.spool.Durable() && left.MemoryObjects == 0:
		a.log.Info("windows stay in the spool for the next start", "objects", left.Objects, "bytes", left.Bytes)
	case left.Objects > 0:
		errs = append(errs, fmt.Errorf("%w: %d objects were still waiting after %s", ErrUndelivered, left.Objects,
			a.cfg.StopTimeout))
	}
	a.goodbye(r.client)
	a.log.Info("agent has stopped", "sent", r.courier.Stats().Delivered)
	return errors.Join(errs...)
}

// letGo releases what start acquired, the last one first.
func (r *running) letGo() {
	for _, f := range slices.Backward(r.release) {
		f()
	}
}
