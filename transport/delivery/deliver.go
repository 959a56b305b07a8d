package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/internal/backoff"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// silence is the number of attempts in a row without a receipt after which the log gives a
// hint.
const silence = 3

// deliver takes one object to its receiver, or gives the lease back. An error
// means that nothing can be delivered any more.
func (c *Courier) deliver(ctx context.Context, l *spool.Lease, t *turn) error {
	if c.o.Topic != nil {
		l.Topic = c.o.Topic(l)
	}
	err := errReplayed
	answers := c.listen(l.ID)
	if !l.Conflict {
		err = c.attempt(ctx, l, t, answers)
	}
	if errors.Is(err, errReplayed) && c.o.Renumber != nil && (l.Conflict || !l.Recovered && l.Attempts == 0) {
		err = c.renumber(l)
	}
	id := l.ID
	end := c.conclude(ctx, l, err)
	c.forget(id, answers)
	for len(answers) > 0 { // came after the wait for it
		c.late(ctx, <-answers)
	}
	return end
}

// late takes the receipt of an object that no attempt waits for: the last attempt is over
// and the next one is not due, or an earlier process sent the object.
func (c *Courier) late(ctx context.Context, it transport.ReceiptItem) {
	if it.Outcome != transport.Taken || ctx.Err() != nil {
		return
	}
	if l := c.o.Spool.Find(it.Object); l != nil {
		_ = c.conclude(ctx, l, nil) // nothing was sent that could have failed
	}
}

// conclude ends a lease as the outcome of its attempt demands. An error means that
// nothing can be delivered any more.
func (c *Courier) conclude(ctx context.Context, l *spool.Lease, err error) error {
	if (err == nil || errors.Is(err, errReplayed)) && c.o.Before != nil { // it leaves the spool either way
		if berr := c.o.Before(l); berr != nil {
			err = berr
		}
	}
	c.note(l.Stream, err)
	if c.o.Notify != nil && ctx.Err() == nil {
		c.o.Notify(err)
	}
	switch {
	case err == nil:
		c.shrink.arrived(l.ID)
		c.delivered.Add(1)
		c.bytes.Add(uint64(l.Size))
		if l.Live {
			c.live.Add(1)
		}
		c.last.Store(c.o.Clock.Now().UnixNano())
		c.remember("")
		l.Done()
	case ctx.Err() != nil:
		l.Return(0)
	case errors.Is(err, spool.ErrDamaged):
		c.remember(err.Error()) // the spool has counted it and ended the lease
	case errors.Is(err, errRefused):
		c.refused.Add(1)
		c.remember(err.Error())
		d := c.held(l.Attempts)
		c.log.Error("the receiver refuses a window; it stays in the spool and will be offered again",
			"stream", l.Stream,
			"in", d.Round(time.Second), "error", err)
		l.Park(d)
	case errors.Is(err, errRenumbered):
		c.log.Error("the receiver already has another window under this number, which this board never sent: "+
			"another board uses this device's identity, or this board's state is an old copy; the window gets a "+
			"new number",
			"stream", l.Stream, "object", fmt.Sprintf("%x", l.ID[:6]))
		c.remember(err.Error())
		l.Return(backoff.Wait(0, c.o.First, c.o.Last))
	case errors.Is(err, errReplayed):
		c.dropped.Add(1)
		c.log.Warn("the receiver already had a window with this number; this one is dropped", "stream", l.Stream,
			"error", err)
		l.Done()
	case (errors.Is(err, transport.ErrTooLarge) || errors.Is(err, transport.ErrMalformed)) && c.o.Spool.Durable():
		// Another configuration can send it.
		c.refused.Add(1)
		c.remember(err.Error())
		c.log.Error("a window cannot be sent with this configuration; it stays in the spool. Raise broker.chunk_size",
			"topic", l.Topic, "error", err)
		l.Park(c.o.Held)
	case errors.Is(err, transport.ErrTooLarge), errors.Is(err, transport.ErrMalformed):
		c.dropped.Add(1)
		c.remember(err.Error())
		c.log.Error("an object can never be sent; raise broker.chunk_size", "topic", l.Topic, "error", err)
		l.Done()
	case errors.Is(err, transport.ErrClosed), errors.Is(err, transport.ErrRefused),
		errors.Is(err, transport.ErrOptions):
		l.Return(0)
		return fmt.Errorf("send: %w", err)
	default:
		d := backoff.Wait(l.Attempts, c.o.First, c.o.Last)
		c.retries.Add(1)
		c.remember(err.Error())
		c.log.Warn("sending failed; it will be tried again", "stream", l.Stream, "in", d.Round(time.Millisecond),
			"attempt", l.Attempts+1, "error", err)
		l.Return(d)
	}
	return nil
}

