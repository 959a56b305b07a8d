package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// Results are the results in the outbox of a store, divided among the programs.
type Results struct {
	outbox  *spool.Spool
	ledger  *ledger
	windows *Windows
	shares  *shares
	reader  string
	packed  map[string]bool
	log     *slog.Logger

	mu   sync.Mutex
	made map[[32]byte]bool // results in the outbox, or made and not in the ledger
}

func newResults(outbox *spool.Spool, l *ledger, w *Windows, sh *shares, o Options) *Results {
	return &Results{outbox: outbox, ledger: l, windows: w, shares: sh, reader: o.Reader, packed: o.Packed,
		log:  o.Logger,
		made: map[[32]byte]bool{}}
}

// recover notes the results of an earlier process. One that is damaged is made again if
// its inputs are still there; the spool counts it.
func (r *Results) recover() error {
	for _, e := range r.outbox.Entries() {
		l, sealed, err := r.outbox.Read(e)
		if l == nil || errors.Is(err, spool.ErrDamaged) {
			continue
		}
		l.Return(0)
		var results []transport.Meta
		if err == nil {
			results, err = transport.PeekResults(sealed)
		}
		if err != nil {
			return fmt.Errorf("%w: outbox: %w", ErrState, err)
		}
		for i := range results {
			r.made[keyOfResult(&results[i])] = true
		}
	}
	return nil
}

// keyOfResult returns what names a result with this header.
func keyOfResult(m *transport.Meta) [32]byte {
	if m.Fleet != nil {
		return fleetKey(m.Program, m.Fleet.Digest)
	}
	return resultKey(m.Program, m.Inputs)
}

// resultKey names what a program makes of certain windows, in any order.
func resultKey(program string, inputs [][32]byte) [32]byte {
	inputs = slices.Clone(inputs)
	slices.SortFunc(inputs, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(program), program)
	for _, id := range inputs {
		h.Write(id[:])
	}
	return [32]byte(h.Sum(nil))
}

// fleetKey names what a program across devices makes of windows with a digest. Its first 8
// bytes name the program, and the last 8 are zero: a claim has 24.
func fleetKey(program string, digest [32]byte) (key [32]byte) {
	h := sha256.Sum256([]byte(program))
	of := sha256.Sum256(append(h[:], digest[:]...))
	copy(key[:8], h[:])
	copy(key[8:24], of[:])
	return key
}

// Claim notes that a result of a program across devices is made of these windows. They count
// as used once the result is in the outbox: with this and Put, each window is in the result
// or waits for another one, whenever the process ends.
func (r *Results) Claim(program string, inputs [][32]byte) error {
	key := fleetKey(program, transport.InputsDigest(inputs))
	records := make([]record, len(inputs))
	for i, id := range inputs {
		records[i] = claim(id, key)
	}
	return r.ledger.add(records...)
}

// Used reports whether a window is in a result of a program across devices that was made.
func (r *Results) Used(program string, window [32]byte) bool {
	of := fleetKey(program, [32]byte{})
	for _, key := range r.ledger.claimsOf(window) {
		if [8]byte(key[:8]) != [8]byte(of[:8]) {
			continue
		}
		r.mu.Lock()
		made := r.made[key]
		r.mu.Unlock()
		if made || r.ledger.hasMade(key) {
			return true
		}
	}
	return false
}

// FailFleet remembers that a program across devices makes nothing of these windows, which
// were claimed.
func (r *Results) FailFleet(program string, inputs [][32]byte) error {
	return r.ledger.add(record{kind: recMade, id: fleetKey(program, transport.InputsDigest(inputs))})
}

// PutFleet is Put for a result of a program across devices, of windows that were claimed.
func (r *Results) PutFleet(ctx context.Context, program string, inputs [][32]byte, topic string, sealed []byte) error {
	return r.put(ctx, program, topic, sealed, fleetKey(program, transport.InputsDigest(inputs)))
}

// Made reports whether a program's result of these inputs was made before.
func (r *Results) Made(program string, inputs [][32]byte) bool {
	key := resultKey(program, inputs)
	r.mu.Lock()
	made := r.made[key]
	r.mu.Unlock()
	return made || r.ledger.hasMade(key)
}

// Blocked names one of the programs whose results fill their share, so that no window
// may be taken that it reads. probe says that a window will be taken if none is blocked.
func (r *Results) Blocked(programs []string, now time.Time, probe bool) (program string, blocked bool) {
	waiting := r.outbox.Streams()
	for _, p := range programs {
		if r.shares.blocks(r.share(p), waiting, now, probe) {
			return p, true
		}
	}
	return "", false
}

// Skips reports whether a result of a program is not to be made, because nobody reads
// the program and its share is full. It counts the result then.
func (r *Results) Skips(program string) bool {
	return r.shares.skips(r.share(program), r.outbox.Streams())
}

