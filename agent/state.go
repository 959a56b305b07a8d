package agent

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

// Errors of the state file.
var (
	// ErrState: the state file cannot be used.
	ErrState = errors.New("state file")
	// ErrStateLocked: another process uses the state file.
	ErrStateLocked = durable.ErrLocked
)

const (
	stateMax = 1 << 20 // bytes
	// sequenceBlock is how many windows of a stream pass per write of the state.
	// Numbers are reserved half a block before they run out, so that a disk that
	// is full for a while stops nothing; a crash skips at most one and a half.
	sequenceBlock = 256
)

// stateFile is the JSON form of the state.
type stateFile struct {
	Version   int               `json:"version"`
	Device    string            `json:"device"`
	BootEpoch uint64            `json:"boot_epoch"`
	Reserved  map[string]uint64 `json:"reserved"` // by stream: numbers below may have been used
}

// Header returns what the state file begins with.
func (f *stateFile) Header() role.Header {
	return role.Header{Version: f.Version, Kind: "device", Name: f.Device, Boot: f.BootEpoch}
}

// state hands out the boot epoch and sequence numbers. Each is marked as used on disk
// first, so that no number is used twice, even after a power cut.
type state struct {
	disk *role.State

	mu   sync.Mutex
	file stateFile
	next map[string]uint64
	// unsaved is why this start's boot epoch is not on disk; the numbers are new all
	// the same (see openState).
	unsaved error
}

// openState locks the state file, raises the boot epoch and writes it back (see
// nextBoot). It also succeeds if the disk takes nothing: the boot epoch is new because
// of the clock, or by chance if the clock is wrong.
func openState(path, device string, now time.Time) (*state, error) {
	return openStateWith(path, device, now, durable.WriteState)
}

func openStateWith(path, device string, now time.Time, write func(string, []byte) error) (*state, error) {
	disk, err := role.LockState("agent", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	disk.Write = write
	s := &state{disk: disk, next: map[string]uint64{}}
	f, err := readState(path, device)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = &stateFile{Version: role.StateVersion, Device: device, Reserved: map[string]uint64{}}
	case err != nil:
		return nil, errors.Join(err, disk.Close())
	}
	before := f.BootEpoch
	s.file = *f
	s.file.BootEpoch = nextBoot(before, now)
	for name, n := range s.file.Reserved {
		s.next[name] = n
	}
	if err := s.save(); err != nil {
		if !durable.Unwritable(err) {
			return nil, errors.Join(err, disk.Close())
		}
		s.unsaved = err
		if !role.FromClock(s.file.BootEpoch, now) { // then chance must do, and renew where it does not
			s.file.BootEpoch = role.DrawBoot(before, now.Add(time.Second))
		}
	}
	return s, nil
}

// nextBoot returns the boot epoch after before. It is that of the next second, because
// this second's may belong to a start whose state was lost.
func nextBoot(before uint64, now time.Time) uint64 {
	return role.NextBoot(before, now.Add(time.Second))
}

// lead returns how long a window must wait at the time now before it may be numbered.
func (s *state) lead(now time.Time) time.Duration { return role.UntilBoot(s.boot(), now) }

// health returns why the state is not on disk, or nil.
func (s *state) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved
}

// renew begins another boot epoch, because the receiver knows numbers of this one that
// this process did not use. The new one is random and ahead of the clock, so that two
// boards with one identity part.
func (s *state) renew(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.file.BootEpoch
	s.file.BootEpoch = role.DrawBoot(before, now.Add(time.Second))
	if err := s.save(); err != nil {
		s.file.BootEpoch = before
		return err
	}
	return nil
}

// readState reads and checks a state file.
func readState(path, device string) (*stateFile, error) {
	const remedy = "restore it from a backup, or move it away: a new one continues with a higher boot epoch as long " +
		"as the clock is right"
	var f stateFile
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

// save writes the state. The caller holds mu. After close the file belongs to the next
// start, and save fails.
func (s *state) save() error {
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

// boot returns the current boot epoch.
func (s *state) boot() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.BootEpoch
}

// take returns the next sequence number of a stream, or of the status for "".
func (s *state) take(stream string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk.Closed() {
		return 0, fmt.Errorf("%w: %w", ErrState, role.ErrClosed)
	}
	n := s.next[stream]
	if before := s.file.Reserved[stream]; n+sequenceBlock/2 >= before {
		s.file.Reserved[stream] = n + sequenceBlock*3/2
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

// close writes the exact numbers and unlocks the file.
func (s *state) close() error {
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
