package evaluator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/transport"
)

const (
	stateVersion = 1
	maxState     = 128 << 20
)

// stateFile is the JSON form of the state.
type stateFile struct {
	Version   int         `json:"version"`
	Name      string      `json:"name"`
	BootEpoch uint64      `json:"boot_epoch"`
	Replay    []byte      `json:"replay"`
	Store     *store.Mark `json:"store,omitempty"`
}

// state holds what outlives a process: the boot epoch, which grows with every
// start so that result numbers never repeat, and the replay guard.
type state struct {
	path  string // empty: nothing is kept
	lock  *os.File
	guard *transport.ReplayGuard

	mu   sync.Mutex
	file stateFile
	next map[string]uint64
	last []byte // replay state as written

	closed bool
}

// openState locks and reads the state, raises the boot epoch and writes it back
// before it is used. The boot epoch is the Unix time in seconds, or the next number
// when that is not later.
func openState(path, name string, now time.Time) (*state, error) {
	s := &state{path: path, guard: transport.NewReplayGuard(0), next: map[string]uint64{}}
	s.file = stateFile{Version: stateVersion, Name: name, BootEpoch: uint64(max(now.Unix(), 1))}
	if path == "" {
		return s, nil
	}
	lock, err := durable.LockFile(path + ".lock")
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%w: %s is in use by another evaluator; stop that one, or give this one its own state: %w", store.ErrState, path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrState, err)
	}
	s.lock = lock
	durable.SweepTemporary(path)
	if err := s.load(name); err != nil {
		lock.Close()
		return nil, err
	}
	if err := s.save(); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

func (s *state) load(name string) error {
	raw, err := durable.ReadFile(s.path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrState, err)
	}
	if err := s.parse(raw, name); err != nil {
		return fmt.Errorf("%w: %s %w", store.ErrState, s.path, err)
	}
	return nil
}

// parse takes over the state of an earlier process and counts the boot epoch up.
func (s *state) parse(raw []byte, name string) error {
	var f stateFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("is damaged; move it away to start afresh, after which old messages could be replayed once: %w", err)
	}
	if f.Version != stateVersion {
		return fmt.Errorf("has version %d, this program reads %d", f.Version, stateVersion)
	}
	if f.Name != name {
		return fmt.Errorf("belongs to evaluator %q, this is %q", f.Name, name)
	}
	if f.BootEpoch == math.MaxUint64 {
		return errors.New("has no boot epochs left")
	}
	if len(f.Replay) > 0 {
		if err := s.guard.UnmarshalBinary(f.Replay); err != nil {
			return fmt.Errorf("is damaged: %w", err)
		}
	}
	// The clock, which openState put there, keeps a state that is an old copy from
	// numbering results as before.
	f.BootEpoch = max(f.BootEpoch+1, s.file.BootEpoch)
	s.file = f
	return nil
}

// save writes the state if it changed.
func (s *state) save() error {
	if s.path == "" {
		return nil
	}
	replay, err := s.guard.MarshalBinary()
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrState, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && string(s.last) == string(replay) {
		return nil
	}
	s.file.Replay = replay
	raw, err := json.Marshal(&s.file)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrState, err)
	}
	if err := durable.WriteState(s.path, raw); err != nil {
		return fmt.Errorf("%w: write %s: %w", store.ErrState, s.path, err)
	}
	s.last = replay
	return nil
}

// sequence is the next number of a series, from 1.
func (s *state) sequence(series string) (boot, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[series]++
	return s.file.BootEpoch, s.next[series]
}

func (s *state) boot() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.BootEpoch
}

// close saves a last time and gives the lock back. Later calls do nothing.
func (s *state) close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	err := s.save()
	if s.lock != nil {
		s.lock.Close()
	}
	return err
}

// mark returns what the state has of its store; nil means that it has had none.
func (s *state) mark() *store.Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Store
}

// keepMark writes the mark of a store into the state.
func (s *state) keepMark(mark *store.Mark) error {
	s.mu.Lock()
	s.file.Store, s.last = mark, nil
	s.mu.Unlock()
	return s.save()
}
