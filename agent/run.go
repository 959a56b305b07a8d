package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// windowQueue is how many finished windows of a stream may wait for encryption
// before sampling waits.
const windowQueue = 4

// Run samples, encrypts and sends until ctx ends or every replay file is
// through. Then it sends what it has (once ctx has ended for at most the
// configured stop timeout), reports itself offline and closes. It returns nil
// after an orderly stop;
// otherwise what went wrong: a replay file (ErrReplay), windows that could not
// be delivered in time (ErrUndelivered), a broker that refuses this client.
func (a *Agent) Run(ctx context.Context) error { return a.run(ctx, 0) }

// Once is Run for one window of every stream. It fails with ErrNoSamples when a
// stream of sensors gives nothing for half a minute, or messages cannot come.
func (a *Agent) Once(ctx context.Context) error { return a.run(ctx, 1) }

func (a *Agent) run(ctx context.Context, limit int) (err error) {
	if !a.used.CompareAndSwap(false, true) {
		return ErrUsed
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	client, hangUp, err := a.connect(ctx, limit > 0)
	if err != nil {
		return err
	}
	defer hangUp()
	a.link.use(client, a.now())
	courier, err := a.newCourier(client)
	if err != nil {
		return err
	}
	a.courier.Store(courier)
	var served prometheus.Collector = a
	if a.deps.Metrics != nil {
		served = a.deps.Metrics
	}
	stopMetrics, err := daemon.ServeMetrics(a.cfg.Metrics.Listen, served, a.log)
	if err != nil {
		return err
	}
	defer stopMetrics()

	// Sampling ends with sample; delivery goes on until deliver ends.
	sample, stopSampling := context.WithCancel(ctx)
	defer stopSampling()
	deliver, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	var bound sync.WaitGroup // nothing of the agent outlives Run
	defer bound.Wait()
	defer stopDelivery()
	bound.Go(func() {
		select {
		case <-ctx.Done():
			a.later(deliver, client, stopDelivery)
		case <-deliver.Done():
		}
	})

	sending := make(chan error, 1)
	go func() {
		err := courier.Run(deliver)
		if err != nil {
			stopSampling() // nothing more can be delivered
			stopDelivery()
		}
		sending <- err
	}()
	stopListening := a.listen(ctx, client)
	defer stopListening()
	stopWatching := a.watchDuplicates(ctx, client)
	defer stopWatching()
	if a.deps.OnReady != nil {
		a.deps.OnReady()
	}
	a.stopping(stopSampling)
	stopMeter := a.meter.Start()
	var wg sync.WaitGroup
	errs := make([]error, len(a.streams)+1)
	expected, expecting := make(chan struct{}), func() {}
	if limit > 0 {
		expect, cancel := context.WithCancel(sample)
		expecting = cancel
		go func() {
			defer close(expected)
			errs[len(a.streams)] = a.expectSamples(expect, firstWindow, stopSampling)
		}()
	} else {
		close(expected)
	}
	for i, s := range a.streams {
		wg.Go(func() { errs[i] = a.sample(sample, deliver, s, limit) })
	}
	wg.Wait()
	expecting()
	<-expected
	stopSampling()
	a.spool.Close()
	errs = append(errs, <-sending, a.failure())
	stopMeter()
	a.spool.Flush() // what is in memory, if the disk takes it now
	switch left := a.spool.Stats(); {
	case left.Objects > 0 && a.spool.Durable() && left.MemoryObjects == 0:
		a.log.Info("windows stay in the spool for the next start", "objects", left.Objects, "bytes", left.Bytes)
	case left.Objects > 0:
		errs = append(errs, fmt.Errorf("%w: %d objects were still waiting after %s", ErrUndelivered, left.Objects, a.cfg.StopTimeout))
	}
	a.goodbye(client)
	a.log.Info("agent has stopped", "sent", courier.Stats().Delivered)
	return errors.Join(errs...)
}

// later calls stop after the stop timeout, unless ctx ends first; when what
// waits is on disk, also as soon as there is no connection. The timeout is real
// time whatever the agent's clock: it bounds a shutdown.
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

// sample runs one stream until ctx ends, its file ends, or limit windows are
// done. Windows go through a goroutine that encrypts, so that encryption does
// not delay samples. A regular end is nil.
func (a *Agent) sample(ctx, deliver context.Context, s *stream, limit int) error {
	log := a.log.With("stream", s.Config.Name)
	windows := make(chan *source.Window, windowQueue)
	var wg sync.WaitGroup
	wg.Go(func() {
		for w := range windows {
			a.encrypt(deliver, s, w)
		}
	})
	defer wg.Wait()
	defer close(windows)
	defer s.Collector.Wipe()
	begun := false
	for n := 0; ; {
		r, err := s.Source.Next(ctx)
		if err != nil {
			if w := s.Collector.Flush(); w != nil {
				windows <- w
			}
			if ctx.Err() != nil || source.IsEnd(err) {
				return nil
			}
			log.Error("the stream has ended", "error", err)
			return fmt.Errorf("stream %s: %w", s.Config.Name, err)
		}
		if !begun {
			begun = true
			a.gap(s, r.At)
		}
		done := s.Collector.Add(r)
		clear(r.Values)
		for _, w := range done {
			windows <- w
			if n++; n == limit {
				return nil
			}
		}
	}
}

// encrypt seals a window and puts it into the spool. A window that cannot be
// sealed is lost, counted and logged; the stream goes on. Only a state file that
// cannot be written is waited for: the window is not to blame.
func (a *Agent) encrypt(ctx context.Context, s *stream, w *source.Window) {
	if a.deps.Observer == nil { // who would own the values
		defer s.Collector.Reuse(w)
	}
	if d := a.state.Lead(a.clock.Now()); d > 0 { // at a start, a second as a rule
		_ = a.clock.Sleep(ctx, d) // a stop waits for no clock: the window goes out all the same
	}
	out, err := a.finish(s, w)
	for delay := firstRetry; errors.Is(err, seal.ErrState) && ctx.Err() == nil; delay = min(2*delay, lastRetry) {
		a.log.Error("a window waits for the state file", "stream", s.Config.Name, "in", delay, "error", err)
		if a.clock.Sleep(ctx, delay) == nil {
			out, err = a.finish(s, w)
		}
	}
	if err != nil {
		s.sealed.errors.Add(1)
		a.log.Error("a window is lost", "stream", s.Config.Name, "start", w.Start, "error", err)
		return
	}
	if err := a.place(ctx, s, w, out.Object); err != nil {
		a.log.Warn("a window is dropped", "stream", s.Config.Name, "sequence", out.Meta.Sequence, "error", err)
	}
}

// Delays between attempts to write the state.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)
