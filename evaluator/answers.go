package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/transport"
)

// What devices are told of their windows with stored custody: in receipts for those that
// arrive, and in answers to those that ask.

// refuse reports a window that is not taken and tells its device. obj is nil if the
// object could not be verified.
func (d *stored) refuse(o transport.Staged, obj *transport.Object, err error) {
	p := d.p
	err = p.devices.refuseWindow(o, err)
	why := transport.Refusal{Reason: Reason(err), Detail: detailOf(err)}
	device, ok := d.deviceOf(o.Topic)
	switch {
	case obj != nil && why.Reason == transport.ReasonOther: // it may be taken another time
		p.receiver.Forget(o.Topic, o.ID)
		why.Detail = ""
	case obj != nil || tellable(why.Reason):
		d.receipts.Refused.Add(o.ID, why)
	case errors.Is(err, transport.ErrWrongTopic): // anybody can send it there
		return
	default:
		// Only a sender that has the object asks about it, for example a device whose
		// windows were signed with an earlier key.
		d.receipts.Strange.Add(o.ID, why)
		if !errors.Is(err, transport.ErrUnknownSigner) || !p.devices.mayTell(device, p.now()) {
			return
		}
	}
	if ok {
		d.receipts.Put(device, refusal(o.ID, why))
	}
}

func refusal(id [32]byte, why transport.Refusal) transport.ReceiptItem {
	return transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: why.Reason, Detail: why.Detail}
}

// tellable reports whether devices are told a reason that objects are refused for before
// they are verified: only those of trusted signers are. Objects that anybody could have
// made get no answer unless somebody asks.
func tellable(reason string) bool {
	switch reason {
	case "malformed", "truncated", "too_large", "bad_signature", "unknown_signer", "wrong_topic", "wrong_kind",
		"unsupported_version", "downgraded", transport.ReasonOther:
		return false
	}
	return true
}

// deviceOf returns the device that a topic of readings belongs to.
func (d *stored) deviceOf(topic string) (string, bool) {
	rest, ok := strings.CutPrefix(topic, d.p.cfg.Broker.TopicPrefix+"/up/")
	device, _, slash := strings.Cut(rest, "/")
	return device, ok && slash
}

// listen subscribes to the questions of every device whose streams are read.
func (d *stored) listen(ctx context.Context, client transport.Client) error {
	return transport.SubscribeAll(ctx, client, d.p.roster.filters(transport.AskTopic), d.answer)
}

// answer tells a device what became of its objects.
func (d *stored) answer(m transport.Delivery) {
	if m.Ack != nil {
		defer m.Ack()
	}
	p := d.p
	if p.roster.strange("ask", m.Topic) {
		return // of another evaluator's device, or of an evaluator
	}
	ask, err := d.receipts.Read(m)
	if err != nil {
		err = p.devices.explain(m.Topic, ask.Sealed, err)
		p.refuse(m.Topic, err)
		// A device whose key is not the configured one must learn of it.
		if errors.Is(err, transport.ErrUnknownSigner) && len(ask.Items) > 0 && p.devices.mayTell(ask.Device, p.now()) {
			why := transport.Refusal{Reason: Reason(err), Detail: detailOf(err)}
			d.receipts.Put(ask.Device, refusal(ask.Items[0].Object, why))
		}
		return
	}
	for _, it := range ask.Items {
		d.receipts.Put(ask.Device, d.outcome(ask.Device, it))
	}
}

// outcome returns what became of an object.
func (d *stored) outcome(device string, it transport.AskItem) transport.ReceiptItem {
	windows := d.store.Windows
	if windows.Known(it.Object) {
		return transport.ReceiptItem{Object: it.Object, Outcome: transport.Taken}
	}
	// Nobody listens where no program reads; the sender must know.
	id := streamID{device, strings.TrimPrefix(it.Topic, transport.ReadingTopic(d.p.cfg.Broker.TopicPrefix, device, ""))}
	if d.p.source(id) == nil {
		return refusal(it.Object, transport.Refusal{Reason: transport.ReasonUnread, Detail: d.unread(device)})
	}
	if why := cmp.Or(d.receipts.Refused.Get(it.Object), d.receipts.Strange.Get(it.Object)); why.Reason != "" {
		return refusal(it.Object, why)
	}
	out := d.p.receiver.Progress(it.Topic, it.Object, it.Total, it.Size)
	if out.Outcome == transport.Working && windows.Known(it.Object) { // meanwhile
		out.Outcome = transport.Taken
	}
	if out.Outcome != transport.Unknown && out.Outcome != transport.Partial {
		return out
	}
	if _, blocked := d.blocked(id, false); blocked || windows.Busy(it.Size, d.p.now()) {
		return busy(it.Object)
	}
	return out
}

// unread returns which streams of a device are read.
func (d *stored) unread(device string) string {
	var names []string
	for _, s := range d.p.roster.streams(device) {
		names = append(names, s.Stream.Name)
	}
	slices.Sort(names)
	return transport.Detail(fmt.Sprintf("of %s its programs read %s", device, strings.Join(names, ", ")))
}

func busy(id [32]byte) transport.ReceiptItem {
	return transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: transport.ReasonBusy}
}
