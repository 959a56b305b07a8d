package input

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/backoff"
	"github.com/hencedge/hencedge/internal/role"
)

// Background runs one function from its first use until Close.
type Background struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	closed bool
	wg     sync.WaitGroup
}

// Start runs f once, on a goroutine of its own, unless Close was called.
func (b *Background) Start(f func(ctx context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.cancel != nil {
		return
	}
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(context.Background())
	b.wg.Go(func() { f(ctx) })
}

// Close ends the function's context and waits for it.
func (b *Background) Close() error {
	b.mu.Lock()
	b.closed = true
	if b.cancel != nil {
		b.cancel()
	}
	b.mu.Unlock()
	b.wg.Wait()
	return nil
}

// Started is a sensor that starts its input at the first read.
type Started struct {
	Sensor
	Begin func()
	// Trouble says why the input fails at the moment, nil when it does not. It may
	// be nil itself.
	Trouble func() error
}

// Read starts the input and reads. Where there is no value because the input
// fails, the error says so.
func (s Started) Read(ctx context.Context) (float64, time.Time, error) {
	s.Begin()
	v, at, err := s.Sensor.Read(ctx)
	if s.Trouble != nil && (errors.Is(err, ErrNoValue) || errors.Is(err, ErrStale)) {
		if why := s.Trouble(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return v, at, err
}

// Worker runs the work of one input: it waits after failures and says in the
// log when they begin and end.
type Worker struct {
	log     *slog.Logger
	count   *Counters
	backoff backoff.Waits
	trouble atomic.Pointer[error]
}

// NewWorker makes the worker of an input.
func NewWorker(in config.Input, env Env) *Worker {
	return &Worker{log: env.Logger().With("input", in.Name), count: env.Counters(),
		backoff: backoff.Waits{First: in.Retry, Most: in.RetryMax}}
}

// Poll calls f every interval until ctx ends, each time with a context that ends
// after timeout. Calls that are due while one is running are left out. After a
// failure it waits for the back-off, or the interval where that is longer.
func (w *Worker) Poll(ctx context.Context, every, timeout time.Duration, f func(ctx context.Context) error) {
	due := time.Now()
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, timeout)
		err := f(once)
		cancel()
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if due = due.Add(every); now.After(due) {
			due = due.Add(now.Sub(due).Truncate(every))
			due = due.Add(every)
		}
		if wait := w.Note(err); err != nil && now.Add(wait).After(due) {
			due = now.Add(wait)
		}
		if role.Sleep(ctx, due.Sub(now)) != nil {
			return
		}
	}
}

// Receive calls f, which receives until it fails, again and again until ctx
// ends, with the back-off between. f calls Working when it receives.
func (w *Worker) Receive(ctx context.Context, f func(ctx context.Context) error) {
	for ctx.Err() == nil {
		err := f(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = ErrNoValue
		}
		if role.Sleep(ctx, w.Note(err)) != nil {
			return
		}
	}
}

// Log returns where the worker's input logs.
func (w *Worker) Log() *slog.Logger { return w.log }

// Working says that the input works.
func (w *Worker) Working() { w.Note(nil) }

// Trouble returns the last failure, nil once the input works.
func (w *Worker) Trouble() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Note takes the outcome of an attempt and gives the wait before the next one,
// 0 after a success. Of a row of failures the first is logged as a warning.
func (w *Worker) Note(err error) time.Duration {
	if err == nil {
		if n := w.backoff.Failures(); n > 0 {
			w.log.Info("the input works again", "failures", n)
			w.backoff.Good()
			w.trouble.Store(nil)
		}
		return 0
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w (the packaged service opens devices only with the drop-in devices.conf and their "+
			"group, see docs/operations.md)", err)
	}
	w.count.Failures.Add(1)
	w.trouble.Store(&err)
	level := slog.LevelDebug
	if w.backoff.Failures() == 0 {
		level = slog.LevelWarn
	}
	wait := w.backoff.Next()
	w.log.Log(context.Background(), level, "the input fails; it is tried again", "error", err, "in",
		wait.Round(time.Millisecond))
	return wait
}

// Guard keeps a device that is read on the spot from being tried at every tick
// after it failed.
type Guard struct {
	mu     sync.Mutex
	worker *Worker
	until  time.Time
}

// NewGuard makes the guard of an input.
func NewGuard(in config.Input, env Env) *Guard { return &Guard{worker: NewWorker(in, env)} }

// Do calls f, unless f failed a moment ago: then it is ErrWaiting with that
// failure. Calls do not overlap.
func (g *Guard) Do(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Before(g.until) {
		return fmt.Errorf("%w: %w", ErrWaiting, g.worker.Trouble())
	}
	err := f()
	if wait := g.worker.Note(err); wait > 0 {
		g.until = time.Now().Add(wait)
	}
	return err
}
