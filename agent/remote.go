package agent

import (
	"context"
	"sync"

	"github.com/hencedge/hencedge/transport"
)

// listen subscribes to the device's configuration topic, where the configuration
// opens it. Subscribing waits for a connection, so it goes on beside the work
// until stop is called.
func (a *Agent) listen(ctx context.Context, client transport.Client) (stop func()) {
	if a.cfg.Remote == nil || a.deps.OnRemote == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		topic := transport.RemoteTopic(a.cfg.Broker.TopicPrefix, a.cfg.Device)
		err := client.Subscribe(ctx, topic, func(d transport.Delivery) {
			d.Ack() // the broker keeps what is retained
			if len(d.Payload) > 0 {
				a.deps.OnRemote(d.Payload)
			}
		})
		if err != nil && ctx.Err() == nil {
			a.log.Error("remote configurations cannot be received", "topic", topic, "error", err)
		}
	})
	return func() { cancel(); wg.Wait() }
}