// firstHeld is the delay after the first refusal of an object.
const firstHeld = 10 * time.Second

// held returns the delay after n refusals or failures. It is short at first, since a
// receiver that gets new keys may take the object a moment later.
func (c *Courier) held(n int) time.Duration {
	return min(c.o.Held, firstHeld<<min(n, 10))
}

func (c *Courier) remember(trouble string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = trouble
}

// renumber replaces the leased object by the same one under a new number.
func (c *Courier) renumber(l *spool.Lease) error {
	l.Conflicts()
	sealed, err := l.Sealed()
	if err == nil {
		sealed, err = c.o.Renumber(sealed)
	}
	if err == nil {
		err = l.Replace(sealed)
	}
	switch {
	case errors.Is(err, ErrNumbered):
		c.renumbered.Add(1)
		return fmt.Errorf("%w: %w", errReplayed, err)
	case errors.Is(err, transport.ErrUnknownSigner): // it was signed with an earlier key, and cannot be again
		return fmt.Errorf("%w: %w", errReplayed, err)
	case err != nil:
		return fmt.Errorf("a window whose number is in use elsewhere: %w", err)
	}
	c.renumbered.Add(1)
	return errRenumbered
}

// attempt sends what is missing of an object and waits for its acknowledgement.
func (c *Courier) attempt(ctx context.Context, l *spool.Lease, t *turn, answers <-chan transport.ReceiptItem) error {
	chunk := c.shrink.now()
	if c.level(l.Stream) == Broker {
		_, err := c.send(ctx, l, chunk, nil)
		return err
	}
	if err := c.listening(ctx, t); err != nil {
		return err
	}
	var has *transport.ReceiptItem // what the receiver has of it
	if l.Recovered || l.Attempts > 0 {
		t.rest()
		total := transport.Pieces(int(l.Size), chunk)
		it, err := c.ask(ctx, l, total, int(l.Size), answers)
		if err != nil {
			return err
		}
		if done, err := settled(it); done {
			if err == nil && l.Recovered && l.Attempts == 0 {
				c.before.Add(1)
			}
			return err
		}
		switch {
		case it.Outcome == transport.Working:
			return c.await(ctx, l, answers)
		case it.Outcome == transport.Partial && it.Total == total:
			has = &it
		case it.Outcome == transport.Unknown:
			if size, ok := c.shrink.vanished(l.ID); ok {
				c.log.Warn("the broker acknowledges windows that never reach the receiver, so it may drop large "+
					"messages; trying smaller chunks. Set broker.chunk_size below the broker's limit",
					"stream", l.Stream, "chunk_size", size)
				chunk = size
			}
		}
		if err := t.take(ctx); err != nil {
			return err
		}
	}
	// A receiver that is away must not hold the chunks up for ever: the broker
	// may have lost what it acknowledged.
	all, err := c.send(ctx, l, chunk, has)
	if err != nil {
		return err
	}
	if all {
		c.shrink.acknowledged(l.ID)
	}
	t.rest()
	return c.await(ctx, l, answers)
}

