package evaluator

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// receiptDelay is how long answers gather before a receipt goes.
const receiptDelay = 5 * time.Millisecond

// ask answers a device that asks what became of its objects.
func (d *stored) ask(m transport.Delivery) {
	if m.Ack != nil {
		defer m.Ack()
	}
	s := d.s
	device, items, err := d.readAsk(m)
	if err != nil {
		s.refuse(m.Topic, err)
		if errors.Is(err, transport.ErrUnknownSigner) && len(items) > 0 && s.devices.mayTell(device, s.now()) {
			d.outgoing.put(device, transport.ReceiptItem{Object: items[0].Object, Outcome: transport.Refused, Reason: Reason(err), Detail: detailOf(err)})
		}
		return
	}
	d.asked.Add(1)
	for _, it := range items {
		d.outgoing.put(device, d.outcome(device, it))
	}
}

// readAsk verifies an ask; a device may ask for its own objects only. With an unknown
// signer it gives what the ask says, unverified: a device whose key is not the one
// that is configured here must learn of it.
func (d *stored) readAsk(m transport.Delivery) (device string, items []transport.AskItem, err error) {
	if err := m.CheckFresh(); err != nil {
		return "", nil, err
	}
	sealed, err := transport.ReadWhole(m.Payload, 2<<20)
	if err != nil {
		return "", nil, err
	}
	obj, err := d.asks.OpenFrom(m.Topic, sealed)
	if errors.Is(err, transport.ErrUnknownSigner) {
		err = d.s.explain(m.Topic, sealed, err)
		meta, body, perr := transport.Peek(sealed)
		if perr != nil || meta.CheckTopic(d.s.cfg.Broker.TopicPrefix, m.Topic) != nil {
			return "", nil, err
		}
		a, perr := transport.UnmarshalAsk(body)
		if perr != nil {
			return "", nil, err
		}
		return meta.Device, a.Items, err
	}
	if err != nil {
		return "", nil, err
	}
	a, err := transport.UnmarshalAsk(obj.Body)
	if err != nil {
		return "", nil, err
	}
	device = obj.Meta.Device
	for _, it := range a.Items {
		if !strings.HasPrefix(it.Topic, transport.ReadingTopic(d.s.cfg.Broker.TopicPrefix, device, "")) {
			return "", nil, fmt.Errorf("%w: %q asks about %q", transport.ErrWrongTopic, device, it.Topic)
		}
	}
	return device, a.Items, nil
}

// unread says which streams of a device are read.
func (d *stored) unread(device string) string {
	var names []string
	for id := range d.s.sources {
		if id.device == device {
			names = append(names, id.stream)
		}
	}
	slices.Sort(names)
	return transport.Detail(fmt.Sprintf("of %s its programs read %s", device, strings.Join(names, ", ")))
}

// outcome is what became of an object.
func (d *stored) outcome(device string, it transport.AskItem) transport.ReceiptItem {
	if d.store.known(it.Object) {
		return transport.ReceiptItem{Object: it.Object, Outcome: transport.Taken}
	}
	// Nobody listens where no program reads; the sender must know.
	stream := strings.TrimPrefix(it.Topic, transport.ReadingTopic(d.s.cfg.Broker.TopicPrefix, device, ""))
	if d.s.sources[streamID{device, stream}] == nil {
		return transport.ReceiptItem{Object: it.Object, Outcome: transport.Refused, Reason: transport.ReasonUnread, Detail: d.unread(device)}
	}
	if why := cmp.Or(d.refused.Get(it.Object), d.strange.Get(it.Object)); why.Reason != "" {
		return transport.ReceiptItem{Object: it.Object, Outcome: transport.Refused, Reason: why.Reason, Detail: why.Detail}
	}
	out := d.s.receiver.Progress(it.Topic, it.Object, it.Total, it.Size)
	if out.Outcome == transport.Working && d.store.known(it.Object) { // meanwhile
		out.Outcome = transport.Taken
	}
	if out.Outcome != transport.Unknown && out.Outcome != transport.Partial {
		return out
	}
	_, full := d.full(d.s.sources[streamID{device, stream}], false)
	if full || !d.store.inbox.Room(int64(it.Size)) || d.pressure.busy(d.s.now()) {
		return transport.ReceiptItem{Object: it.Object, Outcome: transport.Refused, Reason: transport.ReasonBusy}
	}
	return out
}

