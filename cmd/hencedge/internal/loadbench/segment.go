package loadbench

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// segment is a stretch of load. The interval that counts begins when the pipeline is full
// and ends with the last window that is fed. If that is uneven, the whole segment counts.
type segment struct {
	fed        int64    // windows
	bytesIn    int64    // of their messages
	from, to   snapshot // of the interval that counts
	start, end snapshot // of the segment, including its last results
	delays     []delay
	checked    verified
}

// uneven reports whether the interval that counts says little: it has less than half of the
// results, or queues grew or shrank in it, so that the service took in more windows than it
// finished, or fewer.
func (s *segment) uneven() bool {
	all, results := s.end.results-s.start.results, s.to.results-s.from.results
	taken := float64(s.to.stages[firstStage].count - s.from.stages[firstStage].count)
	done := float64(results) * float64(s.fed) / float64(all)
	return results < all/2 || math.Abs(taken-done) > 0.05*done
}

// feeders returns the number of feeders. Feeder f has devices f, f+feeders, ... and feeds one
// window of each in turn.
func (h *house) feeders() int { return min(len(h.devices), 4*runtime.GOMAXPROCS(0), 64) }

// look is the interval at which a segment checks its progress.
const look = 5 * time.Millisecond

// ahead bounds how many windows a device may be ahead of another.
const ahead = 2

// rounds keeps the feeders together and stops them all after the same round.
type rounds struct {
	mu      sync.Mutex
	changed sync.Cond
	at      []int // round of each feeder
	least   int   // the smallest of them
	stopAt  int
	started int
	ended   bool // stop at once, whatever the others do
}

func newRounds(feeders, stopAt int) *rounds {
	r := &rounds{at: make([]int, feeders), stopAt: stopAt}
	r.changed.L = &r.mu
	return r
}

// begin reports whether a feeder may feed its next round. It waits for feeders that are far
// behind.
func (r *rounds) begin(feeder, round int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached(feeder, round)
	for !r.ended && round < r.stopAt && round >= r.least+ahead {
		r.changed.Wait()
	}
	if r.ended || round >= r.stopAt {
		r.reached(feeder, math.MaxInt-ahead) // so that no other waits for it
		return false
	}
	r.started = max(r.started, round+1)
	return true
}

// reached notes the round of a feeder, and wakes the others when the slowest has gone on. The
// caller holds the lock.
func (r *rounds) reached(feeder, round int) {
	r.at[feeder] = round
	if least := slices.Min(r.at); least > r.least {
		r.least = least
		r.changed.Broadcast()
	}
}

// stop ends the feeding after the rounds that have begun.
func (r *rounds) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopAt = min(r.stopAt, r.started)
	r.changed.Broadcast()
}

// end ends the feeding at once.
func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.changed.Broadcast()
}

// load is what a segment feeds.
type load struct {
	rounds int           // windows per device, at most
	limit  time.Duration // how long to feed
	fill   time.Duration // until the pipeline counts as full
	rate   float64       // windows per second; 0: as many as the service takes
	one    int64         // one in so many results of each program is decrypted
	before time.Duration // that was measured before this segment; negative: it is the warm-up
	// profile receives a processor profile of the segment; nil: none is made.
	profile io.Writer
}

// progress tells how much was measured: before this segment, and in it.
func (b *bed) progress(before, now time.Duration) {
	total := b.o.Length
	if b.o.Half {
		total *= 2
	}
	if b.o.Progress != nil && before >= 0 {
		b.o.Progress(min(before+max(now, 0), total), total)
	}
}

