package evaluator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// store is what makes an evaluator answer for the windows that it took: they
// stay in its inbox, on disk, until every result of theirs is in its outbox, on
// disk, and results stay there until they are delivered. The ledger remembers
// both sides, so that nothing is lost and nothing is done twice, wherever the
// process is killed:
//
//	window  verified -> inbox -> receipt -> ... all results made -> ledger -> out of the inbox
//	result  computed -> outbox -> delivered -> ledger (while an input is in the inbox) -> out of the outbox
type store struct {
	inbox   *spool.Spool
	outbox  *spool.Spool
	ledger  *ledger
	trouble string // of the store as a whole, found at the start

	mu    sync.Mutex
	held  map[[32]byte]*held // windows in the inbox
	made  map[[32]byte]bool  // results in the outbox, or made and not in the ledger
	inUse map[seriesKey]map[uint64][32]byte
}

// held is a window in the inbox.
type held struct {
	stream string // of the inbox
	number uint64
	key    seriesKey
	seq    uint64
	refs   int  // jobs that need it
	left   bool // the joiner has let it go
}

// checkStore refuses a directory in which the parts of a store must not be made.
func checkStore(dir string) error {
	return errors.Join(spool.CheckPlace(dir), spool.CheckDir(filepath.Join(dir, "inbox")), spool.CheckDir(filepath.Join(dir, "outbox")))
}

