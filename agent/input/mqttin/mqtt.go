// Package mqttin takes values from the messages of an MQTT broker: numbers as
// they are, or found in JSON or text. Messages are taken in order and only live
// ones: a retained message, or one that the broker kept while the agent was away,
// is of unknown age and is not a sample.
package mqttin

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// Input is one broker.
type Input struct {
	cfg    config.Input
	worker *input.Worker
	env    input.Env
	texts  map[string]*input.Texts // by topic filter
	taps   map[string][]func(text string)
	client atomic.Pointer[transport.Client]

	input.Background
}

// New makes the input; it does not connect. It fails when a certificate or a
// key cannot be read.
func New(in config.Input, env input.Env) (*Input, error) {
	if in.MQTT == nil {
		return nil, fmt.Errorf("%w: input %s is no broker", input.ErrNoSensor, in.Name)
	}
	if _, err := daemon.BrokerOptions(in.MQTT.Broker(), env.Logger()); err != nil {
		return nil, fmt.Errorf("input %s: %w", in.Name, err)
	}
	env.Count = env.Counters()
	return &Input{cfg: in, worker: input.NewWorker(in, env), env: env, texts: map[string]*input.Texts{},
		taps: map[string][]func(string){}}, nil
}

// Sensor adds a quantity of the messages on a topic.
func (m *Input) Sensor(src config.Source) (input.Sensor, error) {
	t := m.texts[src.Topic]
	if t == nil {
		t = input.NewTexts(m.env.Count)
	}
	cell, err := t.Add(src, m.cfg)
	if err != nil {
		return nil, err
	}
	m.texts[src.Topic] = t
	return input.Started{Sensor: cell, Begin: func() { m.Start(m.run) }, Trouble: m.Trouble}, nil
}

// Trouble says why nothing can come.
func (m *Input) Trouble() error {
	if c := m.client.Load(); c != nil && !(*c).Connected() {
		return fmt.Errorf("no connection to %s", m.cfg.MQTT.URL)
	}
	return m.worker.Trouble()
}

// Messages calls f with each message on a topic filter.
func (m *Input) Messages(topic string, f func(text string)) (begin func(), err error) {
	if topic == "" {
		return nil, fmt.Errorf("%w: no topic", input.ErrNoSensor)
	}
	if m.texts[topic] == nil {
		m.texts[topic] = input.NewTexts(m.env.Count)
	}
	m.taps[topic] = append(m.taps[topic], f)
	return func() { m.Start(m.run) }, nil
}

func (m *Input) run(ctx context.Context) { m.worker.Receive(ctx, m.receive) }

// receive connects, subscribes, and takes messages until ctx ends. Lost
// connections are the client's business.
func (m *Input) receive(ctx context.Context) error {
	o, err := daemon.BrokerOptions(m.cfg.MQTT.Broker(), m.env.Logger().With("input", m.cfg.Name))
	if err != nil {
		return err
	}
	o.Live, o.Background, o.MaxInbound = true, true, input.MaxText
	o.OnLost = func(error) { m.env.Count.Failures.Add(1) }
	c, err := mqtt.Dial(ctx, o)
	if err != nil {
		return err
	}
	m.client.Store(&c)
	defer func() {
		m.client.Store(nil)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			m.env.Logger().Log(ctx, slog.LevelDebug, "the input did not close cleanly", "input", m.cfg.Name, "error",
				err)
		}
	}()
	for filter, texts := range m.texts {
		err := c.Subscribe(ctx, filter, func(d transport.Delivery) {
			if !d.Retained {
				text := string(d.Payload)
				texts.Take(text)
				for _, f := range m.taps[filter] {
					f(text)
				}
			}
			d.Ack()
		})
		if err != nil {
			return fmt.Errorf("subscribe to %q: %w", filter, err)
		}
	}
	m.worker.Working()
	<-ctx.Done()
	return ctx.Err()
}

var _ input.Messenger = (*Input)(nil)
