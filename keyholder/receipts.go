package keyholder

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// Receipts tells evaluators which of their results were read, so that they
// keep each until then. Give it to Watch.
type Receipts struct {
	key    *transport.SigningKey
	asks   *transport.Verifier
	names  []string
	client transport.Client
	prefix string
	log    *slog.Logger
	store  transport.ReplayStore // nil: nothing is kept over restarts
	guard  *transport.ReplayGuard
	seen   *seen // of the goroutine of Watch

	refused *transport.Refusals // of results of trusted evaluators
	strange *transport.Refusals // of others

	mu    sync.Mutex
	known map[[32]byte]bool // results that were read, the newest maxKnown
	order [][32]byte
	boot  uint64
	next  uint64

	outgoing chan receipt
}

type receipt struct {
	to   string
	item transport.ReceiptItem
}

// Bounds of the ids that are remembered.
const (
	maxKnown   = 1 << 16
	maxRefused = 4096
)

// ReceiptOptions of NewReceipts. Client and Evaluators are required.
type ReceiptOptions struct {
	Client      transport.Client
	TopicPrefix string
	Evaluators  map[string][]ed25519.PublicKey
	// State is the file that remembers the numbers of results that were read, and
	// State.results what they were made of; empty: nothing is kept over restarts.
	State  string
	Logger *slog.Logger
}