// sendReceipts signs and publishes answers, several at a time, until ctx ends.
func (d *stored) sendReceipts(ctx context.Context, client transport.Client) {
	for {
		select {
		case <-d.outgoing.some:
		case <-ctx.Done():
			return
		}
		gather := time.NewTimer(receiptDelay)
		select {
		case <-gather.C:
		case <-ctx.Done():
			gather.Stop()
			return
		}
		for to, items := d.outgoing.take(); items != nil; to, items = d.outgoing.take() {
			if err := d.publish(ctx, client, to, items); err != nil && ctx.Err() == nil {
				d.s.log.Warn("a receipt was not sent; its addressee will ask", "to", to, "error", err)
			}
		}
	}
}

func (d *stored) publish(ctx context.Context, client transport.Client, to string, items []transport.ReceiptItem) error {
	s := d.s
	payload, err := transport.SealReceipt(transport.Receipt{To: to, Items: items}, s.cfg.Name, s.signer, s.now(), func() (uint64, uint64) { return s.state.sequence("receipt") })
	if err != nil {
		return err
	}
	d.sent.Add(1)
	return client.Publish(ctx, transport.ReceiptTopic(s.cfg.Broker.TopicPrefix, to), payload, false)
}

// listen subscribes to the asks of every device whose streams are read.
func (d *stored) listen(ctx context.Context, client transport.Client) error {
	var devices []string
	for id := range d.s.sources {
		if !slices.Contains(devices, id.device) {
			devices = append(devices, id.device)
		}
	}
	slices.Sort(devices)
	for _, device := range devices {
		topic := transport.AskTopic(d.s.cfg.Broker.TopicPrefix, device)
		if err := client.Subscribe(ctx, topic, d.ask); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("subscribe %s: %w", topic, err)
		}
	}
	return nil
}

// delivered is called before a result leaves the outbox.
func (d *stored) delivered(l *spool.Lease) error {
	if err := d.store.delivered(l); err != nil {
		return err
	}
	d.shares.delivered(l.Stream, d.store.outbox.Streams(), d.s.now())
	return nil
}

// evaluatorClock is the time of the service, slept in real time.
type evaluatorClock struct {
	now   func() time.Time
	start time.Time
}

func (c evaluatorClock) Now() time.Time      { return c.now() }
func (c evaluatorClock) Mono() time.Duration { return time.Since(c.start) }
func (c evaluatorClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// several reports whether keys, of which each epoch of a key set has one, are of more
// than one key holder.
func several(keys []ed25519.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return !k.Equal(keys[0]) })
}

// deliver takes results from the outbox to the broker, or to the key holder.
func (d *stored) deliver(ctx context.Context, client transport.Client) error {
	s, c := d.s, d.s.cfg.Store
	level := delivery.Broker
	if c.Results == config.AckKeyHolder {
		level = delivery.Receiver
	}
	courier, err := delivery.New(delivery.Options{
		Spool: d.store.outbox, Client: client, ChunkSize: int(s.cfg.Broker.ChunkSize), Prefix: s.cfg.Broker.TopicPrefix, Name: s.cfg.Name, Key: s.signer,
		Number: func() (uint64, uint64, error) { boot, n := s.state.sequence("ask"); return boot, n, nil },
		Level:  level, Receivers: d.holders, Shared: several(d.holders[holderName]), Objects: 8, Receipt: c.ReceiptTimeout, First: c.RetryMin, Last: c.RetryMax,
		Before: d.delivered, Clock: evaluatorClock{s.now, time.Now()}, Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	d.courier.Store(courier)
	return courier.Run(ctx)
}
