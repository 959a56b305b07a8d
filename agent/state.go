package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
)

// Errors of the state file.
var (
	// ErrState: the state file cannot be used.
	ErrState = errors.New("state file")
	// ErrStateLocked: another process uses the state file.
	ErrStateLocked = errors.New("state file is in use")
)

const (
	stateVersion = 1
	stateMax     = 1 << 20 // bytes
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

// state hands out boot epoch and sequence numbers. Whatever it hands out was on
// disk, as used, before: no number is used twice, whenever the power fails.
type state struct {
	path  string
	lock  *os.File
	write func(path string, data []byte) error // returns when data is on disk

	mu   sync.Mutex
	file stateFile
	next map[string]uint64
	// unsaved is why this start's boot epoch is not on disk; the numbers are new all
	// the same (see openState).
	unsaved error
}

// openState locks the state file, raises the boot epoch and writes it back (see
// nextBoot). A disk that takes nothing does not stop it: the clock alone makes the boot
// epoch new, or chance, if the clock is wrong.
func openState(path, device string, now time.Time) (*state, error) {
	return openStateWith(path, device, now, durable.WriteState)
}

func openStateWith(path, device string, now time.Time, write func(string, []byte) error) (*state, error) {
	lock, err := durable.LockFile(path + ".lock")
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%w: %s: another agent is running with it; stop that one, or give this one its own state", ErrStateLocked, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	durable.SweepTemporary(path)
	s := &state{path: path, lock: lock, write: write, next: map[string]uint64{}}
	f, err := readState(path, device)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.file = stateFile{Version: stateVersion, Device: device, BootEpoch: nextBoot(0, now), Reserved: map[string]uint64{}}
	case err != nil:
		lock.Close()
		return nil, err
	default:
		s.file = *f
		s.file.BootEpoch = nextBoot(f.BootEpoch, now)
	}
	for name, n := range s.file.Reserved {
		s.next[name] = n
	}
	if err := s.save(); err != nil {
		if !diskTrouble(err) {
			lock.Close()
			return nil, err
		}
		s.unsaved = err
		if !ofClock(s.file.BootEpoch, now) { // then chance must do, and renew where it does not
			s.file.BootEpoch += mathrand.Uint64N(renewSpread)
		}
	}
	return s, nil
}

// lead is how long a window has to wait at the time now until it may be numbered: until
// the second of a boot epoch of the clock's has begun. So every later start, whatever is
// left of the state by then, has a higher one (see nextBoot).
func (s *state) lead(now time.Time) time.Duration {
	boot := s.boot()
	if !ofClock(boot, now) {
		return 0
	}
	return max(time.Unix(int64(boot), 0).Sub(now), 0)
}

// ofClock reports whether a boot epoch comes from the clock: one that is further ahead
// was drawn, or the clock is behind that of an earlier start.
func ofClock(boot uint64, now time.Time) bool {
	const ahead = 5 // starts in one second
	return now.After(earliest) && boot <= uint64(now.Unix())+ahead
}

// earliest is before every time that a working clock can show.
var earliest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// diskTrouble reports whether a disk takes nothing for now: full, read-only, failing.
func diskTrouble(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EIO)
}

// health is why the state is not on disk, or nil.
func (s *state) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved
}

// nextBoot is the boot epoch after before: the Unix time of the next second, or the next
// number when that is not later. So a device whose state was lost, could not be written,
// or is an old copy, does not use numbers again that it has used, unless its clock is
// wrong too; then renew puts it right.
func nextBoot(before uint64, now time.Time) uint64 {
	if t := now.Unix(); t > 0 && t < 1<<40 {
		before = max(before, uint64(t))
	}
	return before + 1
}

// renew begins another boot epoch: the receiver knows numbers of this one that this
// process did not give it. The new one is drawn at random ahead of the clock, so that
// two boards with one identity come apart.
func (s *state) renew(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.file.BootEpoch
	s.file.BootEpoch = nextBoot(before, now) + mathrand.Uint64N(renewSpread)
	if err := s.save(); err != nil {
		s.file.BootEpoch = before
		return err
	}
	return nil
}

// renewSpread is from how many boot epochs renew draws, an hour's worth.
const renewSpread = 3600

// readState reads and checks a state file.
func readState(path, device string) (*stateFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	if info.Size() > stateMax {
		return nil, fmt.Errorf("%w: %s has %d bytes; it is not a state file", ErrState, path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	var f stateFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	const remedy = "restore it from a backup, or move it away: a new one continues with a higher boot epoch as long as the clock is right"
	if err := d.Decode(&f); err != nil || d.More() {
		return nil, fmt.Errorf("%w: %s is damaged; %s", ErrState, path, remedy)
	}
	switch {
	case f.Version != stateVersion:
		return nil, fmt.Errorf("%w: %s has version %d, want %d", ErrState, path, f.Version, stateVersion)
	case f.Device != device:
		return nil, fmt.Errorf("%w: %s belongs to the device %q, not to %q; give each device its own state", ErrState, path, f.Device, device)
	case f.BootEpoch == 0 || f.BootEpoch >= 1<<62:
		return nil, fmt.Errorf("%w: %s has the impossible boot epoch %d; %s", ErrState, path, f.BootEpoch, remedy)
	}
	for _, n := range f.Reserved {
		if n >= 1<<62 {
			return nil, fmt.Errorf("%w: %s has the impossible sequence number %d; %s", ErrState, path, n, remedy)
		}
	}
	if f.Reserved == nil {
		f.Reserved = map[string]uint64{}
	}
	return &f, nil
}

// save writes the state; mu is held or the state is not shared yet. Once the file is
// given back it belongs to the next start, and nothing is written any more.
func (s *state) save() error {
	if s.lock == nil {
		return fmt.Errorf("%w: closed", ErrState)
	}
	data, err := json.Marshal(s.file)
	if err == nil {
		err = s.write(s.path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	s.unsaved = nil
	return nil
}

// boot is the present boot epoch.
func (s *state) boot() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.BootEpoch
}

// take gives the next sequence number of a stream; "" is the status.
func (s *state) take(stream string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return 0, fmt.Errorf("%w: closed", ErrState)
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

// close writes the exact numbers and lets go of the file.
func (s *state) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	for name, n := range s.next {
		s.file.Reserved[name] = n
	}
	told := s.unsaved
	err := s.save()
	if told != nil && diskTrouble(err) {
		err = nil
	}
	err = errors.Join(err, s.lock.Close())
	s.lock = nil
	return err
}
