package keyholder

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/transport"
)

// Receipts tells evaluators which of their results were taken, so that they can delete
// them. Give it to Watch. What it says, and when, depends on signed headers and a clock
// alone, never on what a result decrypts to: a goroutine that knows nothing of decryption
// signs and publishes receipts at fixed ticks.
type Receipts struct {
	key     *transport.SigningKey
	asks    *transport.Verifier
	names   []string
	client  transport.Client
	given   func(taken [][32]byte, receipt []byte)
	prefix  string
	log     *slog.Logger
	state   string                // empty: nothing is kept over restarts
	store   transport.ReplayStore // nil without a state
	guard   *transport.ReplayGuard
	reports transport.LogLimit
	seen    *seen

	// Refused results by ownName, so that an evaluator learns of its own results only.
	refused    *transport.Refusals // with a valid signature
	unverified *transport.Refusals // without one, under the name in the header

	mu      sync.Mutex
	known   map[[32]byte]bool // results that were taken, the newest maxKnown, by ownName
	order   [][32]byte
	boot    uint64
	next    uint64
	waiting map[string][]transport.ReceiptItem // for the next tick, by evaluator
	items   int

	now   func() time.Time
	ticks <-chan time.Time // when receipts leave; nil: every receiptInterval
}

// Bounds of what is remembered.
const (
	maxKnown   = 1 << 16
	maxRefused = 4096
	maxWaiting = 4096 // items of receipts; an evaluator that misses one asks
)

// receiptInterval is the time between the ticks at which receipts leave. An evaluator sends
// the next result of a program when it has the receipt of the last.
const receiptInterval = 20 * time.Millisecond

// lastFlush bounds how long receipts may still take to leave once Watch ends.
const lastFlush = 2 * time.Second

