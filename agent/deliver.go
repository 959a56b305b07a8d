package agent

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// openSpool opens the queue that a configuration describes: on disk, or in
// memory.
func openSpool(cfg *config.Agent, clock role.Clock, log *slog.Logger) (*spool.Spool, error) {
	o := spool.Options{Now: clock.Now, Mono: clock.Mono, Logger: log, Streams: map[string]spool.Limit{}}
	limit := spool.Limit{Full: spool.Policy(cfg.Queue.Full)}
	if s := cfg.Spool; s != nil {
		o.Dir, o.Mirror, o.Bytes, o.Memory = s.Dir, s.Mirror, int64(s.Bytes), int64(cfg.Queue.Bytes)
		limit.Age = s.Age
	} else {
		o.Objects, o.Bytes = cfg.Queue.Objects, int64(cfg.Queue.Bytes)
	}
	o.Default = limit
	for _, d := range cfg.Delivery.Streams {
		l := limit
		if d.Full != "" {
			l.Full = spool.Policy(d.Full)
		}
		l.Bytes = int64(d.Bytes)
		if d.Age != 0 {
			l.Age = d.Age
		}
		o.Streams[d.Stream] = l
	}
	return spool.Open(o)
}

// delivered exports when a window was delivered. It never fails.
func (a *Agent) delivered(l *spool.Lease) error {
	if a.tracing.out != nil {
		a.tracing.delivered(l.ID, a.clock.Now())
	}
	return nil
}

// newCourier makes what takes windows from the spool to the broker.
func (a *Agent) newCourier(client transport.Client) (*delivery.Courier, error) {
	d := &a.cfg.Delivery
	o := delivery.Options{
		Spool: a.spool, Client: client, ChunkSize: int(a.cfg.Broker.ChunkSize), Prefix: a.cfg.Broker.TopicPrefix,
		Name: a.cfg.Device, Key: a.current().Signing, Levels: map[string]delivery.Level{},
		Receivers: map[string][]ed25519.PublicKey{},
		Number: func() (uint64, uint64, error) {
			n, err := a.state.Take("")
			return a.state.Boot(), n, err
		},
		Receipt: d.ReceiptTimeout, First: d.RetryMin, Last: d.RetryMax,
		Rate: float64(d.Bandwidth), Share: d.LiveShare, Live: d.LiveAge, Clock: a.clock, Logger: a.log,
		Renumber: a.renumber,
		Before:   a.delivered,
		// Not as it was when the window was made: the prefix may be another one.
		Topic: func(l *spool.Lease) string {
			return transport.ReadingTopic(a.cfg.Broker.TopicPrefix, a.cfg.Device, l.Stream)
		},
		Notify: func(err error) {
			if err == nil {
				a.link.acknowledged(a.now())
			} else {
				a.link.failed(err, a.now())
			}
		},
	}
	level := func(ack config.Ack) delivery.Level {
		if ack == config.AckEvaluator {
			return delivery.Receiver
		}
		return delivery.Broker
	}
	o.Level = level(d.Ack)
	for _, s := range d.Streams {
		o.Levels[s.Stream] = level(s.Ack)
	}
	for _, e := range d.Evaluators {
		pub, err := transport.ParsePublicKey(e.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("evaluator %s: %w", e.Name, err)
		}
		o.Receivers[e.Name] = append(o.Receivers[e.Name], pub)
	}
	var err error
	if o.Hours, err = plan.Hours(d.Hours); err != nil {
		return nil, fmt.Errorf("delivery.hours: %w", err)
	}
	return delivery.New(o)
}
