package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// Windows are the windows in the inbox of a store. A window leaves when the joiner has
// let it go and no job needs it any more.
type Windows struct {
	inbox  *spool.Spool
	ledger *ledger
	log    *slog.Logger

	pressure    pressure
	course      continuity
	stranded    stranded
	toldMissing []string // what the log has of missing windows; of the housekeeping

	mu    sync.Mutex
	held  map[[32]byte]*heldWindow
	inUse map[seriesKey]map[uint64][32]byte // numbers of the windows in held
}

// heldWindow is a window in the inbox.
type heldWindow struct {
	stream string // of the inbox
	number uint64
	key    seriesKey
	seq    uint64
	refs   int  // jobs that need it
	left   bool // the joiner has let it go
}

func newWindows(inbox *spool.Spool, l *ledger, log *slog.Logger) *Windows {
	return &Windows{inbox: inbox, ledger: l, log: log, held: map[[32]byte]*heldWindow{},
		inUse: map[seriesKey]map[uint64][32]byte{}}
}

// Recover takes over the windows of an earlier process. Those that open refuses stay in
// the inbox: the caller strands them, for a configuration that accepts them.
func (w *Windows) Recover(open func(topic string, sealed []byte) (*transport.Object, bool)) error {
	for _, e := range w.inbox.Entries() {
		l, sealed, err := w.inbox.Read(e)
		if l == nil || errors.Is(err, spool.ErrDamaged) {
			continue // counted and reported by the spool
		}
		if err == nil && w.Known(transport.ObjectID(sealed)) {
			// A crash brought back its file after it was worked off, or the file is there
			// twice. Its results must not be made again.
			l.Done()
			continue
		}
		l.Return(0)
		if err != nil {
			return fmt.Errorf("%w: inbox: %w", ErrState, err)
		}
		if obj, ok := open(e.Topic, sealed); ok {
			w.hold(obj, e.Stream, e.Number)
		}
	}
	return nil
}

// All returns the topics and contents of all windows, oldest first.
func (w *Windows) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, e := range w.inbox.Entries() {
			l := w.inbox.Take(e.Stream, e.Number)
			if l == nil {
				continue
			}
			sealed, err := l.Sealed()
			if errors.Is(err, spool.ErrDamaged) {
				continue
			}
			l.Return(0)
			if err == nil && !yield(e.Topic, sealed) {
				return
			}
		}
	}
}

// Read returns the topic and the contents of a window, or false if it is not there.
func (w *Windows) Read(id [32]byte) (topic string, sealed []byte, ok bool) {
	w.mu.Lock()
	h := w.held[id]
	w.mu.Unlock()
	if h == nil {
		return "", nil, false
	}
	l := w.inbox.Take(h.stream, h.number)
	if l == nil {
		return "", nil, false
	}
	sealed, err := l.Sealed()
	l.Return(0)
	return l.Topic, sealed, err == nil
}

// Strand notes a window in the store that the configuration does not accept, although
// its device has deleted it. It stays in the store.
func (w *Windows) Strand(topic, reason string, err error) {
	w.stranded.add(topic, reason, err)
	w.log.Error("a window in the store, which its device has deleted, is not accepted by this configuration; it stays "+
		"there",
		"topic", topic, "error", err)
}

// Known reports whether the evaluator answers for an object.
func (w *Windows) Known(id [32]byte) bool { return w.holds(id) || w.ledger.hasTaken(id) }

// holds reports whether a window is in the inbox.
func (w *Windows) holds(id [32]byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[id] != nil
}

// Fresh returns ErrKnown for an object that was taken before, and
// transport.ErrReplayed for another one under a number that was used.
func (w *Windows) Fresh(obj *transport.Object) error {
	if w.Known(obj.ID) {
		return ErrKnown
	}
	m, k := &obj.Meta, keyOf(obj)
	w.mu.Lock()
	_, busy := w.inUse[k][m.Sequence]
	w.mu.Unlock()
	if busy || w.ledger.used(k, m.Sequence) {
		return fmt.Errorf("%w: reading of %q, stream %q, boot epoch %d, sequence %d", transport.ErrReplayed,
			m.Device, m.Stream, m.BootEpoch, m.Sequence)
	}
	return nil
}

