package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// Receipts reads what devices ask about their objects and sends them the answers.
type Receipts struct {
	// Refused holds the refusals of objects of trusted signers, Strange those of others.
	Refused, Strange *transport.Refusals

	asks   *transport.Verifier
	prefix string
	log    *slog.Logger
	seal   func(transport.Receipt) ([]byte, error)
	queue  *answers

	asked, sent atomic.Uint64
}

const (
	maxRefused = 4096    // refusals that are remembered
	maxAsk     = 2 << 20 // bytes
	// receiptDelay is how long answers gather before a receipt goes.
	receiptDelay = 5 * time.Millisecond
)

// NewReceipts returns the receipts for the devices in trust. seal signs a receipt.
func NewReceipts(trust *transport.TrustStore, prefix string, log *slog.Logger,
	seal func(transport.Receipt) ([]byte, error)) (*Receipts, error) {
	asks, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds:    []transport.Kind{transport.KindAsk},
		NoReplay: true, MaxObject: maxAsk, TopicPrefix: prefix})
	if err != nil {
		return nil, err
	}
	return &Receipts{Refused: transport.NewRefusals(maxRefused), Strange: transport.NewRefusals(maxRefused),
		asks: asks, prefix: prefix, log: log, seal: seal, queue: newAnswers()}, nil
}

// Read verifies an ask. A device may ask about its own objects only. If the signer is
// unknown, Read returns the ask unverified with transport.ErrUnknownSigner.
func (r *Receipts) Read(m transport.Delivery) (ask Ask, err error) {
	if err := m.CheckFresh(); err != nil {
		return ask, err
	}
	if ask.Sealed, err = transport.ReadWhole(m.Payload, maxAsk); err != nil {
		return ask, err
	}
	obj, err := r.asks.OpenFrom(m.Topic, ask.Sealed)
	if errors.Is(err, transport.ErrUnknownSigner) {
		return r.unverified(m.Topic, ask), err
	}
	if err != nil {
		return ask, err
	}
	body, err := transport.UnmarshalAsk(obj.Body)
	if err != nil {
		return ask, err
	}
	ask.Device = obj.Meta.Device
	for _, it := range body.Items {
		if !strings.HasPrefix(it.Topic, transport.ReadingTopic(r.prefix, ask.Device, "")) {
			return ask, fmt.Errorf("%w: %q asks about %q", transport.ErrWrongTopic, ask.Device, it.Topic)
		}
	}
	ask.Items = body.Items
	r.asked.Add(1)
	return ask, nil
}

// Ask is what a device asks.
type Ask struct {
	Device string
	Items  []transport.AskItem
	Sealed []byte // the ask as it came
}

// unverified adds to an ask what it says, if it can be read.
func (r *Receipts) unverified(topic string, ask Ask) Ask {
	meta, raw, err := transport.Peek(ask.Sealed)
	if err != nil || meta.CheckTopic(r.prefix, topic) != nil {
		return ask
	}
	if body, err := transport.UnmarshalAsk(raw); err == nil {
		ask.Device, ask.Items = meta.Device, body.Items
	}
	return ask
}

// Put queues an answer. If too many wait for the same device, it is left out: a device
// that misses it asks.
func (r *Receipts) Put(device string, it transport.ReceiptItem) { r.queue.put(device, it) }

// Run signs and publishes answers, several at a time, until ctx ends.
func (r *Receipts) Run(ctx context.Context, client transport.Client) {
	for {
		select {
		case <-r.queue.some:
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
		for to, items := r.queue.take(); items != nil; to, items = r.queue.take() {
			if err := r.publish(ctx, client, to, items); err != nil && ctx.Err() == nil {
				r.log.Warn("a receipt was not sent; its addressee will ask", "to", to, "error", err)
			}
		}
	}
}

func (r *Receipts) publish(ctx context.Context, client transport.Client, to string,
	items []transport.ReceiptItem) error {
	payload, err := r.seal(transport.Receipt{To: to, Items: items})
	if err != nil {
		return err
	}
	r.sent.Add(1)
	return client.Publish(ctx, transport.ReceiptTopic(r.prefix, to), payload, false)
}

// Counts returns how many asks were read and how many receipts were sent.
func (r *Receipts) Counts() (asked, sent uint64) { return r.asked.Load(), r.sent.Load() }
