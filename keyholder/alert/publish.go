package alert

import (
	"context"
	"log/slog"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder/outlet"
)

// publisher publishes events at a broker of its own.
type publisher struct {
	*outlet.Publisher
	topic string
}

func newPublisher(cfg *config.AlertMQTT, log *slog.Logger) (*publisher, error) {
	p, err := outlet.NewPublisher(cfg, log)
	return &publisher{p, cfg.Topic}, err
}

func (p *publisher) send(ctx context.Context, e *Event) error {
	text, err := e.text()
	if err != nil {
		return err
	}
	return p.Publish(ctx, p.topic, text)
}

func (p *publisher) close() { p.Close() }