// Keep writes a verified object into the inbox. From then on the evaluator answers for
// it. It fails with ErrBusy.
func (w *Windows) Keep(ctx context.Context, obj *transport.Object, topic string, sealed []byte, now time.Time) error {
	w.course.first(obj, w.newest)
	if err := w.write(ctx, obj, topic, sealed); err != nil {
		if w.inbox.Room(int64(len(sealed))) { // then the disk is at fault
			w.pressure.failed(now)
		}
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	w.pressure.worked()
	w.course.note(obj, now)
	return nil
}

func (w *Windows) write(ctx context.Context, obj *transport.Object, topic string, sealed []byte) error {
	if err := w.ledger.reserve(keyOf(obj).series); err != nil {
		return err
	}
	stream := inboxStream(&obj.Meta)
	number, err := w.inbox.Add(ctx, spool.Item{Stream: stream, Topic: topic, Sealed: sealed})
	if err != nil {
		return err
	}
	w.hold(obj, stream, number)
	return nil
}

// inboxStream names a stream in the inbox.
func inboxStream(m *transport.Meta) string {
	sum := sha256.Sum256([]byte(m.Device + "/" + m.Stream))
	return fmt.Sprintf("%x", sum[:8])
}

func (w *Windows) hold(obj *transport.Object, stream string, number uint64) {
	k, seq := keyOf(obj), obj.Meta.Sequence
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[obj.ID] = &heldWindow{stream: stream, number: number, key: k, seq: seq}
	if w.inUse[k] == nil {
		w.inUse[k] = map[uint64][32]byte{}
	}
	w.inUse[k][seq] = obj.ID
}

// newest returns where a stream stands: its newest boot epoch and the highest number
// of that, worked off or in the inbox.
func (w *Windows) newest(series [8]byte) (boot, high uint64, ok bool) {
	boot, high, ok = w.ledger.course(series)
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, numbers := range w.inUse {
		if k.series != series || ok && k.boot < boot {
			continue
		}
		if !ok || k.boot > boot {
			boot, high, ok = k.boot, 0, true
		}
		for n := range numbers {
			high = max(high, n)
		}
	}
	return boot, high, ok
}

// Busy reports whether the sender of a window of so many bytes should wait.
func (w *Windows) Busy(size int, now time.Time) bool {
	return !w.inbox.Room(int64(size)) || w.pressure.busy(now)
}

// Need counts a job that needs these windows.
func (w *Windows) Need(ids [][32]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if h := w.held[id]; h != nil {
			h.refs++
		}
	}
}

// Settle ends a job that needed these windows: its result is in the outbox, or it
// failed for good.
func (w *Windows) Settle(ids [][32]byte) (err error) {
	w.mu.Lock()
	for _, id := range ids {
		if h := w.held[id]; h != nil {
			h.refs--
		}
	}
	w.mu.Unlock()
	for _, id := range ids {
		err = errors.Join(err, w.release(id))
	}
	return err
}

// Leave notes that the joiner has let a window go.
func (w *Windows) Leave(id [32]byte) error {
	w.mu.Lock()
	if h := w.held[id]; h != nil {
		h.left = true
	}
	w.mu.Unlock()
	return w.release(id)
}

// sweep tries again to release windows that nothing needs any more.
func (w *Windows) sweep() (err error) {
	w.mu.Lock()
	var ids [][32]byte
	for id, h := range w.held {
		if h.left && h.refs == 0 {
			ids = append(ids, id)
		}
	}
	w.mu.Unlock()
	for _, id := range ids {
		err = errors.Join(err, w.release(id))
	}
	return err
}

// release takes a window out of the inbox if nothing needs it any more.
func (w *Windows) release(id [32]byte) error {
	w.mu.Lock()
	h := w.held[id]
	if h == nil || h.refs > 0 || !h.left {
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock()
	taken := record{kind: recTaken, id: id, series: h.key.series, boot: h.key.boot, number: h.seq}
	if err := w.ledger.add(taken); err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.held, id)
	delete(w.inUse[h.key], h.seq)
	if len(w.inUse[h.key]) == 0 {
		delete(w.inUse, h.key)
	}
	w.mu.Unlock()
	if l := w.inbox.Take(h.stream, h.number); l != nil {
		l.Done()
	}
	return nil
}

// Gaps returns the windows that are missing, by device and stream.
func (w *Windows) Gaps() []Gap { return w.course.gaps() }

// tell logs which windows are missing, once.
func (w *Windows) tell(now time.Time) {
	missing := w.course.texts(now, 0)
	for _, text := range missing {
		if !slices.Contains(w.toldMissing, text) {
			w.log.Error("windows are missing", "trouble", text)
		}
	}
	w.toldMissing = missing
}

func (w *Windows) health(now time.Time) []string {
	return slices.Concat(w.stranded.health(), w.course.health(now))
}

// stranded counts windows in the store that this configuration does not accept, for
// example because the key of their epoch was taken away.
type stranded struct {
	mu    sync.Mutex
	n     map[string]int   // by reason
	first map[string]error // of each reason
}

func (s *stranded) add(topic, reason string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n, s.first = map[string]int{}, map[string]error{}
	}
	if s.n[reason]++; s.n[reason] == 1 {
		s.first[reason] = fmt.Errorf("%s: %w", topic, err)
	}
}

func (s *stranded) health() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(s.n)) {
		out = append(out,
			fmt.Sprintf("store: %d windows that were acknowledged are not accepted by this configuration (%s), so "+
				"their samples are in no result: put back what it had when they came (keys of their epoch, streams, "+
				"devices) and reload. The first: %v", s.n[reason], reason, s.first[reason]))
	}
	return out
}
