package input

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hencedge/hencedge/config"
)

func TestCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCell(3 * time.Second)
		read := func() (float64, error) {
			v, _, err := c.Read(t.Context())
			return v, err
		}
		if _, err := read(); !errors.Is(err, ErrNoValue) {
			t.Errorf("before the first value: %v", err)
		}
		c.Set(7)
		time.Sleep(3 * time.Second)
		if v, err := read(); v != 7 || err != nil {
			t.Errorf("at the age limit: %v, %v", v, err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := read(); !errors.Is(err, ErrStale) {
			t.Errorf("beyond it: %v", err)
		}
		c.Set(8)
		c.Fail(ErrReading)
		if _, err := read(); !errors.Is(err, ErrReading) {
			t.Errorf("after a bad value: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := c.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A value from before the machine slept is as old as it is.
func TestCellAsleep(t *testing.T) {
	original := asleep
	defer func() { asleep = original }()
	slept := time.Duration(0)
	asleep = func() time.Duration { return original() + slept }
	c := NewCell(time.Minute)
	c.Set(7)
	slept = 50 * time.Second
	if v, _, err := c.Read(t.Context()); v != 7 || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	slept = time.Hour
	if _, _, err := c.Read(t.Context()); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "1h0m0") {
		t.Errorf("got %v", err)
	}
	c.Set(8)
	if v, _, err := c.Read(t.Context()); v != 8 || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}

func worker(log *strings.Builder) *Worker {
	return NewWorker(config.Input{Name: "x", Retry: 4 * time.Second, RetryMax: time.Minute},
		Env{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var at []time.Duration
		start := time.Now()
		work := []func(ctx context.Context) error{
			func(context.Context) error { return nil },
			func(context.Context) error { time.Sleep(2500 * time.Millisecond); return nil }, // misses two
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },              // hangs
			func(context.Context) error { return nil },
			func(context.Context) error { cancel(); return nil },
		}
		worker(&log).Poll(ctx, time.Second, 3*time.Second, func(ctx context.Context) error {
			at = append(at, time.Since(start))
			return work[len(at)-1](ctx)
		})
		if len(at) != 5 || at[0] != 0 || at[1] != time.Second || at[2] != 4*time.Second {
			t.Fatalf("polled at %v", at)
		}
		// The hanging poll ended at 7 s; the back-off is 2 to 4 s.
		if at[3] < 9*time.Second || at[3] > 11*time.Second || at[4] != at[3]+time.Second {
			t.Errorf("polled at %v", at)
		}
		if s := log.String(); strings.Count(s, "fails") != 1 || strings.Count(s, "works again") != 1 {
			t.Errorf("log: %s", s)
		}
	})
}

func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuard(config.Input{Name: "x", Retry: 4 * time.Second, RetryMax: time.Minute},
			Env{Log: slog.New(slog.DiscardHandler)})
		boom, calls := errors.New("boom"), 0
		try := func(err error) error { return g.Do(func() error { calls++; return err }) }
		if err := try(boom); err != boom {
			t.Error(err)
		}
		if err := try(nil); !errors.Is(err, ErrWaiting) || calls != 1 {
			t.Errorf("%v, %d calls", err, calls)
		}
		time.Sleep(4 * time.Second)
		if err := try(nil); err != nil || calls != 2 {
			t.Errorf("%v, %d calls", err, calls)
		}
		if err := try(nil); err != nil || calls != 3 {
			t.Errorf("%v, %d calls", err, calls)
		}
	})
}

func TestBackground(t *testing.T) {
	var b Background
	var runs, ended atomic.Int32
	f := func(ctx context.Context) { runs.Add(1); <-ctx.Done(); ended.Add(1) }
	b.Start(f)
	b.Start(f)
	b.Close()
	b.Start(f)
	b.Close()
	if runs.Load() != ended.Load() || runs.Load() > 1 {
		t.Errorf("%d runs, %d ended", runs.Load(), ended.Load())
	}
}
