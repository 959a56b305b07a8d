package evaluator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// seal numbers and signs the result of a job whose windows stand at spot.
func (p *pipeline) seal(j *job, c *program.Circuit, key transport.KeyRef, spot int, computed engine.Result) (*result,
	error) {
	defer p.stages.since(stageSeal, time.Now())
	m := p.resultMeta(j, c, c.OutputAt(spot))
	m.KeyID, m.KeyEpoch = key.ID, key.Epoch
	sealed, err := transport.SealToSend(m, computed.Room(), transport.SealRoom, p.signer)
	if err != nil {
		return nil, fmt.Errorf("seal result: %w", err)
	}
	return &result{p.topic(j.prog.planned), m, sealed}, nil
}

// resultMeta returns the header of a result.
func (p *pipeline) resultMeta(j *job, c *program.Circuit, out program.Output) transport.Meta {
	m := transport.Meta{
		Kind: transport.KindResult, Device: p.cfg.Name, Program: c.Name(), Subject: j.prog.device,
		Params: c.Parameters().Hash(),
		Layout: c.Hash(),
		Level:  c.Level(), Scale: c.Scale(),
		Post: &transport.Post{A: out.A, B: out.B, Sqrt: out.Sqrt, Slot: out.Slot, Count: out.Count, Bound: out.Bound},
	}
	m.BootEpoch, m.Sequence = p.state.Sequence("result " + c.Name())
	if j.sum != nil {
		j.describeSum(&m)
		return m
	}
	partial := len(j.present()) > 0
	for i, in := range c.Inputs() {
		w := j.inputs[in]
		if partial {
			m.Present = append(m.Present, w.meta.Samples)
		}
		m.Inputs = append(m.Inputs, w.id)
		if i == 0 {
			m.Start, m.End, m.Samples = w.meta.Start, w.meta.End, w.meta.Samples
		}
		m.Start, m.End, m.Samples = min(m.Start, w.meta.Start), max(m.End, w.meta.End), min(m.Samples, w.meta.Samples)
	}
	return m
}

// packs gathers results of packed circuits, those under each key for themselves.
//
//   - A pack leaves when it has size results, when its first one has waited for within, and
//     at a stop.
//   - Results enter a pack in the order of their programs. The packs of a key are numbered, with
//     their results, and handed over in the order in which they were closed, so the order of a
//     program holds: of its results under one key, numbers grow from each to the next that is handed
//     over, and only a pack that failed after it was numbered leaves a gap. A pack waits twice for
//     the one before it: until that has its numbers, and until it is handed over or failed. It is
//     added up before and signed between, at the same time as others.
//   - At the end of ctx, which is the same for all packs, no pack overtakes one that was given up:
//     after a restart the results of both are made again, in order.
//   - Packs under different keys do not wait for each other. They share one series of numbers of
//     packs, so these may leave in another order.
//   - A job whose result is in a pack ends when the pack is published: with a store, its
//     windows stay until then.
type packs struct {
	s      *Service
	size   int
	within time.Duration

	mu   sync.Mutex
	open map[transport.KeyRef]*pack
	last map[transport.KeyRef]*pack // the newest that left, perhaps not published yet
	busy sync.WaitGroup             // packs that are being published for their age
}

func newPacks(s *Service) *packs {
	k := &packs{s: s, open: map[transport.KeyRef]*pack{}, last: map[transport.KeyRef]*pack{}}
	if o := s.cfg.Results; o != nil {
		k.size, k.within = o.Pack, o.Within
	}
	return k
}

