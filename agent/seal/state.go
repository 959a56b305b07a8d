package seal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/role"
)

// ErrState: the state file cannot be used. The error wraps durable.ErrLocked too if
// another process uses the file.
var ErrState = errors.New("state file")

const (
	stateMax = 1 << 20 // bytes
	// SequenceBlock is how many windows of a stream pass per write of the state.
	// Numbers are reserved half a block before they run out, so that a disk that
	// is full for a while stops nothing; a crash skips at most one and a half.
	SequenceBlock = 256
)

// State hands out the boot epoch and sequence numbers. Each is marked as used on disk
// first, so that no number is used twice, even after a power cut.
type State struct {
	disk *role.State

	mu   sync.Mutex
	file StateFile
	next map[string]uint64
	// unsaved is why this start's boot epoch is not on disk; the numbers are new all
	// the same (see openState).
	unsaved error
}

// StateFile is the JSON form of the state.
type StateFile struct {
	Version   int               `json:"version"`
	Device    string            `json:"device"`
	BootEpoch uint64            `json:"boot_epoch"`
	Reserved  map[string]uint64 `json:"reserved"` // by stream: numbers below may have been used
}

// Header returns what the state file begins with.
func (f *StateFile) Header() role.Header {
	return role.Header{Version: f.Version, Kind: "device", Name: f.Device, Boot: f.BootEpoch}
}

// OpenState locks the state file, raises the boot epoch and writes it back (see
// nextBoot). It also succeeds if the disk takes nothing: the boot epoch is new because
// of the clock, or by chance if the clock is wrong.
func OpenState(path, device string, now time.Time) (*State, error) {
	return openStateWith(path, device, now, durable.WriteState)
}

func openStateWith(path, device string, now time.Time, write func(string, []byte) error) (*State, error) {
	disk, err := role.LockState("agent", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	disk.Write = write
	s := &State{disk: disk, next: map[string]uint64{}}
	f, err := ReadState(path, device)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = &StateFile{Version: role.StateVersion, Device: device, Reserved: map[string]uint64{}}
	case err != nil:
		return nil, errors.Join(err, disk.Close())
	}
	before := f.BootEpoch
	s.file = *f
	s.file.BootEpoch = role.NextBoot(before, now)
	for name, n := range s.file.Reserved {
		s.next[name] = n
	}
	if err := s.save(); err != nil {
		if !durable.Unwritable(err) {
			return nil, errors.Join(err, disk.Close())
		}
		s.unsaved = err
		if !role.FromClock(s.file.BootEpoch, now) { // then chance must do, and renew where it does not
			s.file.BootEpoch = role.DrawBoot(before, now)
		}
	}
	return s, nil
}

// Lead returns how long a window must wait at the time now before it may be numbered.
func (s *State) Lead(now time.Time) time.Duration { return role.UntilBoot(s.Boot(), now) }

// Health returns why the state is not on disk, or nil.
func (s *State) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved
}

// Renew begins another boot epoch, because the receiver knows numbers of this one that
// this process did not use. The new one is random and ahead of the clock, so that two
// boards with one identity part.
func (s *State) Renew(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.file.BootEpoch
	s.file.BootEpoch = role.DrawBoot(before, now)
	if err := s.save(); err != nil {
		s.file.BootEpoch = before
		return err
	}
	return nil
}

// ReadState reads and checks a state file.
func ReadState(path, device string) (*StateFile, error) {
	const remedy = "restore it from a backup, or move it away: a new one continues with a higher boot epoch as long " +
		"as the clock is right"
	var f StateFile
	if err := role.ReadState(path, device, remedy, stateMax, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	for _, n := range f.Reserved {
		if n > role.MaxNumber {
			return nil, fmt.Errorf("%w: %s has the impossible sequence number %d; %s", ErrState, path, n, remedy)
		}
	}
	if f.Reserved == nil {
		f.Reserved = map[string]uint64{}
	}
	return &f, nil
}

// save writes the state. The caller holds mu. After Close the file belongs to the next
// start, and save fails.
func (s *State) save() error {
	data, err := json.Marshal(s.file)
	if err == nil {
		err = s.disk.Save(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	s.unsaved = nil
	return nil
}

// Boot returns the current boot epoch.
func (s *State) Boot() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.BootEpoch
}

// Take returns the next sequence number of a stream, or of the status for "".
func (s *State) Take(stream string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk.Closed() {
		return 0, fmt.Errorf("%w: %w", ErrState, role.ErrClosed)
	}
	n := s.next[stream]
	if before := s.file.Reserved[stream]; n+SequenceBlock/2 >= before {
		s.file.Reserved[stream] = n + SequenceBlock*3/2
		if err := s.save(); err != nil {
			if s.unsaved == nil {
				s.file.Reserved[stream] = before
			}
			if n >= before && s.unsaved == nil {
				return 0, err
			}
		}
	}
	s.next[stream] = n + 1
	return n, nil
}

// Close writes the exact numbers and unlocks the file.
func (s *State) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk.Closed() {
		return nil
	}
	for name, n := range s.next {
		s.file.Reserved[name] = n
	}
	told := s.unsaved
	err := s.save()
	if told != nil && durable.Unwritable(err) {
		err = nil
	}
	return errors.Join(err, s.disk.Close())
}