// listening waits until the subscription to receipts is made: a broker keeps no receipt for
// whoever has not subscribed.
func (c *Courier) listening(ctx context.Context, t *turn) error {
	select {
	case <-c.ready:
		return nil
	default:
	}
	t.rest()
	select {
	case <-c.ready:
		return t.take(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send reads an object, publishes the chunks that the receiver lacks and waits until the
// broker has acknowledged them. all reports whether these were all chunks.
func (c *Courier) send(
	ctx context.Context, l *spool.Lease, chunk int, has *transport.ReceiptItem,
) (all bool, err error) {
	buf := c.buffer(l.Size)
	defer c.recycle(buf)
	sealed, err := l.SealedIn(*buf)
	if err != nil {
		return false, err
	}
	pieces, err := transport.SplitNamed(l.ID, sealed, chunk)
	if err != nil {
		return false, err
	}
	missing := pieces
	if has != nil && has.Total == len(pieces) {
		missing = pieces[:0:0]
		for i := range pieces {
			if !has.Has(i) {
				missing = append(missing, pieces[i])
			}
		}
		c.skipped.Add(uint64(len(pieces) - len(missing)))
	}
	return len(missing) == len(pieces), c.sender.SendChunks(ctx, l.Topic, missing)
}

// kept is the largest size, in bytes, for which memory is used again. Larger objects take
// most of a board's memory, so theirs is freed.
const kept = 4 << 20

// buffer returns memory for an object of size bytes. Nothing of it is used after an
// attempt: the chunks are copies.
func (c *Courier) buffer(size int64) *[]byte {
	b, ok := c.buffers.Get().(*[]byte)
	if need := size + spool.ReadRoom; !ok || int64(cap(*b)) < need {
		b = new(make([]byte, need))
	}
	return b
}

func (c *Courier) recycle(b *[]byte) {
	if cap(*b) < kept {
		c.buffers.Put(b)
	}
}

// final are the refusals that no change of the receiver's configuration cures. The same
// sender used this number, or this place in time, before.
var final = map[string]bool{transport.Reason(transport.ErrReplayed): true, "duplicate_window": true}

// foreign are the refusals of a receiver that lacks the key of an object.
var foreign = map[string]bool{transport.Reason(transport.ErrWrongKey): true,
	transport.Reason(transport.ErrWrongParams): true}

// settled reports whether a receipt ends the matter, and how.
func settled(it transport.ReceiptItem) (done bool, err error) {
	switch {
	case it.Outcome == transport.Taken:
		return true, nil
	case it.Outcome == transport.Refused && it.Reason == transport.ReasonBusy:
		return true, errBusy
	case it.Outcome == transport.Refused && it.Reason == transport.ReasonUnread && it.Detail != "":
		return true, fmt.Errorf("%w: %s", errUnread, it.Detail)
	case it.Outcome == transport.Refused && it.Reason == transport.ReasonUnread:
		return true, errUnread
	case it.Outcome == transport.Refused && final[it.Reason]:
		return true, fmt.Errorf("%w: object %x", errReplayed, it.Object[:6])
	case it.Outcome == transport.Refused && it.Detail != "":
		return true, fmt.Errorf("%w: %s: %s", errRefused, it.Reason, it.Detail)
	case it.Outcome == transport.Refused:
		return true, fmt.Errorf("%w: %s", errRefused, it.Reason)
	}
	return false, nil
}

// await waits for the receipt of an object that was sent.
func (c *Courier) await(ctx context.Context, l *spool.Lease, answers <-chan transport.ReceiptItem) error {
	limit, stop := c.timeout(ctx)
	defer stop()
	for {
		select {
		case it := <-answers:
			if done, err := settled(it); done {
				return err
			}
		case <-limit.Done():
			if err := ctx.Err(); err != nil {
				return err
			}
			if l.Attempts+1 == silence {
				c.log.Warn("the broker acknowledges and no receipt comes: is the evaluator running with a store, "+
					"does it know this stream, and is broker.chunk_size below the broker's limit?", "stream", l.Stream)
			}
			return fmt.Errorf("%w for object %x within %v", errSilent, l.ID[:6], c.o.Receipt)
		}
	}
}

// timeout ends after the wait for a receipt, by the courier's clock.
func (c *Courier) timeout(ctx context.Context) (context.Context, func()) {
	limit, stop := context.WithCancel(ctx)
	go func() {
		_ = c.o.Clock.Sleep(limit, c.o.Receipt)
		stop()
	}()
	return limit, stop
}

// ask asks what the receiver has of an object and waits for the answer.
func (c *Courier) ask(
	ctx context.Context, l *spool.Lease, total, size int, answers <-chan transport.ReceiptItem,
) (transport.ReceiptItem, error) {
	var none transport.ReceiptItem
	body, err := transport.MarshalAsk(transport.Ask{Items: []transport.AskItem{{Object: l.ID, Topic: l.Topic,
		Total: total, Size: size}}})
	if err != nil {
		return none, err
	}
	if err := c.publishAsk(ctx, body); err != nil {
		return none, err
	}
	limit, stop := c.timeout(ctx)
	defer stop()
	select {
	case it := <-answers:
		return it, nil
	case <-limit.Done():
		if err := ctx.Err(); err != nil {
			return none, err
		}
		return none, fmt.Errorf("%w: nobody answers for object %x within %v", errSilent, l.ID[:6], c.o.Receipt)
	}
}

// publishAsk seals and publishes an ask, one at a time.
func (c *Courier) publishAsk(ctx context.Context, body []byte) error {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	boot, sequence, err := c.o.Number()
	if err != nil {
		return err
	}
	now := c.o.Clock.Now().UnixNano()
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindAsk, Device: c.o.Name, BootEpoch: boot,
		Sequence: sequence, Start: now, End: now}, body, c.o.Key)
	if err != nil {
		return err
	}
	payload, err := transport.Whole(sealed, c.o.ChunkSize)
	if err != nil {
		return err
	}
	c.asks.Add(1)
	return c.o.Client.Publish(ctx, transport.AskTopic(c.o.Prefix, c.o.Name), payload, false)
}

// listen registers for receipts of an object.
func (c *Courier) listen(id [32]byte) chan transport.ReceiptItem {
	ch := make(chan transport.ReceiptItem, 4)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[id] = ch
	return ch
}

// forget ends listen; the object may have been leased again meanwhile.
func (c *Courier) forget(id [32]byte, ch chan transport.ReceiptItem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] == ch {
		delete(c.waiting, id)
	}
}

