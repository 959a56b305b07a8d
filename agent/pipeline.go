package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// windowQueue is how many finished windows of a stream may wait for encryption
// before sampling waits.
const windowQueue = 4

// Delays between attempts to write the state.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

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
		a.log.Error("cannot write the state file; the window waits", "stream", s.Config.Name, "in", delay, "error", err)
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

// finish seals a window under the next number, counts it and tells the observer.
func (a *Agent) finish(s *stream, w *source.Window) (*seal.Sealed, error) {
	sequence, err := a.state.Take(s.Config.Name)
	if err != nil {
		return nil, err
	}
	out, err := a.sealed(s.Stream.Stream, w,
		seal.Identity{Device: a.cfg.Device, Boot: a.state.Boot(), Sequence: sequence, BootID: a.bootID})
	if err != nil {
		return nil, err
	}
	a.tracing.sealed(out, w.Start, w.End, a.clock.Now())
	s.sealed.windows.Add(1)
	if w.Samples < s.Config.Window.Samples {
		s.sealed.partial.Add(1)
	}
	s.sealed.bodyBytes.Add(uint64(out.Body))
	s.sealed.objectBytes.Add(uint64(len(out.Object)))
	s.sealed.encryptNanos.Add(uint64(out.Encrypt))
	a.log.Debug("window sealed", "stream", s.Config.Name, "sequence", sequence, "samples", w.Samples, "bytes",
		len(out.Object), "encrypt", out.Encrypt)
	if a.deps.Observer != nil {
		chunks, err := transport.Split(out.Object, int(a.cfg.Broker.ChunkSize))
		if err != nil {
			return nil, err
		}
		a.deps.Observer(Observation{Meta: out.Meta, Object: sha256.Sum256(out.Object), Values: w.Values,
			Encrypt: out.Encrypt, Body: out.Body, Sealed: len(out.Object), Chunks: len(chunks)})
		return out, nil
	}
	return out, nil
}

// gap counts and reports the time between the newest window of an earlier process
// and the first sample of this one: samples of sensors that nobody took.
func (a *Agent) gap(s *stream, first time.Time) {
	last := a.spool.Last(s.Config.Name)
	away := s.Source.Gap(last, first)
	if away == 0 {
		return
	}
	s.sealed.gapNanos.Store(uint64(away))
	a.log.Warn("no samples were taken while the agent was not running", "stream", s.Config.Name, "from",
		last.UTC(), "to", first, "gap", away.Round(time.Second))
}

// place puts a sealed window into the spool.
func (a *Agent) place(ctx context.Context, s *stream, w *source.Window, sealed []byte) error {
	it := spool.Item{Stream: s.Config.Name, Topic: s.Topic, Sealed: sealed}
	if a.spool.Durable() {
		it.Cursor = s.Source.Cursor(w.Position)
	}
	it.Unkept = s.Kept
	return a.spool.Put(ctx, it)
}
