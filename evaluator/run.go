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
	body, out, took, err := s.evaluate(j, circuit, key)
	if err != nil {
		return err
	}
	r, err := s.custody.publish(ctx, j, func() (*result, error) { return s.seal(j, circuit, key, out, body) })
	if err != nil {
		return fmt.Errorf("program %s: %w", circuit.Name(), err)
	}
	s.tally.result(circuit.Name(), len(r.sealed), took)
	s.log.Debug("result published", "program", circuit.Name(), "sequence", r.meta.Sequence, "bytes", len(r.sealed), "evaluate", took)
	if s.deps.OnResult != nil {
		s.deps.OnResult(Event{Program: circuit.Name(), Meta: r.meta, ID: transport.ObjectID(r.sealed), Bytes: len(r.sealed),
			Evaluate: took, Waited: max(start.Sub(j.lastArrival()), 0)})
	}
	return nil
}

// result is a sealed result and where it is published.
type result struct {
	topic  string
	meta   transport.Meta
	sealed []byte
}

// seal numbers and signs the result of a job.
func (s *Service) seal(j *job, c *program.Circuit, key transport.KeyRef, out program.Output, body []byte) (*result, error) {
	m := s.resultMeta(j, c, out)
	m.KeyID, m.KeyEpoch = key.ID, key.Epoch
	sealed, err := transport.Seal(m, body, s.signer)
	if err != nil {
		return nil, fmt.Errorf("seal result: %w", err)
	}
	return &result{s.topic(j.prog.planned), m, sealed}, nil
}

// topic is where the results of a program are published.
func (s *Service) topic(p *Planned) string {
	return cmp.Or(p.Topic, transport.ResultTopic(s.cfg.Broker.TopicPrefix, p.Name))
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
			return key, fmt.Errorf("%w: program %s joins epochs %d and %d", ErrKeyChange, j.prog.planned.Name, key.Epoch, ref.Epoch)
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