// openStore opens the three parts; dir must exist.
func openStore(c *config.Store, log *slog.Logger) (*store, error) {
	if err := spool.CheckPlace(c.Dir); err != nil {
		return nil, fmt.Errorf("%w: store: %w", ErrState, err)
	}
	s := &store{held: map[[32]byte]*held{}, made: map[[32]byte]bool{}, inUse: map[seriesKey]map[uint64][32]byte{}}
	var err error
	o := spool.Options{Dir: filepath.Join(c.Dir, "inbox"), Strict: true, Bytes: int64(c.Bytes), Default: spool.Limit{Full: spool.DropNewest}, Logger: log}
	if s.inbox, err = spool.Open(o); err != nil {
		return nil, fmt.Errorf("%w: store: %w", ErrState, err)
	}
	// What results may take is bounded for each program (see shares).
	o.Dir, o.Bytes, o.Default = filepath.Join(c.Dir, "outbox"), 0, spool.Limit{Full: spool.Block}
	if s.outbox, err = spool.Open(o); err != nil {
		s.inbox.Release()
		return nil, fmt.Errorf("%w: store: %w", ErrState, err)
	}
	if s.ledger, err = openLedger(filepath.Join(c.Dir, "ledger"), c.Remember); err != nil {
		s.inbox.Release()
		s.outbox.Release()
		return nil, err
	}
	for _, e := range s.outbox.Entries() {
		l, sealed, err := s.outbox.Read(e)
		if l == nil || errors.Is(err, spool.ErrDamaged) {
			continue // counted by the spool; its inputs make it again if they are still here
		}
		l.Return(0)
		if err == nil {
			var m *transport.Meta
			if m, err = transport.PeekMeta(sealed); err == nil {
				s.made[resultKey(m.Program, m.Inputs)] = true
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: outbox: %w", ErrState, err), s.close())
		}
	}
	return s, nil
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

// Errors of admission.
var (
	errKnown = errors.New("the object was taken before")
	errStore = errors.New("the store takes nothing")
	errShare = errors.New("results that are not delivered fill their share of it")
)

// course returns where a stream stood before a window of it is taken: its newest boot
// epoch and the highest number of it, worked off or in the inbox.
func (s *store) course(series [8]byte) (boot, high uint64, ok bool) {
	boot, high, ok = s.ledger.course(series)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, numbers := range s.inUse {
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

// known reports whether the evaluator answers for an object.
func (s *store) known(id [32]byte) bool {
	s.mu.Lock()
	_, ok := s.held[id]
	s.mu.Unlock()
	return ok || s.ledger.hasTaken(id)
}

// fresh refuses an object that was taken before (errKnown), or whose number was
// (transport.ErrReplayed).
func (s *store) fresh(obj *transport.Object) error {
	if s.known(obj.ID) {
		return errKnown
	}
	m := &obj.Meta
	k := seriesKey{seriesOf(obj.Signer, m.Device, m.Stream), m.BootEpoch}
	s.mu.Lock()
	_, busy := s.inUse[k][m.Sequence]
	s.mu.Unlock()
	if busy || s.ledger.used(k, m.Sequence) {
		return fmt.Errorf("%w: reading of %q, stream %q, boot epoch %d, sequence %d", transport.ErrReplayed, m.Device, m.Stream, m.BootEpoch, m.Sequence)
	}
	return nil
}

// keep writes a verified object into the inbox; from then on the evaluator
// answers for it.
func (s *store) keep(ctx context.Context, obj *transport.Object, topic string, sealed []byte) error {
	if err := s.ledger.reserve(seriesOf(obj.Signer, obj.Meta.Device, obj.Meta.Stream)); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	stream := inboxStream(&obj.Meta)
	number, err := s.inbox.Add(ctx, spool.Item{Stream: stream, Topic: topic, Sealed: sealed})
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	s.hold(obj, stream, number)
	return nil
}

// inboxStream is a name for the inbox's own bookkeeping.
func inboxStream(m *transport.Meta) string {
	sum := sha256.Sum256([]byte(m.Device + "/" + m.Stream))
	return fmt.Sprintf("%x", sum[:8])
}

func (s *store) hold(obj *transport.Object, stream string, number uint64) {
	m := &obj.Meta
	k := seriesKey{seriesOf(obj.Signer, m.Device, m.Stream), m.BootEpoch}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[obj.ID] = &held{stream: stream, number: number, key: k, seq: m.Sequence}
	if s.inUse[k] == nil {
		s.inUse[k] = map[uint64][32]byte{}
	}
	s.inUse[k][m.Sequence] = obj.ID
}

// need counts the jobs that need windows; left tells that the joiner has let
// one go.
func (s *store) need(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range j.inputs {
		if h := s.held[w.id]; h != nil {
			h.refs++
		}
	}
}

func (s *store) left(id [32]byte) error {
	s.mu.Lock()
	h := s.held[id]
	if h != nil {
		h.left = true
	}
	s.mu.Unlock()
	return s.release(id)
}

// settle tells that a job is over: its result is in the outbox, or it failed for
// good.
func (s *store) settle(j *job) (err error) {
	s.mu.Lock()
	for _, w := range j.inputs {
		if h := s.held[w.id]; h != nil {
			h.refs--
		}
	}
	s.mu.Unlock()
	for _, w := range j.inputs {
		err = errors.Join(err, s.release(w.id))
	}
	return err
}

// release takes a window out of the inbox when nothing needs it any more.
func (s *store) release(id [32]byte) error {
	s.mu.Lock()
	h := s.held[id]
	if h == nil || h.refs > 0 || !h.left {
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if err := s.ledger.add(record{kind: recTaken, id: id, series: h.key.series, boot: h.key.boot, number: h.seq}); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.held, id)
	delete(s.inUse[h.key], h.seq)
	if len(s.inUse[h.key]) == 0 {
		delete(s.inUse, h.key)
	}
	s.mu.Unlock()
	if l := s.inbox.Take(h.stream, h.number); l != nil {
		l.Done()
	}
	return nil
}

// wasMade reports whether the result of a job was made before.
func (s *store) wasMade(key [32]byte) bool {
	s.mu.Lock()
	made := s.made[key]
	s.mu.Unlock()
	return made || s.ledger.hasMade(key)
}

// failed remembers that nothing can be made of these inputs.
func (s *store) failed(key [32]byte) error { return s.ledger.add(record{kind: recMade, id: key}) }

// put writes a result into the outbox.
func (s *store) put(ctx context.Context, key [32]byte, it spool.Item) error {
	if err := s.outbox.Put(ctx, it); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	s.mu.Lock()
	s.made[key] = true
	s.mu.Unlock()
	return nil
}

// delivered is called before a result leaves the outbox: while one of its inputs
// may come up again after a restart, the ledger must know it.
func (s *store) delivered(l *spool.Lease) error {
	sealed, err := l.Sealed()
	if err != nil {
		return err
	}
	m, err := transport.PeekMeta(sealed)
	if err != nil {
		return err
	}
	key, again := resultKey(m.Program, m.Inputs), false
	s.mu.Lock()
	for _, id := range m.Inputs {
		again = again || s.held[id] != nil
	}
	s.mu.Unlock()
	if again {
		if err := s.ledger.add(record{kind: recMade, id: key}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	delete(s.made, key)
	s.mu.Unlock()
	return nil
}

// health says what keeps the store from taking windows and results.
func (s *store) health() (out []string) {
	if s.ledger.full() {
		out = append(out, fmt.Sprintf("store: the ledger remembers %d numbered streams, the most that it may; windows of further ones are not taken: give some of the devices an evaluator of their own, or begin with a new store.dir once all results are delivered", maxSeries))
	}
	if s.trouble != "" {
		out = append(out, "store: "+s.trouble)
	}
	for _, part := range []struct {
		spool *spool.Spool
		name  string
		what  string
	}{{s.inbox, "inbox", "windows wait for others of their programs"}, {s.outbox, "outbox", "results are not delivered"}} {
		if err := part.spool.Health(); err != nil {
			out = append(out, fmt.Sprintf("store: %s: %v", part.name, err))
		} else if st := part.spool.Stats(); !part.spool.Room(1) {
			out = append(out, fmt.Sprintf("store: the %s is full, %d bytes: %s", part.name, st.Bytes, part.what))
		}
	}
	return out
}

func (s *store) close() error {
	s.inbox.Close()
	s.outbox.Close()
	err := s.ledger.close()
	s.inbox.Release()
	s.outbox.Release()
	return err
}
