package loadbench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
)

// patience bounds waits for something that comes soon if everything works: the service's
// start and end, and the next result.
const patience = time.Minute

// house is the running service, with the way to it.
type house struct {
	*bed
	service  *evaluator.Service
	registry *prometheus.Registry
	checker  *checker
	way      way
	arena    arena
	fed      int64   // windows of each device so far
	outside  outside // what this process does beside the service

	stopped  func() error
	patience time.Duration // with results that do not come

	mu       sync.Mutex
	contexts []*henc.Context
}

// way takes windows to the service and results from it to the checker.
type way interface {
	// feed hands over the chunks of a window, in order. It may block while the service
	// has no room.
	feed(ctx context.Context, p *prepared) error
	close() error
}

// outside is the processor time of this process that is not the service's.
type outside struct{ feeding, checking atomic.Int64 } // nanoseconds

// spend adds the processor time of f, which must not block, to ns.
func spend(ns *atomic.Int64, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	f()
	ns.Add(threadTime() - start)
}

// threadTime is the processor time of this thread.
func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}

// processTime is the processor time of this process.
func processTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

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

// note keeps the contexts that the service computes with.
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

func (h *house) makeWay(ctx context.Context, deps *evaluator.Deps) (way, error) {
	if h.o.Broker == "" {
		w := &inProcess{house: h}
		deps.Client = w
		return w, nil
	}
	return h.dialBroker(ctx)
}
