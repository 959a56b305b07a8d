package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// runnable is a program in service, with its circuits for windows that are not
// full.
type runnable struct {
	planned *Planned
	done    *recent       // places whose results were given out; under the joiner's lock
	tail    chan struct{} // closed when the newest job is over; under the store's admission

	mu       sync.Mutex
	variants map[string]*program.Circuit
}

// maxVariants bounds the circuits that are kept for windows that are not full.
const maxVariants = 64

// circuit is the circuit for the windows of a job.
func (p *runnable) circuit(present map[program.Input]int) (*program.Circuit, error) {
	if len(present) == 0 {
		return p.planned.Circuit, nil
	}
	parts := make([]string, 0, len(present))
	for in, n := range present {
		parts = append(parts, fmt.Sprintf("%s=%d", in, n))
	}
	slices.Sort(parts)
	key := strings.Join(parts, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.variants[key]; c != nil {
		return c, nil
	}
	src := p.planned.source
	src.Present = present
	c, err := program.Compile(src, p.planned.params)
	if err != nil {
		return nil, err
	}
	if p.variants == nil || len(p.variants) >= maxVariants {
		p.variants = map[string]*program.Circuit{}
	}
	p.variants[key] = c
	return c, nil
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
	if s.durable != nil {
		defer func() { s.durable.finished(ctx, j, err) }()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not started before the stop timeout: %w", err)
	}
	first, err := j.sameKey()
	if err != nil {
		return err
	}
	circuit, err := j.prog.circuit(j.present())
	if err != nil {
		return err
	}
	start := time.Now()
	body, out, took, err := s.evaluate(j, circuit, transport.KeyRef{ID: first.meta.KeyID, Epoch: first.meta.KeyEpoch})
	if err != nil {
		return err
	}
	var meta transport.Meta
	var sealed []byte
	seal := func() ([]byte, string, error) {
		meta = s.resultMeta(j, circuit, out)
		meta.KeyID, meta.KeyEpoch = first.meta.KeyID, first.meta.KeyEpoch
		var err error
		if sealed, err = transport.Seal(meta, body, s.signer); err != nil {
			return nil, "", fmt.Errorf("seal result: %w", err)
		}
		return sealed, s.topic(j.prog.planned), nil
	}
	if s.durable != nil {
		err = s.durable.commit(ctx, j, seal)
	} else if sealed, topic, serr := seal(); serr != nil {
		err = serr
	} else {
		err = s.sender.Send(ctx, topic, sealed)
	}
	if err != nil {
		return fmt.Errorf("program %s: %w", circuit.Name(), err)
	}
	s.tally.result(circuit.Name(), len(sealed), took)
	s.log.Debug("result published", "program", circuit.Name(), "sequence", meta.Sequence, "bytes", len(sealed), "evaluate", took)
	if s.deps.OnResult != nil {
		s.deps.OnResult(Event{Program: circuit.Name(), Meta: meta, ID: transport.ObjectID(sealed), Bytes: len(sealed),
			Evaluate: took, Waited: max(start.Sub(j.lastArrival()), 0)})
	}
	return nil
}

// topic is where the results of a program are published.
func (s *Service) topic(p *Planned) string {
	return cmp.Or(p.Topic, transport.ResultTopic(s.cfg.Broker.TopicPrefix, p.Name))
}

// sameKey refuses inputs under different keys, which happens once after a
// rotation for programs that look back or join streams. It returns one of them.
func (j *job) sameKey() (*window, error) {
	var first *window
	for _, w := range j.inputs {
		if first == nil {
			first = w
		}
		if w.meta.KeyID != first.meta.KeyID || w.meta.KeyEpoch != first.meta.KeyEpoch {
			return nil, fmt.Errorf("%w: program %s joins epochs %d and %d", ErrKeyChange, j.prog.planned.Name, first.meta.KeyEpoch, w.meta.KeyEpoch)
		}
	}
	if first == nil {
		return nil, errors.New("job without inputs")
	}
	return first, nil
}

func (j *job) lastArrival() (t time.Time) {
	for _, w := range j.inputs {
		if w.at.After(t) {
			t = w.at
		}
	}
	return t
}

// resultMeta is the header of a result.
func (s *Service) resultMeta(j *job, c *program.Circuit, out program.Output) transport.Meta {
	m := transport.Meta{
		Kind: transport.KindResult, Device: s.cfg.Name, Program: c.Name(), Params: c.Parameters().Hash(), Layout: c.Hash(),
		Level: c.Level(), Scale: c.Scale(),
		Post: &transport.Post{A: out.A, B: out.B, Sqrt: out.Sqrt, Slot: out.Slot, Count: out.Count, Bound: out.Bound},
	}
	m.BootEpoch, m.Sequence = s.state.sequence("result " + c.Name())
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