// NewReceipts loads the signing key of a set and the state. Set ReaderOptions.Replay to
// its Guard.
func NewReceipts(set *Set, o ReceiptOptions) (*Receipts, error) {
	trust := transport.NewTrustStore()
	r := &Receipts{client: o.Client, prefix: o.TopicPrefix, log: o.Logger, state: o.State, known: map[[32]byte]bool{},
		waiting: map[string][]transport.ReceiptItem{},
		refused: transport.NewRefusals(maxRefused), unverified: transport.NewRefusals(maxRefused),
		guard: transport.NewReplayGuard(0), now: time.Now}
	r.boot = uint64(max(r.now().UnixNano(), 1))
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
	r.asks, err = transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds: []transport.Kind{transport.KindAsk}, NoReplay: true,
		MaxObject: 2 << 20, TopicPrefix: r.prefix})
	if err == nil && o.State != "" {
		durable.SweepTemporary(o.State)
		durable.SweepTemporary(o.State + seenSuffix)
		r.store = transport.FileReplayStore(o.State)
		if err = transport.LoadReplay(r.guard, r.store); err != nil {
			err = fmt.Errorf("%w: %s is empty or damaged; restore the newest copy of it and of %s%s, or move only the "+
				"first one away: a recorded result can then be read again unless it is one of the newest %d: %w",
				ErrState, o.State, o.State, seenSuffix, maxSeen, err)
		}
	}
	if err == nil {
		r.key, err = transport.LoadSigningKey(filepath.Join(set.dir, signerFile))
	}
	if err == nil {
		path := ""
		if o.State != "" {
			path = o.State + seenSuffix
		}
		if r.seen, err = openSeen(path, maxSeen); err == nil && path != "" {
			r.tellState()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	return r, nil
}

// ReceiptOptions configure NewReceipts. Client and Evaluators are required.
type ReceiptOptions struct {
	Client      transport.Client
	TopicPrefix string
	Evaluators  map[string][]ed25519.PublicKey
	// State is the file with the numbers of results that were taken. State.results
	// records what the delivered ones were computed from; the directory State.inbox holds
	// the others. If it is empty everything is in memory, and waiting results are lost
	// with the process.
	State  string
	Logger *slog.Logger
}

// tellState logs what is wrong with the files of the state.
func (r *Receipts) tellState() {
	level := slog.LevelWarn
	if r.seen.found.Damaged > 0 {
		level = slog.LevelError
	}
	if text := r.seen.damage(); text != "" {
		r.log.Log(context.Background(), level, "the record of results that were read was damaged", "trouble", text)
	}
	switch {
	case r.guard.Empty() && len(r.seen.order) > 0:
		r.log.Error("the state is missing although results were read before; restore it, or results may be read again",
			"missing", r.state, "results", len(r.seen.order))
	case !r.guard.Empty() && r.seen.found.New:
		r.log.Error("the record of results that were read is missing; restore it, or an evaluator whose store is an "+
			"old copy may have them read again", "missing", r.state+seenSuffix)
	}
}

// Damaged returns how many damaged records of the state the start found.
func (r *Receipts) Damaged() int { return r.seen.found.Damaged }

// Guard returns the guard that refuses results that were read before.
func (r *Receipts) Guard() *transport.ReplayGuard { return r.guard }

// Use sets the connection, before Watch.
func (r *Receipts) Use(c transport.Client) { r.client = c }

// Tell says who gets each receipt that was published, as a sealed object, with the ids of the
// results that it calls taken. given must not wait: receipts leave at fixed ticks. Call it before
// Watch.
func (r *Receipts) Tell(given func(taken [][32]byte, receipt []byte)) { r.given = given }

// Close wipes the key and closes the state.
func (r *Receipts) Close() {
	r.key.Wipe()
	r.seen.close()
}

// save writes the numbers of the results that were taken to disk.
func (r *Receipts) save(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	err := persist(ctx, r.log, func() error { return transport.SaveReplay(r.guard, r.store) })
	if err != nil {
		return fmt.Errorf("receipts: %w", err)
	}
	return nil
}

// ownName returns the key under which an object of an evaluator is remembered.
func ownName(evaluator string, object [32]byte) [32]byte {
	return sha256.Sum256(append(append([]byte(evaluator), 0), object[:]...))
}

// remember notes that a result was taken, in case its evaluator asks.
func (r *Receipts) remember(evaluator string, object [32]byte) {
	key := ownName(evaluator, object)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[key] {
		return
	}
	r.known[key] = true
	r.order = append(r.order, key)
	if len(r.order) > maxKnown {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
}

// taken queues the receipt of a result. It also remembers the result, in case the receipt
// is lost and the evaluator asks.
func (r *Receipts) taken(evaluator string, object [32]byte) {
	r.remember(evaluator, object)
	r.answer(evaluator, transport.ReceiptItem{Object: object, Outcome: transport.Taken})
}

// refuse answers for a result that came again or whose header is not acceptable.
// Otherwise the evaluator would wait for the receipt, and hold back every later result of
// the program. A result that failed for a reason on this side, such as a key that this
// copy of the key set does not have yet, may come again.
func (r *Receipts) refuse(topic string, sealed []byte, err error, receiver *transport.Receiver) {
	switch {
	case errors.Is(err, ErrRepeated): // answered
		return
	case errors.Is(err, transport.ErrWrongTopic): // anybody can send it there
		return
	}
	m, perr := transport.PeekMeta(sealed)
	if perr != nil {
		return
	}
	if !authentic(err) { // its evaluator may still ask, for example about results under its former key
		r.unverified.Add(ownName(m.Device, transport.ObjectID(sealed)),
			transport.Refusal{Reason: Class(err), Detail: transport.Detail(err.Error())})
		return
	}
	it := transport.ReceiptItem{Object: transport.ObjectID(sealed), Outcome: transport.Refused, Reason: Class(err),
		Detail: transport.Detail(err.Error())}
	switch {
	case errors.Is(err, transport.ErrReplayed) && r.has(m.Device, it.Object):
		it.Outcome, it.Reason, it.Detail = transport.Taken, "", ""
	case errors.Is(err, transport.ErrWrongKey):
		it.Reason = transport.Reason(transport.ErrWrongKey)
		receiver.Forget(topic, it.Object)
	case errors.Is(err, ErrNotApproved), errors.Is(err, ErrWrongProgram): // it may be, later
		receiver.Forget(topic, it.Object)
	case it.Reason == transport.ReasonOther:
		it.Detail = "" // an error of this machine
		receiver.Forget(topic, it.Object)
	default:
		r.refused.Add(ownName(m.Device, it.Object), transport.Refusal{Reason: it.Reason, Detail: it.Detail})
	}
	r.answer(m.Device, it)
}

// authentic reports whether err refuses a result that a trusted evaluator signed.
func authentic(err error) bool {
	for _, e := range []error{transport.ErrTooLarge, transport.ErrTruncated, transport.ErrMalformed,
		transport.ErrDowngraded, transport.ErrUnsupportedVersion,
		transport.ErrWrongKind, transport.ErrUnknownSigner, transport.ErrSignature} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

func (r *Receipts) has(evaluator string, object [32]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[ownName(evaluator, object)]
}

// answer queues an item for the next tick.
func (r *Receipts) answer(to string, it transport.ReceiptItem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.items >= maxWaiting {
		return // the evaluator will ask
	}
	r.waiting[to] = append(r.waiting[to], it)
	r.items++
}

// send publishes what waits at every tick until ctx ends, and then once more. What is on its
// way when ctx ends still leaves, within lastFlush.
func (r *Receipts) send(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := context.AfterFunc(ctx, func() { time.AfterFunc(lastFlush, cancel) })
	defer ended()
	ticks := r.ticks
	if ticks == nil {
		t := time.NewTicker(receiptInterval)
		defer t.Stop()
		ticks = t.C
	}
	for ctx.Err() == nil {
		select {
		case <-ticks:
			r.flush(sending)
		case <-ctx.Done():
		}
	}
	r.flush(sending)
}

// flush signs and publishes what waits, evaluator by evaluator.
func (r *Receipts) flush(ctx context.Context) {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting, r.items = map[string][]transport.ReceiptItem{}, 0
	r.mu.Unlock()
	for _, to := range slices.Sorted(maps.Keys(waiting)) {
		for items := range slices.Chunk(waiting[to], transport.MaxReceiptItems) {
			payload, err := transport.SealReceipt(transport.Receipt{To: to, Items: items}, holderDevice, r.key, r.now(),
				r.number)
			if err == nil {
				err = r.client.Publish(ctx, transport.ReceiptTopic(r.prefix, to), payload, false)
			}
			if err != nil {
				r.log.Warn("a receipt was not sent; the evaluator will ask", "evaluator", to, "error", err)
				continue
			}
			r.tell(items, payload)
		}
	}
}

// tell hands a receipt that was published to whoever keeps it.
func (r *Receipts) tell(items []transport.ReceiptItem, payload []byte) {
	if r.given == nil {
		return
	}
	var taken [][32]byte
	for i := range items {
		if items[i].Outcome == transport.Taken {
			taken = append(taken, items[i].Object)
		}
	}
	if sealed, err := transport.ReadWhole(payload, 0); err == nil && len(taken) > 0 {
		r.given(taken, sealed)
	}
}

func (r *Receipts) number() (boot, sequence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.boot, r.next
}
