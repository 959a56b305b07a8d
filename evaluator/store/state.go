package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

const maxState = 128 << 20 // bytes

// State holds what outlives a process: the boot epoch, which grows with every
// start so that result numbers never repeat, and the replay guard.
type State struct {
	disk  *role.State // nil: nothing is kept
	guard *transport.ReplayGuard

	mu   sync.Mutex
	file stateFile
	next map[string]uint64
	last []byte // replay state as written

	closed bool
}

// stateFile is the JSON form of the state.
type stateFile struct {
	Version   int    `json:"version"`
	Name      string `json:"name"`
	BootEpoch uint64 `json:"boot_epoch"`
	Replay    []byte `json:"replay"`
	Store     *Mark  `json:"store,omitempty"`
}

// Header returns what the state file begins with.
func (f *stateFile) Header() role.Header {
	return role.Header{Version: f.Version, Kind: "evaluator", Name: f.Name, Boot: f.BootEpoch}
}

// OpenState locks and reads the state, raises the boot epoch and writes it back
// before it is used. With no path nothing is kept.
func OpenState(path, name string, now time.Time) (*State, error) {
	s := &State{guard: transport.NewReplayGuard(0), next: map[string]uint64{}}
	s.file = stateFile{Version: role.StateVersion, Name: name, BootEpoch: role.NextBoot(0, now)}
	if path == "" {
		return s, nil
	}
	var err error
	if s.disk, err = role.LockState("evaluator", path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	if err = s.load(path, name, now); err == nil {
		err = s.Save()
	}
	if err != nil {
		return nil, errors.Join(err, s.disk.Close())
	}
	return s, nil
}

// load takes over the state of an earlier process, if there is one, and raises the boot
// epoch.
func (s *State) load(path, name string, now time.Time) error {
	const remedy = "move it away to start afresh, after which old messages could be replayed once"
	var f stateFile
	err := role.ReadState(path, name, remedy, maxState, &f)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(f.Replay) > 0 {
		if err = s.guard.UnmarshalBinary(f.Replay); err != nil {
			err = fmt.Errorf("%s is damaged; %s: %w", path, remedy, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	f.BootEpoch = role.NextBoot(f.BootEpoch, now)
	s.file = f
	return nil
}

// Guard returns the replay guard.
func (s *State) Guard() *transport.ReplayGuard { return s.guard }

// Save writes the state if it changed.
func (s *State) Save() error {
	if s.disk == nil {
		return nil
	}
	replay, err := s.guard.MarshalBinary()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && string(s.last) == string(replay) {
		return nil
	}
	s.file.Replay = replay
	raw, err := json.Marshal(&s.file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if err := s.disk.Save(raw); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	s.last = replay
	return nil
}

// Sequence returns the boot epoch and the next number of a series, from 1.
func (s *State) Sequence(series string) (boot, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[series]++
	return s.file.BootEpoch, s.next[series]
}

// Lead returns how long nothing may be numbered from the time now on, less than a second as a
// rule; 0 for a state that is not on disk.
func (s *State) Lead(now time.Time) time.Duration {
	if s.disk == nil {
		return 0
	}
	return role.UntilBoot(s.Boot(), now)
}

// Boot returns the boot epoch.
func (s *State) Boot() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.BootEpoch
}

// Close saves a last time and gives the lock back. Later calls do nothing.
func (s *State) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	err := s.Save()
	if s.disk == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.disk.Close())
}

// Mark returns what the state has of its store; nil means that it has had none.
func (s *State) Mark() *Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Store
}

// KeepMark writes the mark of a store into the state.
func (s *State) KeepMark(mark *Mark) error {
	s.mu.Lock()
	s.file.Store, s.last = mark, nil
	s.mu.Unlock()
	return s.Save()
}
