package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport/spool"
)

// Store is what lets an evaluator answer for the windows that it took. A window stays
// in the inbox, on disk, until each of its results is in the outbox, on disk. A result
// stays there until it is delivered. The ledger remembers both, so that nothing is lost
// or done twice wherever the process is killed:
//
//	window  verified -> inbox -> receipt -> ... all results made -> ledger -> out of the inbox
//	result  computed -> outbox -> delivered -> ledger (while an input is in the inbox) -> out of the outbox
type Store struct {
	Windows *Windows // in the inbox
	Results *Results // in the outbox

	ledger  *ledger
	mark    *Mark
	trouble string // of the store as a whole, found at the start
}

// Open opens the store in c.Dir, which must exist. It fails with ErrState, also if the
// store is not the one that belongs to the state.
func Open(c *config.Store, o Options) (*Store, error) {
	mark, trouble, err := nextMark(c.Dir, o.Name, o.State, o.Mark)
	if err != nil {
		return nil, err
	}
	s, err := open(c, o)
	if err != nil {
		return nil, err
	}
	if s.trouble = trouble; trouble != "" {
		o.Logger.Error("the store is not the newest one", "trouble", trouble)
	}
	// A disk that takes nothing leaves the marks as they are; the next start counts.
	if err := writeMark(c.Dir, o.Name, mark); err == nil {
		s.mark = &mark
	}
	return s, nil
}

// open opens inbox, outbox and ledger.
func open(c *config.Store, o Options) (*Store, error) {
	if err := spool.CheckPlace(c.Dir); err != nil {
		return nil, fmt.Errorf("%w: store: %w", ErrState, err)
	}
	in := spool.Options{Dir: filepath.Join(c.Dir, "inbox"), Strict: true, Reserve: true, Bytes: int64(c.Bytes),
		Default: spool.Limit{Full: spool.DropNewest}, Logger: o.Logger}
	inbox, err := spool.Open(in)
	if err != nil {
		return nil, fmt.Errorf("%w: store: %w", ErrState, err)
	}
	// The shares of the programs bound what results may take.
	out := in
	out.Dir, out.Bytes, out.Default = filepath.Join(c.Dir, "outbox"), 0, spool.Limit{Full: spool.Block}
	out.Reserve = false // results are what the inbox leaves room for
	outbox, err := spool.Open(out)
	if err != nil {
		inbox.Release()
		return nil, fmt.Errorf("%w: store: %w", ErrState, err)
	}
	l, err := openLedger(filepath.Join(c.Dir, "ledger"), c.Remember)
	if err != nil {
		inbox.Release()
		outbox.Release()
		return nil, err
	}
	s := &Store{ledger: l, Windows: newWindows(inbox, l, o.Logger)}
	s.Results = newResults(outbox, l, s.Windows, newShares(c, o.Topics), o)
	if err := s.Results.recover(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Mark returns the mark that the state has to keep, or nil if it has the right one.
func (s *Store) Mark() *Mark { return s.mark }

// Check refuses a directory in which the parts of a store must not be made.
func Check(dir string) error {
	return errors.Join(spool.CheckPlace(dir), spool.CheckDir(filepath.Join(dir, "inbox")),
		spool.CheckDir(filepath.Join(dir, "outbox")))
}

// Housekeeping logs troubles that begin or end, and tries again what could not be
// signed off.
func (s *Store) Housekeeping(now time.Time, d Delivery) error {
	s.Windows.tell(now)
	s.Results.tell(now, d)
	err := s.Windows.sweep()
	s.Windows.inbox.Tick()
	return err
}

// Health returns what keeps the store from taking windows and delivering results.
func (s *Store) Health(now time.Time, d Delivery) (out []string) {
	if s.ledger.full() {
		out = append(out, fmt.Sprintf("store: the ledger remembers %d numbered streams, the most that it may; windows "+
			"of further ones are not taken: give some of the devices an evaluator of their own, or begin with a new "+
			"store.dir once all results are delivered", maxSeries))
	}
	if s.trouble != "" {
		out = append(out, "store: "+s.trouble)
	}
	out = append(out, spoolHealth(s.Windows.inbox, "inbox", "windows wait for others of their programs")...)
	out = append(out, spoolHealth(s.Results.outbox, "outbox", "results are not delivered")...)
	return slices.Concat(out, s.Windows.health(now), s.Results.health(now, d))
}

func spoolHealth(sp *spool.Spool, name, full string) []string {
	if err := sp.Health(); err != nil {
		return []string{fmt.Sprintf("store: %s: %v", name, err)}
	}
	if err := sp.Cramped(); err != nil {
		return []string{fmt.Sprintf("store: the %s takes nothing: %v", name, err)}
	}
	if !sp.Room(1) {
		return []string{fmt.Sprintf("store: the %s is full, %d bytes: %s", name, sp.Stats().Bytes, full)}
	}
	return nil
}

// Stats returns what is in the store now.
func (s *Store) Stats() Stats {
	in, out := s.Windows.inbox.Stats(), s.Results.outbox.Stats()
	return Stats{int64(in.Objects), in.Bytes, int64(out.Objects), out.Bytes, in.Damaged + out.Damaged}
}

// Stats counts what is in the store.
type Stats struct {
	Windows, WindowBytes int64
	Results, ResultBytes int64
	Damaged              uint64 // files lost to damage since the start
}

// Close closes the store. What is in it stays for the next start.
func (s *Store) Close() error {
	s.Windows.inbox.Close()
	s.Results.outbox.Close()
	err := s.ledger.close()
	s.Windows.inbox.Release()
	s.Results.outbox.Release()
	return err
}
