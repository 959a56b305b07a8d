package outlet

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// Publisher publishes at a broker in clear, with QoS 1. It is not safe for concurrent use.
type Publisher struct {
	cfg    *config.AlertMQTT
	log    *slog.Logger
	client transport.Client // nil before the first message
}

// NewPublisher returns a Publisher, which connects when it is used. It fails if the files that
// cfg names cannot be used.
func NewPublisher(cfg *config.AlertMQTT, log *slog.Logger) (*Publisher, error) {
	p := &Publisher{cfg: cfg, log: log}
	_, err := p.options()
	return p, err
}

func (p *Publisher) options() (mqtt.Options, error) {
	b := p.cfg.Broker()
	b.ReconnectMax = config.DefaultReconnectMax
	o, err := daemon.BrokerOptions(b, p.log)
	o.Background = true
	return o, err
}

var errNoConnection = errors.New("there is no connection to the broker")

// Publish returns nil when the broker has acknowledged the message.
func (p *Publisher) Publish(ctx context.Context, topic string, text []byte) error {
	if p.client == nil {
		o, err := p.options()
		if err != nil {
			return err
		}
		client, err := mqtt.Dial(ctx, o)
		if err != nil {
			return err
		}
		p.client = client
	}
	if !p.connected(ctx) { // else the client would keep a copy for each attempt
		return errNoConnection
	}
	return p.client.Publish(ctx, topic, text, false)
}

// connected waits a little for the connection.
func (p *Publisher) connected(ctx context.Context) bool {
	for range 100 {
		if p.client.Connected() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return p.client.Connected()
}

// Close ends the connection.
func (p *Publisher) Close() {
	if p.client == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = p.client.Close(ctx) // what was not acknowledged is sent again
}
