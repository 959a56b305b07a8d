package keyholder

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/transport"
)

// listen subscribes to what evaluators ask.
func (r *Receipts) listen(ctx context.Context, w *watch, receiver *transport.Receiver) error {
	for _, name := range r.names {
		err := r.client.Subscribe(ctx, transport.AskTopic(r.prefix, name), func(d transport.Delivery) {
			if d.Ack != nil {
				defer d.Ack()
			}
			if err := r.ask(d, w, receiver); err != nil {
				reason := transport.Reason(err)
				if ok, more := r.reports.Allow(reason, r.now()); ok {
					r.log.Warn("a question is not answered", "topic", d.Topic, "reason", reason,
						"error", err, "more", more)
				}
			}
		})
		if err != nil {
			return fmt.Errorf("subscribe to questions of %s: %w", name, err)
		}
	}
	return nil
}

// ask answers an evaluator about its own results only. It tells what is remembered under
// the evaluator's name, and how much of an object has arrived on the topics of its
// approved programs.
func (r *Receipts) ask(d transport.Delivery, w *watch, receiver *transport.Receiver) error {
	if err := d.CheckFresh(); err != nil {
		return err
	}
	sealed, err := transport.ReadWhole(d.Payload, 2<<20)
	if err != nil {
		return err
	}
	obj, err := r.asks.OpenFrom(d.Topic, sealed)
	if err != nil {
		return err
	}
	a, err := transport.UnmarshalAsk(obj.Body)
	if err != nil {
		return err
	}
	who := obj.Meta.Device
	for _, it := range a.Items {
		if !strings.HasPrefix(it.Topic, transport.ResultTopic(r.prefix, "")) && !w.own[it.Topic] {
			return fmt.Errorf("%w: %q asks about %q, which is no topic of its results", transport.ErrWrongTopic, who,
				it.Topic)
		}
	}
	for _, it := range a.Items {
		key := ownName(who, it.Object)
		out := transport.ReceiptItem{Object: it.Object, Outcome: transport.Taken}
		switch why := cmp.Or(r.refused.Get(key), r.unverified.Get(key)); {
		case r.has(who, it.Object):
		case why.Reason != "":
			out.Outcome, out.Reason, out.Detail = transport.Refused, why.Reason, why.Detail
		case !w.approved(who, it.Topic):
			out.Outcome, out.Reason = transport.Refused, Class(ErrNotApproved)
		default:
			out = receiver.Progress(it.Topic, it.Object, it.Total, it.Size)
		}
		r.answer(who, out)
	}
	return nil
}
