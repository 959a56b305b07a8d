package loadbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
)

// open starts the service and waits until it listens.
func (b *bed) open(ctx context.Context) (h *house, err error) {
	h = &house{bed: b, patience: patience}
	h.checker = newChecker(b, &h.outside)
	ready, ended := make(chan struct{}), make(chan error, 1)
	deps := evaluator.Deps{
		Context: func(p henc.Parameters) (*henc.Context, error) { return h.note(b.o.Context(p)) },
		More: func(p henc.Parameters) ([]*henc.Context, error) {
			more, err := b.o.More(p)
			for _, c := range more {
				_, _ = h.note(c, nil)
			}
			return more, err
		},
		Reopen: b.o.Reopen, Logger: b.o.Logger,
		OnReady: func() { close(ready) },
		OnRefused: func(reason string, err error) {
			h.checker.fail(fmt.Errorf("the evaluator refused something (%s): %w", reason, err))
		},
	}
	if h.way, err = h.makeWay(ctx, &deps); err != nil {
		return nil, err
	}
	if h.service, err = evaluator.New(b.cfg, deps); err != nil {
		return nil, errors.Join(err, h.way.close())
	}
	h.registry = prometheus.NewRegistry()
	if err := h.registry.Register(h.service); err != nil {
		return nil, errors.Join(err, h.service.Close(), h.way.close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := h.service.Run(running)
		if err != nil {
			h.checker.fail(fmt.Errorf("the evaluator ended: %w", err))
		}
		ended <- err
	}()
	h.stopped = func() error {
		stop()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience + b.cfg.StopTimeout):
			return errors.New("the evaluator does not stop")
		}
	}
	select {
	case <-ready:
		return h, nil
	case <-h.checker.failed:
		err = h.checker.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(patience):
		err = errors.New("the evaluator does not get ready")
	}
	return nil, errors.Join(err, h.close())
}

func (h *house) makeWay(ctx context.Context, deps *evaluator.Deps) (way, error) {
	if h.o.Broker == "" {
		w := &inProcess{house: h}
		deps.Client = w
		return w, nil
	}
	return h.dialBroker(ctx)
}

// note records a context that the service computes with.
func (h *house) note(c *henc.Context, err error) (*henc.Context, error) {
	if err == nil {
		h.mu.Lock()
		h.contexts = append(h.contexts, c)
		h.mu.Unlock()
	}
	return c, err
}

// close stops the service.
func (h *house) close() error {
	return errors.Join(h.stopped(), h.way.close(), h.arena.free())
}
