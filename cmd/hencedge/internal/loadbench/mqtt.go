package loadbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// senders is how many connections the devices share.
const senders = 8

// overBroker sends windows to a broker and receives results from it.
type overBroker struct {
	house   *house
	server  server // the broker, if it runs in this process; else nil
	clients []transport.Client
	started atomic.Int64 // windows that were fed or wait for that
}

// underWay is how many chunks may be on their way to a result: fewer than any broker holds for
// a client, and than the embedded one sends unacknowledged. Brokers acknowledge and drop what
// comes faster than its receiver takes it. Devices with "ack: evaluator" have one window of
// each stream under way.
const underWay = 900

// dialBroker connects the devices and the key holder, and subscribes to the results.
func (h *house) dialBroker(ctx context.Context) (w *overBroker, err error) {
	w = &overBroker{house: h}
	h.cfg.Broker.URL = h.o.Broker
	if h.o.Broker == Embedded {
		if w.server, err = startServer(); err != nil {
			return nil, err
		}
		h.cfg.Broker.URL = w.server.URL()
	}
	if err := h.cfg.Check(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: --broker: %w", ErrOptions, err), w.close())
	}
	dialling, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	for i := range 1 + min(senders, len(h.devices)) {
		own := h.cfg.Broker
		own.ClientID = fmt.Sprintf("load-%d-%08x", i, rand.Uint32())
		c, err := keyholder.Dial(dialling, own, h.o.Logger)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--broker: %w", err), w.close())
		}
		w.clients = append(w.clients, c)
	}
	topics := []string{transport.ResultFilter(h.cfg.Broker.TopicPrefix)}
	for i := range h.plan.Programs {
		if t := h.plan.Programs[i].Topic; t != "" {
			topics = append(topics, t)
		}
	}
	for _, t := range topics {
		if err := w.clients[0].Subscribe(dialling, t, func(d transport.Delivery) {
			h.checker.take(d.Topic, d.Payload)
			d.Ack()
		}); err != nil {
			return nil, errors.Join(fmt.Errorf("--broker: subscribe %s: %w", t, err), w.close())
		}
	}
	return w, nil
}

// feed publishes all chunks of a window at once and waits until the broker has acknowledged
// them.
func (w *overBroker) feed(ctx context.Context, p *prepared, due func() error) error {
	devices := w.clients[1:]
	if err := due(); err != nil {
		return err
	}
	if err := w.await(ctx, p); err != nil {
		return err
	}
	w.house.checker.sent(p)
	var g errgroup.Group
	for _, chunk := range p.chunks {
		g.Go(func() error {
			return devices[p.device%len(devices)].Publish(ctx, w.house.devices[p.device].topic, chunk, false)
		})
	}
	return g.Wait()
}

// await waits until so many results came that a further window may be under way. If every
// device has the same number of programs, windows are counted. Otherwise a window may need any
// other, and devices stay at most some windows ahead of the slowest result.
func (w *overBroker) await(ctx context.Context, p *prepared) error {
	n, c := int64(len(w.house.devices)), w.house.checker
	most := underWay / int64(len(p.chunks))
	if each := c.each; each > 0 {
		// Those that wait here were counted, and give no result before.
		most = max(most, 2*int64(w.house.feeders()))
		return c.await(ctx, (w.started.Add(1)-most)*each+c.lagging)
	}
	return c.await(ctx, (p.n+1-max(most/n, ahead))*int64(len(c.programs))+c.lagging)
}

// close disconnects. At somebody else's broker it first removes the evaluator's retained
// messages.
func (w *overBroker) close() (err error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	prefix := w.house.cfg.Broker.TopicPrefix
	for i, c := range w.clients {
		if i == 0 && c.Connected() && w.server == nil {
			left := []string{transport.StatusTopic(prefix, evaluatorName)}
			for k := range w.house.plan.Programs {
				left = append(left, transport.ProgramTopic(prefix, evaluatorName, w.house.plan.Programs[k].Name))
			}
			for _, t := range left {
				err = errors.Join(err, c.Publish(ctx, t, nil, true))
			}
		}
		err = errors.Join(err, c.Close(ctx))
	}
	if w.server != nil {
		err = errors.Join(err, w.server.Close())
	}
	return err
}
