package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/interval"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/traces"
	"github.com/hencedge/hencedge/transport"
)

// Service is a running evaluator. Make it with New and run it once.
type Service struct {
	*pipeline
	deps    Deps
	custody custody
	packs   *packs

	staged chan staged
	turns  turns
	quit   chan struct{} // closed when nothing more is taken
	ran    atomic.Bool
	fatal  chan error // what ends Run early

	together atomic.Int64 // jobs, each with those that go with it, that run
}

// New checks the configuration, compiles the programs, loads the keys, and opens state and
// store. It refuses keys that cannot do what a program needs. Run or Close releases state
// and store. New fails with ErrConfig, engine.ErrKeys or store.ErrState.
func New(cfg *config.Evaluator, deps Deps) (*Service, error) {
	plan, err := Check(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{deps: deps, fatal: make(chan error, 1), quit: make(chan struct{})}
	s.pipeline = newPipeline(cfg, plan, &deps)
	s.custody = &direct{s.pipeline} // until the store is open
	s.packs = newPacks(s)
	if s.signer == nil {
		if s.signer, err = transport.LoadSigningKey(cfg.SigningKey); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	_, alone := plan.packing(cfg.Results)
	for _, w := range append(Warnings(cfg), alone...) {
		s.log.Warn(w)
	}
	keys, err := s.openEngine()
	if err != nil {
		return nil, err
	}
	if s.roster, err = newRoster(cfg, s.reporter); err != nil {
		return nil, err
	}
	s.makeSources()
	if s.devices, err = newDevices(cfg, s.keys, s.roster); err != nil {
		return nil, err
	}
	if s.state, err = store.OpenState(cfg.State, cfg.Name, s.now()); err != nil {
		return nil, err
	}
	if s.verifier, err = s.makeVerifier(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.openCustody(keys); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.staged = make(chan staged, 8)
	s.receiver = transport.NewReceiver(transport.Limits{
		MaxObject: int(cfg.Limits.Object), MaxObjects: cfg.Limits.Pending, MaxBytes: int(cfg.Limits.Memory),
		MaxAge: cfg.Limits.Reassembly,
	}, s.stage)
	if cfg.Store == nil { // else the store writes whole objects
		s.receiver.Apart()
	}
	if s.traces, err = traces.New(cfg.Traces, traces.Options{Role: "evaluator", Name: cfg.Name, Version: deps.Version,
		Logger: s.log}); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrConfig, err), s.Close())
	}
	return s, nil
}

// openEngine loads the evaluation keys, checks that they can do what the programs need,
// and makes the engine that computes with them.
func (s *Service) openEngine() ([]engine.Keys, error) {
	all, read, err := s.loadKeys()
	if err != nil {
		return nil, err
	}
	if s.keys, err = admitKeys(s.plan, all); err != nil {
		return nil, err
	}
	if err := s.fuse(all); err != nil {
		return nil, err
	}
	s.engine, err = engine.New(all, engine.Options{ReadKeys: read, More: s.deps.More, Reopen: s.deps.Reopen,
		Policy: s.cfg.BackendFallback, Stop: s.broken, Now: s.now, Logger: s.log,
		Workers: s.workers, Batch: s.cfg.Batch, Latency: s.cfg.Latency, Places: s.plan.places(),
		OnBatch:    func() { s.tally.change(func(t *Stats) { t.Batches++ }) },
		OnFallback: func() { s.tally.change(func(t *Stats) { t.Fallbacks++ }) }})
	return all, err
}

// loadKeys returns the keys that were handed in, or loads the configured ones, and how to
// read them into another context.
func (s *Service) loadKeys() (all []engine.Keys, read func(*henc.Context) ([]engine.Keys, error), err error) {
	if s.deps.Keys != nil {
		return s.deps.Keys, s.deps.ReadKeys, nil
	}
	sets, err := engine.ConfiguredKeySets(s.cfg)
	if err != nil {
		return nil, nil, err
	}
	if all, err = sets.Load(s.deps.Context); err != nil {
		return nil, nil, err
	}
	if s.deps.ReadKeys != nil {
		return all, s.deps.ReadKeys, nil
	}
	return all, sets.Read, nil
}

// Close releases state and store if Run was not called. After Run it does nothing.
func (s *Service) Close() error {
	s.traces.Close()
	return errors.Join(s.state.Close(), s.custody.close())
}

