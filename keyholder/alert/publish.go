package alert

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

// publisher publishes events at a broker of its own, in clear, with QoS 1.
type publisher struct {
	cfg    *config.AlertMQTT
	log    *slog.Logger
	client transport.Client // nil before the first event
}

func newPublisher(cfg *config.AlertMQTT, log *slog.Logger) (*publisher, error) {
	p := &publisher{cfg: cfg, log: log}
	_, err := p.options()
	return p, err
}

func (p *publisher) options() (mqtt.Options, error) {
	b := p.cfg.Broker()
	b.ReconnectMax = config.DefaultReconnectMax
	o, err := daemon.BrokerOptions(b, p.log)
	o.Background = true
	return o, err
}

var errNoConnection = errors.New("there is no connection to the broker")

func (p *publisher) send(ctx context.Context, e *Event) error {
	text, err := e.text()
	if err != nil {
		return err
	}
	if p.client == nil {
		o, err := p.options()
		if err != nil {
			return err
		}
		if p.client, err = mqtt.Dial(ctx, o); err != nil {
			return err
		}
	}
	if !p.connected(ctx) { // else the client would keep a copy for each attempt
		return errNoConnection
	}
	return p.client.Publish(ctx, p.cfg.Topic, text, false)
}

// connected waits a little for the connection.
func (p *publisher) connected(ctx context.Context) bool {
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

func (p *publisher) close() {
	if p.client == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = p.client.Close(ctx) // what was not acknowledged is sent again
}