// add puts a result into the pack of its key, and publishes a pack that is full then. After
// an error the job is not over; otherwise that is none of the caller's business any more.
func (k *packs) add(ctx context.Context, e *packed) error {
	if err := k.s.custody.enter(ctx, e.job); err != nil {
		return err
	}
	e.entered = time.Now()
	var full []*pack
	k.mu.Lock()
	p := k.open[e.key]
	if p != nil && !p.add(e) {
		full, p = append(full, k.close(p)), nil
	}
	if p == nil {
		p = k.begin(ctx, e.key)
		p.add(e)
	}
	if len(p.results) >= k.size {
		full = append(full, k.close(p))
	}
	k.s.custody.entered(e.job) // before anybody can publish the pack
	k.mu.Unlock()
	for _, p := range full {
		k.s.publishPack(ctx, p)
	}
	return nil
}

// begin opens a pack; mu is held.
func (k *packs) begin(ctx context.Context, key transport.KeyRef) *pack {
	p := &pack{key: key, at: map[engine.Origin]int{}, numbered: make(chan struct{}), over: make(chan struct{})}
	k.open[key] = p
	p.timer = time.AfterFunc(k.within, func() {
		k.mu.Lock()
		due := k.open[key] == p
		if due {
			k.close(p)
			k.busy.Add(1)
		}
		k.mu.Unlock()
		if due {
			defer k.busy.Done()
			k.s.publishPack(ctx, p)
		}
	})
	return p
}

// close takes an open pack out; mu is held. Whoever calls it publishes the pack.
func (k *packs) close(p *pack) *pack {
	p.timer.Stop()
	delete(k.open, p.key)
	if last := k.last[p.key]; last != nil {
		p.numberedAfter, p.after = last.numbered, last.over
	}
	k.last[p.key] = p
	return p
}

// flush publishes the open pack of a key, and waits for those before it.
func (k *packs) flush(ctx context.Context, key transport.KeyRef) {
	k.mu.Lock()
	p, last := k.open[key], k.last[key]
	if p != nil {
		k.close(p)
	}
	k.mu.Unlock()
	switch {
	case p != nil:
		k.s.publishPack(ctx, p)
	case last != nil:
		select {
		case <-last.over:
		case <-ctx.Done():
		}
	}
}

// drain publishes every open pack. Nothing is added any more.
func (k *packs) drain(ctx context.Context) {
	k.mu.Lock()
	keys := slices.Collect(maps.Keys(k.open))
	k.mu.Unlock()
	for _, key := range keys {
		k.flush(ctx, key)
	}
	k.busy.Wait()
}

// pack is results that leave together.
type pack struct {
	key     transport.KeyRef
	results []*packed
	// Results of windows that were added up are one ciphertext, which enters once.
	bodies [][]byte
	spots  []program.Spots       // of bodies
	at     map[engine.Origin]int // the place in bodies
	places program.Places
	timer  *time.Timer
	// Closed when the pack before it has its numbers and when it is published, or will never be; nil: there is none.
	numberedAfter, after chan struct{}
	numbered, over       chan struct{} // the same of this one
}

// add adds a result, or reports that there is no room.
func (p *pack) add(e *packed) bool {
	if _, there := p.at[e.of]; !there {
		spots := e.circuit.Spots()
		if _, ok := p.places.Add(spots, e.circuit.Parameters().Slots()); !ok {
			return false
		}
		p.at[e.of] = len(p.bodies)
		p.bodies, p.spots = append(p.bodies, e.body), append(p.spots, spots)
	}
	e.body = nil
	p.results = append(p.results, e)
	return true
}

// packed is a result in a pack.
type packed struct {
	job     *job
	circuit *program.Circuit
	key     transport.KeyRef
	spot    int    // where its windows stand
	body    []byte // until it is in a pack
	of      engine.Origin
	took    time.Duration
	waited  time.Duration // before its computation
	began   time.Time     // its computation
	entered time.Time
}