// handle takes a receipt from the broker. What does not verify is counted. A
// receipt that comes again does no harm: it names objects by content.
func (c *Courier) handle(ctx context.Context, d transport.Delivery) {
	if d.Ack != nil {
		defer d.Ack()
	}
	r, err := c.read(d)
	if err != nil {
		c.forged.Add(1)
		reason := transport.Reason(err)
		if ok, more := c.reports.Allow(reason, c.o.Clock.Now()); ok {
			c.log.Warn("a receipt is ignored", "reason", reason, "error", err, "more", more)
		}
		return
	}
	c.receipts.Add(1)
	for _, it := range r.Items {
		if c.o.Shared && it.Outcome == transport.Refused && foreign[it.Reason] {
			continue
		}
		if !c.hand(it) {
			c.late(ctx, it)
		}
	}
}

// hand gives a receipt to whoever waits for it.
func (c *Courier) hand(it transport.ReceiptItem) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.waiting[it.Object]
	select {
	case ch <- it:
	default: // nobody waits, or not for so many
	}
	return ch != nil
}

// understood notes whether a receipt with a good signature could be read. Another version
// of the program may write receipts that this one does not know.
func (c *Courier) understood(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreadable = ""
	if err != nil {
		c.unreadable = err.Error()
	}
}

func (c *Courier) read(d transport.Delivery) (*transport.Receipt, error) {
	if err := d.CheckFresh(); err != nil {
		return nil, err
	}
	sealed, err := transport.ReadWhole(d.Payload, 2<<20)
	if err != nil {
		return nil, err
	}
	obj, err := transport.Open(sealed, c.verifier)
	if err != nil {
		return nil, err
	}
	r, err := transport.UnmarshalReceipt(obj.Body)
	c.understood(err)
	if err == nil && r.To != c.o.Name {
		err = fmt.Errorf("%w: a receipt for %q", transport.ErrWrongTopic, r.To)
	}
	return r, err
}
