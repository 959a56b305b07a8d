package evaluator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// Deps replaces what a Service would otherwise make from its configuration.
// The zero value is usable.
type Deps struct {
	// Client is the connection; nil dials cfg.Broker. A client that was handed
	// in is not closed.
	Client transport.Client
	// SigningKey signs results; nil loads cfg.SigningKey.
	SigningKey *transport.SigningKey
	// Keys are the evaluation keys; nil loads cfg.KeySets.
	Keys []engine.Keys
	// Context makes the context for parameters, and so chooses the backend; nil
	// is henc.NewContext with henc.WithFastestN2. More makes contexts on further
	// devices, over which windows and programs are spread; nil means none.
	Context engine.NewContext
	More    func(henc.Parameters) ([]*henc.Context, error)
	// Reopen makes a context on the device of one that failed; nil means that
	// there is no way (config.FallbackRetry then is config.FallbackCPU).
	Reopen func(*henc.Context) (*henc.Context, error)
	// ReadKeys reads the evaluation keys into another context; nil reads
	// cfg.KeySets. With Keys and without ReadKeys a failed device fails its jobs.
	ReadKeys func(*henc.Context) ([]engine.Keys, error)
	Logger   *slog.Logger     // nil: slog.Default
	Now      func() time.Time // nil: time.Now
	// OnStart is called once Run has all that it needs of this machine; the broker may
	// be away.
	OnStart func()
	// OnReady is called once all subscriptions are granted.
	OnReady func()
	// OnResult is called after every published result, from the workers.
	OnResult func(Event)
	// OnRefused is called for every message and window that was refused.
	OnRefused func(reason string, err error)
	// Metrics is what metrics.listen serves, and whose health it tells if it has one;
	// nil is the service itself. It collects the service.
	Metrics prometheus.Collector
	// Version is announced in the status message.
	Version string
}

// keyEpoch is a key epoch in use.
type keyEpoch struct {
	params henc.Parameters
	until  time.Time // readings of windows that end later are refused; zero: none are
}

// Service is a running evaluator. Make it with New and run it once.
type Service struct {
	cfg      *config.Evaluator
	deps     Deps
	log      *slog.Logger
	plan     *Plan
	signer   *transport.SigningKey
	keys     map[transport.KeyRef]keyEpoch
	engine   *engine.Engine
	sources  map[streamID]*source
	verifier *transport.Verifier
	receiver *transport.Receiver
	state    *store.State
	join     *joiner
	sender   *transport.Sender
	tally    tally
	reports  transport.LogLimit
	// duplicates are boards that send with one identity.
	duplicates duplicates
	devices    *devices
	unmade     unmade // results of programs
	custody    custody
	working    daemon.Pulse

	link struct {
		sync.Mutex
		client transport.Client
		since  time.Time // of client
	}

	staged chan transport.Staged
	jobs   chan *job
	quit   chan struct{} // closed when nothing more is taken
	ran    atomic.Bool
	fatal  chan error // what ends Run early
}