// NewReceipts loads the signing key of a set and the state. Give Guard's value
// to the Reader.
func NewReceipts(set *Set, o ReceiptOptions) (*Receipts, error) {
	trust := transport.NewTrustStore()
	r := &Receipts{client: o.Client, prefix: o.TopicPrefix, log: o.Logger, known: map[[32]byte]bool{}, refused: transport.NewRefusals(maxRefused), strange: transport.NewRefusals(maxRefused), boot: uint64(max(time.Now().UnixNano(), 1)),
		guard: transport.NewReplayGuard(0), outgoing: make(chan receipt, 256)}
	if r.prefix == "" {
		r.prefix = transport.DefaultPrefix
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	for name, keys := range o.Evaluators {
		r.names = append(r.names, name)
		for _, pub := range keys {
			if err := trust.AddDevice(name, pub); err != nil {
				return nil, fmt.Errorf("receipts: %w", err)
			}
		}
	}
	var err error
	r.asks, err = transport.NewVerifier(transport.VerifierOptions{Trust: trust, Kinds: []transport.Kind{transport.KindAsk}, NoReplay: true,
		MaxObject: 2 << 20, TopicPrefix: r.prefix})
	if err == nil && o.State != "" {
		transport.SweepTemporary(o.State)
		transport.SweepTemporary(o.State + ".results")
		r.store = transport.FileReplayStore(o.State)
		err = transport.LoadReplay(r.guard, r.store)
	}
	if err == nil {
		r.key, err = transport.LoadSigningKey(filepath.Join(set.dir, signerFile))
	}
	if err == nil {
		path := ""
		if o.State != "" {
			path = o.State + ".results"
		}
		r.seen, err = openSeen(path, maxSeen)
	}
	if err != nil {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	return r, nil
}

// Guard is what refuses results that were read before; ReaderOptions.Replay.
func (r *Receipts) Guard() *transport.ReplayGuard { return r.guard }

// Use sets the connection, before Watch.
func (r *Receipts) Use(c transport.Client) { r.client = c }

// Close wipes the key and closes the state.
func (r *Receipts) Close() {
	r.key.Wipe()
	r.seen.close()
}

// fresh refuses a result whose windows are in an earlier one. Its evaluator is told that
// it was read, so that it lets go of it.
func (r *Receipts) fresh(res *Result) error {
	if !r.seen.has(res) {
		return nil
	}
	r.taken(res)
	return fmt.Errorf("%w: %s of %s, boot epoch %d, sequence %d; is the store of the evaluator an old copy?", ErrRepeated, res.Program, res.Evaluator, res.BootEpoch, res.Sequence)
}

// keep is read, again and again while the disk takes nothing: to end instead would hand
// the result on once more after the next start.
func (r *Receipts) keep(ctx context.Context, res *Result) error {
	for told := false; ; told = true {
		err := r.read(res)
		if err == nil || !diskTrouble(err) {
			return err
		}
		if !told {
			r.log.Error("the state cannot be written; results wait", "error", err)
		}
		t := time.NewTimer(diskRetry)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// diskRetry is the delay between attempts to write the state.
const diskRetry = time.Second

// diskTrouble reports whether a disk takes nothing for now: full, read-only, failing.
func diskTrouble(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// read notes a result that was handed on and queues its receipt.
func (r *Receipts) read(res *Result) error {
	if err := r.seen.add(res); err != nil {
		return fmt.Errorf("receipts: %w", err)
	}
	if r.store != nil {
		if err := transport.SaveReplay(r.guard, r.store); err != nil {
			return fmt.Errorf("receipts: %w", err)
		}
	}
	r.taken(res)
	return nil
}

// taken queues the receipt of a result, and remembers it for who misses that and asks.
func (r *Receipts) taken(res *Result) {
	r.mu.Lock()
	r.known[res.ID] = true
	r.order = append(r.order, res.ID)
	if len(r.order) > maxKnown {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	r.mu.Unlock()
	r.answer(res.Evaluator, transport.ReceiptItem{Object: res.ID, Outcome: transport.Taken})
}

// refuse answers for a result that came again or cannot be read, so that its evaluator
// does not wait for a receipt, and with it every later result of the program. The one
// that failed for want of something here, such as a key that a copy of the key set has
// not got yet, may come once more.
func (r *Receipts) refuse(topic string, sealed []byte, err error, receiver *transport.Receiver) {
	switch {
	case errors.Is(err, ErrRepeated): // answered
		return
	case errors.Is(err, transport.ErrWrongTopic): // anybody can send it there
		return
	case !authentic(err): // who asks about it has it: results signed with the key before, for example
		r.strange.Add(transport.ObjectID(sealed), transport.Refusal{Reason: Class(err), Detail: transport.Detail(err.Error())})
		return
	}
	m, perr := transport.PeekMeta(sealed)
	if perr != nil {
		return
	}
	it := transport.ReceiptItem{Object: transport.ObjectID(sealed), Outcome: transport.Refused, Reason: Class(err), Detail: transport.Detail(err.Error())}
	switch {
	case errors.Is(err, transport.ErrReplayed) && r.has(it.Object):
		it.Outcome, it.Reason, it.Detail = transport.Taken, "", ""
	case errors.Is(err, transport.ErrWrongKey):
		it.Reason = transport.Reason(transport.ErrWrongKey)
		receiver.Forget(topic, it.Object)
	case it.Reason == transport.ReasonOther:
		it.Detail = "" // an error of this machine
		receiver.Forget(topic, it.Object)
	default:
		r.refused.Add(it.Object, transport.Refusal{Reason: it.Reason, Detail: it.Detail})
	}
	r.answer(m.Device, it)
}

// authentic reports whether an error is of a result that a trusted evaluator has signed.
func authentic(err error) bool {
	for _, e := range []error{transport.ErrTooLarge, transport.ErrTruncated, transport.ErrMalformed, transport.ErrDowngraded, transport.ErrUnsupportedVersion,
		transport.ErrWrongKind, transport.ErrUnknownSigner, transport.ErrSignature} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

func (r *Receipts) has(id [32]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[id]
}

func (r *Receipts) answer(to string, it transport.ReceiptItem) {
	select {
	case r.outgoing <- receipt{to, it}:
	default: // who misses it asks
	}
}

// listen subscribes to the questions of the evaluators.
func (r *Receipts) listen(ctx context.Context, receiver *transport.Receiver) error {
	for _, name := range r.names {
		err := r.client.Subscribe(ctx, transport.AskTopic(r.prefix, name), func(d transport.Delivery) {
			if d.Ack != nil {
				defer d.Ack()
			}
			if err := r.ask(d, receiver); err != nil {
				r.log.Warn("a question is not answered", "topic", d.Topic, "reason", transport.Reason(err), "error", err)
			}
		})
		if err != nil {
			return fmt.Errorf("subscribe to questions of %s: %w", name, err)
		}
	}
	return nil
}

// ask answers a question.
func (r *Receipts) ask(d transport.Delivery, receiver *transport.Receiver) error {
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
	for _, it := range a.Items {
		out := transport.ReceiptItem{Object: it.Object, Outcome: transport.Taken}
		switch why := cmp.Or(r.refused.Get(it.Object), r.strange.Get(it.Object)); {
		case r.has(it.Object):
		case why.Reason != "":
			out.Outcome, out.Reason, out.Detail = transport.Refused, why.Reason, why.Detail
		default:
			out = receiver.Progress(it.Topic, it.Object, it.Total, it.Size)
		}
		r.answer(obj.Meta.Device, out)
	}
	return nil
}

// send signs and publishes receipts until ctx ends.
func (r *Receipts) send(ctx context.Context) {
	for {
		select {
		case m := <-r.outgoing:
			payload, err := transport.SealReceipt(transport.Receipt{To: m.to, Items: []transport.ReceiptItem{m.item}}, holderDevice, r.key, time.Now(), r.number)
			if err == nil {
				err = r.client.Publish(ctx, transport.ReceiptTopic(r.prefix, m.to), payload, false)
			}
			if err != nil && ctx.Err() == nil {
				r.log.Warn("a receipt was not sent; the evaluator will ask", "evaluator", m.to, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (r *Receipts) number() (boot, sequence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.boot, r.next
}
