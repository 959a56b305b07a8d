package evaluator

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

func (s *Service) workLoop(working context.Context) {
	for {
		j, more := s.jobs.pop()
		if !more {
			return
		}
		if j.part != nil {
			s.addPart(working, j)
			continue
		}
		s.workTogether(working, j)
	}
}

// workTogether does a job and those that go with it. One of them computes for all; then each is
// sealed and published, at the same time.
//
// Where all results only enter a pack, one goroutine does them in turn: others would each grow a stack, sleep until
// the results are there and be woken, for some microseconds of work. Those behind one that fills its pack wait until
// that is published.
func (s *Service) workTogether(ctx context.Context, j *job) {
	start := time.Now()
	one := func(j *job, start time.Time) {
		if err := s.workSince(ctx, j, start); err != nil {
			s.failed(j, err)
		}
	}
	inTurn := s.inTurn(j)
	alone := s.together.Add(1) == 1 && !inTurn && runtime.GOMAXPROCS(0) > 2*(1+len(j.with))
	defer s.together.Add(-1)
	if j.shared != nil {
		j.shared.alone = alone
	}
	if inTurn {
		for _, each := range j.all() {
			one(each, start) // when its windows stopped waiting
		}
		return
	}
	var others sync.WaitGroup
	for _, other := range j.with {
		others.Go(func() { one(other, time.Now()) })
	}
	one(j, start)
	others.Wait()
}

// inTurn reports whether the jobs that go with j are done after it, not beside it: all results go into packs, and no
// store keeps an order in which they have to.
func (s *Service) inTurn(j *job) bool {
	return s.cfg.Store == nil &&
		!slices.ContainsFunc(j.all(), func(j *job) bool { return !j.prog.planned.Circuit.Packed() })
}

// work computes, seals and publishes one result. Once ctx is over it starts no
// computation, so that a stop takes no longer than the jobs already running.
func (s *Service) work(ctx context.Context, j *job) error { return s.workSince(ctx, j, time.Now()) }

// workSince is work for a job that was begun at start.
func (s *Service) workSince(ctx context.Context, j *job, start time.Time) (err error) {
	inPack := false
	defer func() {
		if !inPack {
			s.custody.finish(ctx, j, err)
		}
	}()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not started before the stop timeout: %w", err)
	}
	key, err := j.sameKey()
	if err != nil {
		return err
	}
	spot, err := j.spot()
	if err != nil {
		return err
	}
	circuit, err := j.circuit()
	if err != nil {
		return err
	}
	s.stages.took(stageWait, start.Sub(j.queued))
	var computed engine.Result
	if j.sum != nil {
		computed, err = s.finishSum(j, circuit)
	} else {
		computed, err = s.compute(j, circuit, key, spot)
	}
	if err != nil {
		return err
	}
	s.stages.since(stageCompute, start)
	over := time.Now()
	spot = computed.Place
	if circuit.Packed() {
		e := &packed{job: j.light(), circuit: circuit, key: key, spot: spot, body: computed.Body, of: computed.Of,
			took: computed.Took, waited: max(start.Sub(j.lastArrival()), 0), began: start}
		err := s.packs.add(ctx, e)
		inPack = err == nil
		return err
	}
	if j.prog.planned.Circuit.Packed() { // the order of its program
		if err := s.custody.enter(ctx, j); err != nil {
			return err
		}
		s.packs.flush(ctx, key)
	}
	r, err := s.custody.publish(ctx, j, func() (*result, error) { return s.seal(j, circuit, key, spot, computed) })
	if err != nil {
		return fmt.Errorf("program %s: %w", circuit.Name(), err)
	}
	id, size := r.sealed.ID, len(r.sealed.Bytes)
	s.tracedResult(&r.meta, id, size, j.sum, start.Add(-max(start.Sub(j.lastArrival()), 0)), start, over)
	s.tally.result(circuit.Name(), size, computed.Took)
	s.log.Debug("result published", "program", circuit.Name(), "sequence", r.meta.Sequence, "bytes", size,
		"evaluate", computed.Took)
	if s.deps.OnResult != nil {
		s.deps.OnResult(Event{Program: circuit.Name(), Meta: r.meta, ID: id,
			Bytes:    size,
			Evaluate: computed.Took, Waited: max(start.Sub(j.lastArrival()), 0)})
	}
	return nil
}

// compute runs the circuit of a job, or the set that it belongs to. spot is where its windows
// stand.
func (p *pipeline) compute(j *job, c *program.Circuit, key transport.KeyRef, spot int) (engine.Result, error) {
	defer p.working.Begin(c.Name())()
	if j.shared != nil {
		r, err := j.shared.result(j.prog.part, func(set *program.Set) ([]engine.Result, error) {
			return p.engine.Run(set, key, j.ciphertexts(), spot)
		})
		if err == nil || role.DeviceFailed(err) {
			return r, err
		}
		p.log.Debug("a set of programs failed; they run one by one", "program", c.Name(), "error", err)
	}
	if c.Whole() {
		return p.engine.RunWhole(c, key, j.ciphertexts())
	}
	results, err := p.engine.Run(c, key, j.ciphertexts(), spot)
	if err != nil {
		return engine.Result{}, err
	}
	return results[0], nil
}

// ciphertexts returns the windows of a job.
func (j *job) ciphertexts() map[program.Input]*engine.Ciphertext {
	inputs := make(map[program.Input]*engine.Ciphertext, len(j.inputs))
	for in, w := range j.inputs {
		inputs[in] = w.data
	}
	return inputs
}

// Event tells of one published result.
type Event struct {
	Program  string
	Meta     transport.Meta // as signed
	ID       [32]byte       // of the sealed result
	Bytes    int            // of the sealed result
	Evaluate time.Duration  // on the ciphertexts, without waiting
	Waited   time.Duration  // from the arrival of the last input to the start
}