// Run connects, subscribes and works until ctx ends. Then it finishes what was taken, for
// at most the configured stop timeout, and returns nil. Any other end is an error, such as
// role.ErrBackend after a device failed with config.FallbackStop.
func (s *Service) Run(ctx context.Context) (err error) {
	if s.ran.Swap(true) {
		return errors.New("the evaluator ran already; make a new one")
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.deps.SigningKey == nil { // then it is ours
		defer s.signer.Wipe()
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var served prometheus.Collector = s
	if s.deps.Metrics != nil {
		served = s.deps.Metrics
	}
	stopMetrics, err := daemon.ServeMetrics(s.cfg.Metrics.Listen, served, s.log)
	if err != nil {
		return err
	}
	defer stopMetrics()
	if role.Sleep(ctx, s.state.Lead(s.now())) != nil { // stopped before anything was numbered
		return nil
	}
	client := s.deps.Client
	if client == nil {
		if client, err = s.dial(ctx); err != nil {
			return err
		}
		defer s.goodbye(client)
	}
	s.link.set(client, s.now())
	if s.sender, err = transport.NewSender(client, int(s.cfg.Broker.ChunkSize), s.window()); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if s.deps.OnStart != nil {
		s.deps.OnStart()
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := s.start(ctx, working)
	hangUp := s.custody.deliver(ctx, client, end, done)
	defer func() { err = errors.Join(err, hangUp()) }()
	if err := s.subscribe(ctx, client); err != nil {
		end()
		s.stop()
		stop()
		<-done
		return err
	}
	if s.deps.Client != nil { // else at every connection
		s.announce(ctx, client)
	}
	if s.deps.OnReady != nil && ctx.Err() == nil {
		s.deps.OnReady()
	}
	s.plan.warnUseless(s.log)
	if ctx.Err() == nil {
		s.log.Info("evaluator runs", "name", s.cfg.Name, "programs", len(s.plan.Programs), "streams",
			len(s.sources)+len(s.shared))
		for _, c := range s.engine.Contexts() {
			s.log.Debug("programs run here", "params", c.Parameters().Name(), "device", c.Ring().Backend().Device())
		}
	}
	failure := s.ended(ctx)
	end()
	s.stop()
	timer := time.AfterFunc(s.cfg.StopTimeout, stop)
	defer timer.Stop()
	<-done
	s.deps.Keys = nil
	s.engine.Forget()
	return failure
}

// window bounds the chunks on their way to the broker: two for each worker, so that a worker
// that has computed does not wait for the acknowledgement of another one's chunks.
func (s *Service) window() transport.Window {
	size := cmp.Or(int(s.cfg.Broker.ChunkSize), transport.DefaultChunkSize)
	chunks := max(2*s.workers, transport.DefaultWindowChunks)
	return transport.Window{Chunks: chunks, Bytes: chunks * size}
}

// start runs the intake, the workers and the housekeeping until ctx ends. It closes done
// when everything that was taken is finished. The end of working cuts that short.
func (s *Service) start(ctx, working context.Context) (done chan struct{}) {
	var intake, workers sync.WaitGroup
	var closing sync.WaitGroup
	s.ready = func(run *fleetRun, sums []*interval.Sum) {
		for _, sum := range sums {
			closing.Go(func() { s.makeResult(working, run, sum) })
		}
	}
	intake.Go(func() {
		s.custody.resume(working)
		for range s.intakes() {
			intake.Go(func() { s.intakeLoop(ctx, working) })
		}
	})
	for range max(s.workers, s.engine.Parallel()) {
		workers.Go(func() { s.workLoop(working) })
	}
	var keeping sync.WaitGroup
	keeping.Go(func() { s.keepHouse(ctx) })
	keeping.Go(func() { s.roster.follow(ctx) })
	done = make(chan struct{})
	go func() {
		intake.Wait()
		s.jobs.close()
		workers.Wait()
		s.packs.drain(working)
		keeping.Wait()
		closing.Wait()
		close(done)
	}()
	return done
}

// keepHouse drops windows that waited too long, and saves the state.
func (s *Service) keepHouse(ctx context.Context) {
	tick := time.NewTicker(min(max(s.cfg.Join.Timeout/4, 100*time.Millisecond), 5*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.custody.expire(s.now())
			s.closeIntervals(s.now())
			s.receiver.Expire()
			s.devices.tellSilent(s.now())
			if err := s.state.Save(); err != nil {
				s.log.Error("state not saved", "error", err)
			}
		}
	}
}

// broken makes Run end with err.
func (s *Service) broken(err error) {
	select {
	case s.fatal <- err:
	default: // it ends already
	}
}

// ended waits for the end of ctx, or for what makes the service end before.
func (s *Service) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.fatal:
		return err
	}
}

var _ prometheus.Collector = (*Service)(nil)