// share names the part of the store that a program's results take.
func (r *Results) share(program string) string {
	if r.packed[program] {
		return transport.PackProgram
	}
	return program
}

// Begin counts a job of a program, and End its end. size is that of the result, 0 if
// there is none.
func (r *Results) Begin(program string)           { r.shares.begun(r.share(program)) }
func (r *Results) End(program string, size int64) { r.shares.made(r.share(program), size) }

// Fail remembers that a program makes nothing of these inputs.
func (r *Results) Fail(program string, inputs [][32]byte) error {
	return r.ledger.add(record{kind: recMade, id: resultKey(program, inputs)})
}

// Put writes a result of a program into the outbox. It fails with ErrBusy.
func (r *Results) Put(ctx context.Context, program string, inputs [][32]byte, topic string, sealed []byte) error {
	return r.put(ctx, program, topic, sealed, resultKey(program, inputs))
}

// PutPack is Put for a pack of these results.
func (r *Results) PutPack(ctx context.Context, results []transport.Meta, topic string, sealed []byte) error {
	keys := make([][32]byte, len(results))
	for i := range results {
		keys[i] = resultKey(results[i].Program, results[i].Inputs)
	}
	return r.put(ctx, transport.PackProgram, topic, sealed, keys...)
}

func (r *Results) put(ctx context.Context, stream, topic string, sealed []byte, keys ...[32]byte) error {
	if err := r.outbox.Put(ctx, spool.Item{Stream: stream, Topic: topic, Sealed: sealed}); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		r.made[key] = true
	}
	return nil
}

// Outbox returns the spool that results are delivered from. Delivered must be called
// before a result leaves it.
func (r *Results) Outbox() *spool.Spool { return r.outbox }

// Delivered notes an object that was delivered. While one of the inputs of a result in it may
// come up again after a restart, the ledger must know that result.
func (r *Results) Delivered(l *spool.Lease, now time.Time) error {
	sealed, err := l.Sealed()
	if err != nil {
		return err
	}
	results, err := transport.PeekResults(sealed)
	if err != nil {
		return err
	}
	var known []record
	keys := make([][32]byte, len(results))
	for i := range results {
		keys[i] = keyOfResult(&results[i])
		if results[i].Fleet != nil || slices.ContainsFunc(results[i].Inputs, r.windows.holds) {
			known = append(known, record{kind: recMade, id: keys[i]})
		}
	}
	if len(known) > 0 {
		if err := r.ledger.add(known...); err != nil {
			return err
		}
	}
	r.mu.Lock()
	for _, key := range keys {
		delete(r.made, key)
	}
	r.mu.Unlock()
	r.shares.delivered(l.Stream, r.outbox.Streams(), now)
	return nil
}

// Waiting returns, by program, the results that are not delivered yet.
func (r *Results) Waiting() map[string]Waiting { return r.shares.waiting(r.outbox.Streams()) }

// tell logs troubles that begin or change, and their end.
func (r *Results) tell(now time.Time, d Delivery) {
	kinds, texts := r.troubles(now, d)
	begun, over := r.shares.changes(kinds)
	for _, name := range over {
		r.log.Info("results are delivered again", "program", name)
	}
	for _, name := range begun {
		r.log.Error("results are not delivered", "program", name, "trouble", texts[name])
	}
}

func (r *Results) health(now time.Time, d Delivery) (out []string) {
	_, texts := r.troubles(now, d)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		out = append(out, "store: "+texts[name])
	}
	return out
}

// troubles returns what is wrong with the delivery of results, by program; "" stands
// for all of them. Kinds stay the same while the trouble does.
func (r *Results) troubles(now time.Time, d Delivery) (kinds, texts map[string]string) {
	kinds, texts = map[string]string{}, map[string]string{}
	var oldest time.Duration
	results := 0
	for name, w := range r.Waiting() {
		if kind, text := r.shares.trouble(name, w, r.reader); kind != "" {
			kinds[name], texts[name] = kind, text
		}
		oldest, results = max(oldest, w.Oldest), results+w.Results
	}
	if quiet := now.Sub(d.Since); !d.Since.IsZero() && oldest >= undelivered && quiet >= undelivered {
		kinds[""] = "none"
		texts[""] = fmt.Sprintf("no result was delivered for %v, although there is a connection: %d wait for %s. "+
			"Is the key holder running, with receipts: true?", quiet.Round(time.Second), results, r.reader)
	}
	return kinds, texts
}

// undelivered is how long results may wait, none being delivered, before that is trouble.
const undelivered = 15 * time.Minute

// Delivery is how results leave an evaluator at the moment.
type Delivery struct {
	// Since is when the last result was delivered over the present connection, or the
	// time of the connection; zero means that there is none.
	Since time.Time
}