// publishPack seals a pack and hands it over, and ends the jobs of its results.
func (s *Service) publishPack(ctx context.Context, p *pack) {
	sealed, metas, err := s.sealPack(ctx, p)
	close(p.over) // what follows needs no order
	for i, e := range p.results {
		s.custody.finish(ctx, e.job, err)
		if err != nil {
			s.failed(e.job, fmt.Errorf("program %s: %w", e.circuit.Name(), err))
			continue
		}
		// Each result counts for its part of the pack.
		n := len(p.results)
		bytes := len(sealed.sealed.Bytes)*(i+1)/n - len(sealed.sealed.Bytes)*i/n
		s.tracedResult(&metas[i], sealed.sealed.ID, bytes, e.job.sum, e.began.Add(-e.waited), e.began, e.entered)
		s.tally.result(e.circuit.Name(), bytes, e.took)
		if s.deps.OnResult != nil {
			s.deps.OnResult(Event{Program: e.circuit.Name(), Meta: metas[i], ID: sealed.sealed.ID, Bytes: bytes,
				Evaluate: e.took, Waited: e.waited})
		}
	}
	if err == nil {
		s.tally.change(func(t *Stats) { t.Packs++ })
		s.log.Debug("results published together", "results", len(p.results), "sequence", sealed.meta.Sequence,
			"bytes", len(sealed.sealed.Bytes))
	}
	p.results, p.bodies, p.at = nil, nil, nil
}

// sealPack makes one ciphertext of the results of a pack and hands it over after the pack
// before it.
func (s *Service) sealPack(ctx context.Context, p *pack) (*result, []transport.Meta, error) {
	numbered := sync.OnceFunc(func() { close(p.numbered) })
	defer numbered()
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("not packed before the stop timeout: %w", err)
	}
	params := p.results[0].circuit.Parameters().Hash()
	body, at, err := s.engine.Pack(params, p.key, p.bodies, p.spots)
	if e := await(ctx, p.numberedAfter); e != nil {
		return nil, nil, e
	}
	if err != nil {
		numbered()
		return nil, nil, cmp.Or(await(ctx, p.after), err)
	}
	start := time.Now()
	metas, jobs := make([]transport.Meta, len(p.results)), make([]*job, len(p.results))
	for i, e := range p.results {
		jobs[i] = e.job
		s.stages.since(stagePack, e.entered)
		out := e.circuit.Output()
		out.Slot = at[p.at[e.of]]
		out = out.At(e.spot, e.circuit.Spots().Places, e.circuit.Parameters().Slots())
		metas[i] = s.resultMeta(e.job, e.circuit, out)
		metas[i].KeyID, metas[i].KeyEpoch = p.key.ID, p.key.Epoch
	}
	_, number := s.state.Sequence("result " + transport.PackProgram)
	numbered()
	r, err := s.custody.publishPack(ctx, jobs, func() (*result, []transport.Meta, error) {
		var sealed transport.Sealed
		header, packed, err := transport.MarshalPack(metas, body)
		if err == nil {
			header.Sequence = number
			sealed, err = transport.SealToSend(header, packed, 0, s.signer)
		}
		s.stages.since(stageSeal, start)
		start = time.Now()
		if e := await(ctx, p.after); e != nil {
			return nil, nil, e
		}
		s.stages.since(stageOrder, start)
		if err != nil {
			return nil, nil, fmt.Errorf("seal pack: %w", err)
		}
		return &result{s.packTopic(), header, sealed}, metas, nil
	})
	return r, metas, err
}

// await returns when before is closed or nil. It fails if ctx is over, even if before is closed: what came before may
// have been given up because of that.
func await(ctx context.Context, before <-chan struct{}) error {
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// packTopic returns where packs are published.
func (p *pipeline) packTopic() string {
	return transport.ResultTopic(p.cfg.Broker.TopicPrefix, transport.PackProgram)
}

// topic returns where the results of a program are published.
func (p *pipeline) topic(prog *Planned) string {
	return cmp.Or(prog.Topic, transport.ResultTopic(p.cfg.Broker.TopicPrefix, prog.Name))
}

// result is a sealed result and where it is published.
type result struct {
	topic  string
	meta   transport.Meta
	sealed transport.Sealed
}
