package evaluator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// runnable is a program in service, with its circuits for windows that are not
// full.
type runnable struct {
	planned *Planned
	done    *recent       // places whose results were given out; under the joiner's lock
	tail    chan struct{} // closed when the newest job is over; under the store's admission

	variants program.Variants
}

// circuit is the circuit for the windows of a job.
func (p *runnable) circuit(present map[program.Input]int) (*program.Circuit, error) {
	if len(present) == 0 {
		return p.planned.Circuit, nil
	}
	return p.variants.Circuit(present, func(present map[program.Input]int) (*program.Circuit, error) {
		src := p.planned.source
		src.Present = present
		return program.Compile(src, p.planned.params)
	})
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
	computed, err := s.compute(j, circuit, key)
	if err != nil {
		return err
	}
	r, err := s.custody.publish(ctx, j, func() (*result, error) { return s.seal(j, circuit, key, computed) })
	if err != nil {
		return fmt.Errorf("program %s: %w", circuit.Name(), err)
	}
	s.tally.result(circuit.Name(), len(r.sealed), computed.Took)
	s.log.Debug("result published", "program", circuit.Name(), "sequence", r.meta.Sequence, "bytes", len(r.sealed),
		"evaluate", computed.Took)
	if s.deps.OnResult != nil {
		s.deps.OnResult(Event{Program: circuit.Name(), Meta: r.meta, ID: transport.ObjectID(r.sealed), Bytes: len(r.sealed),
			Evaluate: computed.Took, Waited: max(start.Sub(j.lastArrival()), 0)})
	}
	return nil
}

// compute runs the circuit of a job.
func (s *Service) compute(j *job, c *program.Circuit, key transport.KeyRef) (engine.Result, error) {
	defer s.working.Begin(c.Name())()
	inputs := make(map[program.Input]*engine.Ciphertext, len(j.inputs))
	for in, w := range j.inputs {
		inputs[in] = w.data
	}
	return s.engine.Run(c, key, inputs)
}

// sameKey returns the keys that the inputs are under. It refuses inputs under different
// keys, which occur once after a rotation for programs that look back or join streams.
func (j *job) sameKey() (key transport.KeyRef, err error) {
	if len(j.inputs) == 0 {
		return key, errors.New("job without inputs")
	}
	known := false
	for _, w := range j.inputs {
		ref := transport.KeyRef{ID: w.meta.KeyID, Epoch: w.meta.KeyEpoch}
		if known && ref != key {
			return key, fmt.Errorf("%w: program %s joins epochs %d and %d", ErrKeyChange, j.prog.planned.Name, key.Epoch,
				ref.Epoch)
		}
		key, known = ref, true
	}
	return key, nil
}

func (j *job) lastArrival() (t time.Time) {
	for _, w := range j.inputs {
		if w.at.After(t) {
			t = w.at
		}
	}
	return t
}
