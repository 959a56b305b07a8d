package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// Once is Run for one window of every stream.
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
	a.link.use(client, a.clock.Now())
	sender, err := transport.NewSender(client, int(a.cfg.Broker.ChunkSize))
	if err != nil {
		return err
	}
	stopMetrics, err := daemon.ServeMetrics(a.cfg.Metrics.Listen, a, a.log)
	if err != nil {
		return err
	}
	defer stopMetrics()

	// Sampling ends with sample; delivery goes on until deliver ends.
	sample, stopSampling := context.WithCancel(ctx)
	defer stopSampling()
	deliver, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivery()
	context.AfterFunc(ctx, func() { a.later(deliver, stopDelivery) })

	sending := make(chan error, 1)
	go func() {
		err := a.send(deliver, sender)
		if err != nil {
			stopSampling() // nothing more can be delivered
			stopDelivery()
		}
		sending <- err
	}()
	if a.deps.OnReady != nil {
		a.deps.OnReady()
	}
	var wg sync.WaitGroup
	errs := make([]error, len(a.streams))
	for i, s := range a.streams {
		wg.Go(func() { errs[i] = a.sample(sample, deliver, s, limit) })
	}
	wg.Wait()
	stopSampling()
	a.spool.Close()
	errs = append(errs, <-sending)
	if left := a.spool.Stats().Objects; left > 0 {
		errs = append(errs, fmt.Errorf("%w: %d objects were still waiting after %s", ErrUndelivered, left, a.cfg.StopTimeout))
	}
	a.goodbye(client)
	a.log.Info("agent has stopped", "sent", a.sent.Load())
	return errors.Join(errs...)
}

// later calls stop after the stop timeout, unless ctx ends first. The timeout
// is real time whatever the agent's clock: it bounds a shutdown.
func (a *Agent) later(ctx context.Context, stop func()) {
	t := time.NewTimer(a.cfg.StopTimeout)
	defer t.Stop()
	select {
	case <-t.C:
		stop()
	case <-ctx.Done():
	}
}

// sample runs one stream until ctx ends, its file ends, or limit windows are
// done. Windows go through a goroutine that encrypts, so that encryption does
// not delay samples. A regular end is nil.
func (a *Agent) sample(ctx, deliver context.Context, s *stream, limit int) error {
	log := a.log.With("stream", s.cfg.Name)
	windows := make(chan *window, windowQueue)
	var wg sync.WaitGroup
	wg.Go(func() {
		for w := range windows {
			a.encrypt(deliver, s, w)
		}
	})
	defer wg.Wait()
	defer close(windows)
	c := newCollector(s.cfg, &s.count, log)
	for n := 0; ; {
		r, err := s.source.next(ctx)
		if err != nil {
			if w := c.flush(); w != nil {
				windows <- w
			}
			if ctx.Err() != nil || isEnd(err) {
				return nil
			}
			log.Error("the stream has ended", "error", err)
			return fmt.Errorf("stream %s: %w", s.cfg.Name, err)
		}
		for _, w := range c.add(r) {
			windows <- w
			if n++; n == limit {
				return nil
			}
		}
	}
}

// encrypt seals a window and puts it into the spool. A window that cannot be
// sealed is lost, counted and logged; the stream goes on.
func (a *Agent) encrypt(ctx context.Context, s *stream, w *window) {
	out, err := a.finish(s, w)
	if err != nil {
		s.count.encryptErrors.Add(1)
		a.log.Error("a window is lost", "stream", s.cfg.Name, "start", w.start, "error", err)
		return
	}
	if err := a.spool.Put(ctx, Item{Topic: s.topic, Sealed: out.object}); err != nil {
		a.log.Warn("a window is dropped", "stream", s.cfg.Name, "sequence", out.meta.Sequence, "error", err)
	}
}

// Delays between attempts to send.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// send delivers the spool's items in order until it is closed and empty or ctx
// ends. It fails when nothing can be delivered any more.
func (a *Agent) send(ctx context.Context, sender *transport.Sender) error {
	delay := firstRetry
	for {
		it, err := a.spool.Next(ctx)
		if errors.Is(err, ErrSpoolClosed) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the queue: %w", err)
		}
		err = sender.Send(ctx, it.Topic, it.Sealed)
		switch {
		case err == nil:
			a.sent.Add(1)
			a.link.acknowledged(a.clock.Now())
			a.sentBytes.Add(uint64(len(it.Sealed)))
			a.spool.Done()
			delay = firstRetry
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, transport.ErrClosed), errors.Is(err, transport.ErrRefused), errors.Is(err, transport.ErrOptions):
			return fmt.Errorf("send: %w", err)
		case errors.Is(err, transport.ErrTooLarge), errors.Is(err, transport.ErrMalformed):
			a.refuse.Add(1)
			a.log.Error("an object can never be sent; raise broker.chunk_size", "topic", it.Topic, "error", err)
			a.spool.Done()
		default:
			a.retry.Add(1)
			a.link.failed(err, a.clock.Now())
			a.log.Warn("sending failed; it will be tried again", "topic", it.Topic, "in", delay, "error", err)
			if a.clock.Sleep(ctx, delay) != nil {
				return nil
			}
			delay = min(2*delay, lastRetry)
		}
	}
}
