package evaluator

import (
	"cmp"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/interval"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/traces"
	"github.com/hencedge/hencedge/transport"
)

// pipeline is what the stages of a service share: intake, join, run, seal and publish.
type pipeline struct {
	*reporter
	cfg      *config.Evaluator
	plan     *Plan
	programs []*runnable                      // of the plan, but for those of classes
	ofClass  map[string][]*served             // by class
	fleets   map[classStream][]*fleetRun      // programs across the devices of a class
	ready    func(*fleetRun, []*interval.Sum) // makes results of sums
	signer   *transport.SigningKey
	keys     map[transport.KeyRef]keyEpoch
	engine   *engine.Engine
	sources  map[streamID]*source
	shared   map[classStream]*source // of the devices of a class
	roster   *roster
	devices  *devices
	verifier *transport.Verifier
	receiver *transport.Receiver
	state    *store.State
	join     *joiner
	stages   *stages
	jobs     *jobQueue
	workers  int
	working  daemon.Pulse // evaluations
	link     link
	sender   *transport.Sender
	traces   *traces.Tracer // nil: off
}

func newPipeline(cfg *config.Evaluator, plan *Plan, deps *Deps) *pipeline {
	p := &pipeline{cfg: cfg, plan: plan, signer: deps.SigningKey, sources: map[streamID]*source{},
		shared: map[classStream]*source{}, ofClass: map[string][]*served{},
		fleets:   map[classStream][]*fleetRun{},
		stages:   newStages(),
		workers:  workersOf(cfg),
		reporter: &reporter{log: deps.Logger, now: deps.Now, onRefused: deps.OnRefused}}
	if p.log == nil {
		p.log = slog.Default()
	}
	if p.now == nil {
		p.now = time.Now
	}
	for i := range plan.Programs {
		planned := &plan.Programs[i]
		if planned.Circuit.Capacity() > 0 {
			p.addFleet(planned)
			continue
		}
		if class := planned.Circuit.Class(); class != "" {
			p.ofClass[class] = append(p.ofClass[class], &served{planned: planned})
			continue
		}
		p.programs = append(p.programs, &runnable{served: &served{planned: planned}})
	}
	p.join = newJoiner(cfg.Join.Windows, cfg.Join.Timeout, p.programs, p.lost)
	if len(p.ofClass) > 0 {
		p.join.class, p.join.instances = func(device string) string { return p.roster.class(device) }, p.instances
	}
	p.jobs = newJobQueue(int64(cfg.Limits.Memory))
	return p
}

// workersOf returns how many results the processor evaluates at a time.
func workersOf(cfg *config.Evaluator) int { return cmp.Or(max(cfg.Workers, 0), runtime.GOMAXPROCS(0)) }

// instances returns the programs of a class on the streams of one of its devices.
func (p *pipeline) instances(class, device string) []*runnable {
	var out []*runnable
	for _, s := range p.ofClass[class] {
		out = append(out, &runnable{served: s, device: device})
	}
	return out
}

// link is the connection to the broker.
type link struct {
	mu     sync.Mutex
	client transport.Client
	since  time.Time // of client
}

func (l *link) set(client transport.Client, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client, l.since = client, since
}

// get returns the connection, nil before the first one, and since when it is there.
func (l *link) get() (client transport.Client, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client, l.since
}

func (l *link) connected() bool {
	c, _ := l.get()
	return c != nil && c.Connected()
}