// New checks the configuration, compiles the programs, loads the keys and
// refuses to start when keys are missing that a program needs. It opens and
// locks the state file; Run or Close gives it back. It fails with ErrConfig,
// ErrKeys or ErrState.
func New(cfg *config.Evaluator, deps Deps) (*Service, error) {
	plan, err := Check(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps, plan: plan, log: deps.Logger, signer: deps.SigningKey,
		fatal: make(chan error, 1), sources: map[streamID]*source{}}
	s.custody = &direct{s} // until the store is open
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.signer == nil {
		if s.signer, err = transport.LoadSigningKey(cfg.SigningKey); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	for _, w := range Warnings(cfg) {
		s.log.Warn(w)
	}
	all, err := s.openEngine()
	if err != nil {
		return nil, err
	}
	progs := make([]*runnable, len(plan.Programs))
	for i := range plan.Programs {
		progs[i] = &runnable{planned: &plan.Programs[i]}
	}
	if err := s.makeSources(progs); err != nil {
		return nil, err
	}
	if err := s.makeDevices(); err != nil {
		return nil, err
	}
	if s.state, err = store.OpenState(cfg.State, cfg.Name, s.now()); err != nil {
		return nil, err
	}
	s.join = newJoiner(cfg.Join.Windows, cfg.Join.Timeout, progs, s.lost)
	if s.verifier, err = s.makeVerifier(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	c, err := s.openCustody(all)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.custody = c
	s.staged = make(chan transport.Staged, 8)
	s.jobs = make(chan *job, 2*s.workers())
	s.quit = make(chan struct{})
	s.receiver = transport.NewReceiver(transport.Limits{
		MaxObject: int(cfg.Limits.Object), MaxObjects: cfg.Limits.Pending, MaxBytes: int(cfg.Limits.Memory),
		MaxAge: cfg.Limits.Reassembly,
	}, s.stage)
	return s, nil
}

// handle takes one message from the broker. Bad ones are acknowledged too: they
// would only come back. What cannot be staged because the service stops is not,
// so that the broker keeps it.
func (s *Service) handle(d transport.Delivery) {
	if err := d.CheckFresh(); err != nil {
		s.refuse(d.Topic, err)
		d.Ack()
		return
	}
	err := s.receiver.Feed(d.Topic, d.Payload)
	if errors.Is(err, errStopping) || errors.Is(err, transport.ErrClosed) {
		return
	}
	if err != nil { // counted by the receiver
		s.report(Reason(err), d.Topic, err)
	}
	d.Ack()
}

// stage queues a complete object, waiting for room; its topic waits with it.
func (s *Service) stage(o transport.Staged) error {
	select {
	case <-s.quit:
		return errStopping
	default:
	}
	select {
	case s.staged <- o:
		return nil
	case <-s.quit:
		return errStopping
	}
}

// stop takes nothing more.
func (s *Service) stop() {
	close(s.quit)
	s.receiver.Close()
}

var errStopping = errors.New("the evaluator is stopping")

func (s *Service) now() time.Time {
	if s.deps.Now != nil {
		return s.deps.Now()
	}
	return time.Now()
}

func (s *Service) workers() int {
	if s.cfg.Workers > 0 {
		return s.cfg.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// Plan is what the service runs.
func (s *Service) Plan() *Plan { return s.plan }

// Stats counts what was done so far.
func (s *Service) Stats() Stats { return s.tally.snapshot(s.receiver.Counters()) }

// Close gives the state file back without running. After Run it does nothing.
func (s *Service) Close() error {
	return errors.Join(s.state.Close(), s.custody.close())
}

// Run connects, subscribes and works until ctx ends; then it finishes what was
// taken, for at most the configured stop timeout, and returns nil. Other ends
// are errors: with config.FallbackStop, a device that failed is role.ErrBackend.
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
	client := s.deps.Client
	if client == nil {
		if client, err = s.dial(ctx); err != nil {
			return err
		}
		defer s.goodbye(client)
	}
	s.link.Lock()
	s.link.client, s.link.since = client, s.now()
	s.link.Unlock()
	if s.sender, err = transport.NewSender(client, int(s.cfg.Broker.ChunkSize)); err != nil {
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
	s.warnUseless()
	if ctx.Err() == nil {
		s.log.Info("evaluator runs", "name", s.cfg.Name, "programs", len(s.plan.Programs), "streams", len(s.sources))
		for _, c := range s.engine.Contexts() {
			s.log.Debug("programs are computed here", "params", c.Parameters().Name(), "device", c.Ring().Backend().Device())
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

// subscribe asks for the readings of every stream that programs use.
func (s *Service) subscribe(ctx context.Context, client transport.Client) error {
	for _, id := range slices.SortedFunc(maps.Keys(s.sources), compareStreams) {
		topic := transport.ReadingTopic(s.cfg.Broker.TopicPrefix, id.device, id.stream)
		if err := client.Subscribe(ctx, topic, s.handle); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("subscribe %s: %w", topic, err)
		}
	}
	if err := s.custody.listen(ctx, client); err != nil {
		return err
	}
	s.subscribeStatus(ctx, client)
	return nil
}

// start runs the intake, the workers and the housekeeping until ctx ends, and
// closes done when everything taken was worked off. working ends what is still
// under way then.
func (s *Service) start(ctx, working context.Context) (done chan struct{}) {
	var intake, workers sync.WaitGroup
	for range s.custody.intakes(s.workers()) {
		intake.Go(func() { s.intakeLoop(ctx, working) })
	}
	for range s.workers() {
		workers.Go(func() { s.workLoop(working) })
	}
	var keeping sync.WaitGroup
	keeping.Go(func() { s.keepHouse(ctx) })
	done = make(chan struct{})
	go func() {
		intake.Wait()
		close(s.jobs)
		workers.Wait()
		keeping.Wait()
		close(done)
	}()
	return done
}

func (s *Service) intakeLoop(ctx, working context.Context) {
	s.custody.resume(working)
	for {
		select {
		case o := <-s.staged:
			s.admit(working, o)
		case <-ctx.Done():
			for { // what was staged before the end
				select {
				case o := <-s.staged:
					s.admit(working, o)
				default:
					return
				}
			}
		}
	}
}

// admit takes one object. From then on it counts against the bounds of the joiner, no
// longer against those of the receiver.
func (s *Service) admit(working context.Context, o transport.Staged) {
	defer o.Done()
	s.custody.take(working, o)
}

// queue queues a job, waiting for room. It reports false when the service stops before.
func (s *Service) queue(working context.Context, j *job) bool {
	select {
	case s.jobs <- j:
		return true
	case <-working.Done():
		s.failed(j, working.Err())
		return false
	}
}

func (s *Service) workLoop(working context.Context) {
	for j := range s.jobs {
		if err := s.work(working, j); err != nil {
			s.failed(j, err)
		}
	}
}

// keepHouse drops what waited too long and saves the state.
func (s *Service) keepHouse(ctx context.Context) {
	tick := time.NewTicker(min(max(s.cfg.Join.Timeout/4, 100*time.Millisecond), 5*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.custody.expire(s.now())
			s.receiver.Expire()
			s.tellSilent(s.now())
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