// run seals windows, feeds them, waits for all results, and verifies those that it kept.
func (h *house) run(ctx context.Context, l load) (*segment, error) {
	list, err := h.seal(ctx, l.rounds)
	if err != nil {
		return nil, err
	}
	h.checker.reset(l.one)
	runtime.GC() // so that no garbage of the sealing is collected on the clock
	s := new(segment)
	if s.start, err = h.snapshot(); err != nil {
		return nil, err
	}
	if l.profile != nil {
		if err := pprof.StartCPUProfile(l.profile); err != nil {
			return nil, err
		}
	}
	if err = h.feed(ctx, l, list, s); err == nil {
		err = h.drain(ctx)
	}
	pprof.StopCPUProfile()
	if err != nil {
		return nil, err
	}
	if s.end, err = h.snapshot(); err != nil {
		return nil, err
	}
	if s.uneven() {
		s.from, s.to = s.start, s.end
	}
	s.delays = h.checker.delays(s.from.at, s.to.at)
	s.checked, err = h.checker.verify()
	return s, err
}

// feed feeds windows until l says to stop, and takes the snapshots of the interval that
// counts.
func (h *house) feed(ctx context.Context, l load, list []prepared, s *segment) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	turn := newRounds(h.feeders(), l.rounds)
	start := time.Now()
	n, feeders := len(h.devices), h.feeders()
	var wg sync.WaitGroup
	var fedBytes atomic.Int64
	for f := range feeders {
		wg.Go(func() {
			for r := 0; turn.begin(f, r); r++ {
				for d := f; d < n; d += feeders {
					p := &list[r*n+d]
					due := func() error { return nil }
					if l.rate > 0 {
						p.due = start.Add(time.Duration(float64(r*n+d) / l.rate * float64(time.Second)))
						due = func() error { return wait(ctx, p.due) }
					}
					if err := h.way.feed(ctx, p, due); err != nil {
						if ctx.Err() == nil {
							h.checker.fail(err)
						}
						return
					}
					fedBytes.Add(p.bytes())
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	err := h.watch(ctx, l, s, turn, done)
	stop()
	turn.end()
	<-done
	h.fed += int64(turn.started)
	s.fed, s.bytesIn = int64(turn.started*n), fedBytes.Load()
	return err
}

// A timer wakes up late, by as much as half of what a window alone takes. Where windows are rare
// the last of the wait is therefore spent looking at the clock.
const (
	rare    = 5 * time.Millisecond // apart
	looking = time.Millisecond
)

// wait waits until a time, or until ctx ends.
func wait(ctx context.Context, until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		return ctx.Err()
	}
	exact := d >= rare
	if exact {
		d -= looking
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	for exact && time.Now().Before(until) {
		runtime.Gosched()
	}
	return nil
}

// watch takes a snapshot at either end of the interval that counts, and ends the feeding when
// its time is up.
func (h *house) watch(ctx context.Context, l load, s *segment, turn *rounds, done <-chan struct{}) (err error) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	full := false
	for {
		select {
		case <-h.checker.failed:
			return h.checker.err
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			s.to, err = h.snapshot()
			if !full {
				s.from = s.to
			}
			return err
		case <-tick.C:
		}
		elapsed := time.Since(s.start.at)
		h.progress(l.before, elapsed-l.fill)
		if results, _ := h.checker.counts(); !full && elapsed >= l.fill && results > s.start.results {
			full = true
			if s.from, err = h.snapshot(); err != nil {
				return err
			}
		}
		if elapsed >= l.limit {
			turn.stop()
		}
	}
}

// drain waits for the results of all windows that were fed. If none comes for h.patience, the
// missing ones are lost.
func (h *house) drain(ctx context.Context) error {
	want := h.checker.expected(h.fed)
	tick := time.NewTicker(look)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		got, _ := h.checker.counts()
		switch {
		case got >= want:
			return h.extra(want)
		case got > last:
			last, since = got, time.Now()
		case time.Since(since) > h.patience:
			return fmt.Errorf("%d of %d results are lost: none came for %v", want-got, want, h.patience)
		}
		select {
		case <-h.checker.failed:
			return h.checker.err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// extra fails if more results came than the windows explain.
func (h *house) extra(want int64) error {
	h.checker.taking.Wait()
	if got, _ := h.checker.counts(); got > want {
		return fmt.Errorf("%d results came, want %d", got, want)
	}
	select {
	case <-h.checker.failed:
		return h.checker.err
	default:
		return nil
	}
}
