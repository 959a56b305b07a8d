package evaluator

import (
	"context"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

func (s *Service) workLoop(working context.Context) {
	for {
		j, more := s.jobs.pop()
		if !more {
			return
		}
		if err := s.work(working, j); err != nil {
			s.failed(j, err)
		}
	}
}

// work computes, seals and publishes one result. Once ctx is over it starts no
// computation, so that a stop takes no longer than the jobs already running.
func (s *Service) work(ctx context.Context, j *job) (err error) {
	defer func() { s.custody.finish(ctx, j, err) }()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not started before the stop timeout: %w", err)
	}
	key, err := j.sameKey()
	if err != nil {
		return err
	}
	circuit, err := j.prog.circuit(j.present())
	if err != nil {
		return err
	}
	start := time.Now()
	s.stages.took(stageWait, start.Sub(j.queued))
	computed, err := s.compute(j, circuit, key)
	if err != nil {
		return err
	}
	s.stages.since(stageCompute, start)
	r, err := s.custody.publish(ctx, j, func() (*result, error) { return s.seal(j, circuit, key, computed) })
	if err != nil {
		return fmt.Errorf("program %s: %w", circuit.Name(), err)
	}
	s.tally.result(circuit.Name(), len(r.sealed), computed.Took)
	s.log.Debug("result published", "program", circuit.Name(), "sequence", r.meta.Sequence, "bytes", len(r.sealed),
		"evaluate", computed.Took)
	if s.deps.OnResult != nil {
		s.deps.OnResult(Event{Program: circuit.Name(), Meta: r.meta, ID: transport.ObjectID(r.sealed),
			Bytes:    len(r.sealed),
			Evaluate: computed.Took, Waited: max(start.Sub(j.lastArrival()), 0)})
	}
	return nil
}

// compute runs the circuit of a job.
func (p *pipeline) compute(j *job, c *program.Circuit, key transport.KeyRef) (engine.Result, error) {
	defer p.working.Begin(c.Name())()
	inputs := make(map[program.Input]*engine.Ciphertext, len(j.inputs))
	for in, w := range j.inputs {
		inputs[in] = w.data
	}
	return p.engine.Run(c, key, inputs)
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
