package evaluator

import (
	"context"
	"fmt"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// Published describes the program to key holders, who approve it.
func (p *Planned) Published() program.Published {
	return program.Publish(p.source, p.params, p.Unit, p.Topic)
}

// announce publishes what every program computes, retained, so that key holders can
// approve it. They have to approve a program that is too long for one message from the
// evaluator's configuration.
func (s *Service) announce(ctx context.Context, client transport.Client) {
	for i := range s.plan.Programs {
		if ctx.Err() != nil {
			return
		}
		m, err := s.announcement(&s.plan.Programs[i])
		if err == nil {
			err = client.Publish(ctx, m.Topic, m.Payload, m.Retain)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("a program was not published; key holders approve it with --evaluator and this configuration",
				"program",
				s.plan.Programs[i].Name, "error", err)
		}
	}
}

// announcement returns the message that describes a program.
func (s *Service) announcement(p *Planned) (transport.Message, error) {
	published := p.Published()
	body, err := program.MarshalPublished(&published)
	if err != nil {
		return transport.Message{}, err
	}
	now := s.now().UnixNano()
	m := transport.Meta{Kind: transport.KindProgram, Device: s.cfg.Name, Program: p.Name, Layout: p.Circuit.Hash(),
		Start: now, End: now}
	m.BootEpoch, m.Sequence = s.state.Sequence("program")
	sealed, err := transport.Seal(m, body, s.signer)
	if err != nil {
		return transport.Message{}, fmt.Errorf("program %s: %w", p.Name, err)
	}
	payload, err := transport.Whole(sealed, int(s.cfg.Broker.ChunkSize))
	return transport.Message{Topic: m.Topic(s.cfg.Broker.TopicPrefix), Payload: payload, Retain: true}, err
}
