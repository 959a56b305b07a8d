package evaluator

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// seal numbers and signs the result of a job.
func (p *pipeline) seal(j *job, c *program.Circuit, key transport.KeyRef, computed engine.Result) (*result, error) {
	defer p.stages.since(stageSeal, time.Now())
	m := p.resultMeta(j, c, c.Output())
	m.KeyID, m.KeyEpoch = key.ID, key.Epoch
	sealed, id, err := transport.SealNamed(m, computed.Room, transport.SealRoom, p.signer)
	if err != nil {
		return nil, fmt.Errorf("seal result: %w", err)
	}
	return &result{p.topic(j.prog.planned), m, id, sealed}, nil
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

// topic returns where the results of a program are published.
func (p *pipeline) topic(prog *Planned) string {
	return cmp.Or(prog.Topic, transport.ResultTopic(p.cfg.Broker.TopicPrefix, prog.Name))
}

// result is a sealed result and where it is published.
type result struct {
	topic  string
	meta   transport.Meta
	id     [32]byte // ObjectID of sealed
	sealed []byte
}
