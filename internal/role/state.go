package role

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/hencedge/hencedge/internal/durable"
)

// StateVersion is the version of every role's state file.
const StateVersion = 1

// State is the JSON file in which a role keeps what outlives a process. It is locked
// from LockState to Close.
type State struct {
	// Write replaces the file and returns when it is on disk.
	Write func(path string, data []byte) error

	path string
	lock *os.File // nil after Close
}

// LockState locks the state file of a role, such as "agent". It fails with
// durable.ErrLocked if another process uses it. The file need not exist.
func LockState(role, path string) (*State, error) {
	lock, err := durable.LockFile(path + ".lock")
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%s is in use by another %s; stop that one, or give this one its own state: %w",
			path, role, err)
	}
	if err != nil {
		return nil, err
	}
	durable.SweepTemporary(path)
	return &State{Write: durable.WriteState, path: path, lock: lock}, nil
}

// Save replaces the file. After Close it belongs to the next process, and Save fails
// with ErrClosed.
func (s *State) Save(data []byte) error {
	if s.Closed() {
		return ErrClosed
	}
	if err := s.Write(s.path, data); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return nil
}

// ErrClosed: the state file belongs to the next process.
var ErrClosed = errors.New("closed")

// Closed reports whether Close was called.
func (s *State) Closed() bool { return s.lock == nil }

// Close unlocks the file. Later calls do nothing.
func (s *State) Close() error {
	if s.Closed() {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}

// ReadState reads the state file of reader at path, at most limit bytes, into content. A
// file with unknown fields, or with impossible numbers, is damaged; remedy says what to
// do then. It fails with fs.ErrNotExist if there is no file.
func ReadState(path, reader, remedy string, limit int64, content Content) error {
	data, err := durable.ReadFile(path, limit)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(content); err != nil || d.More() {
		return fmt.Errorf("%s is damaged; %s", path, remedy)
	}
	h := content.Header()
	switch {
	case h.Version != StateVersion:
		return fmt.Errorf("%s has version %d, this program reads %d", path, h.Version, StateVersion)
	case h.Name != reader:
		return fmt.Errorf("%s belongs to the %s %q, not to %q; give each %s its own state",
			path, h.Kind, h.Name, reader, h.Kind)
	case h.Boot == 0 || h.Boot > MaxNumber:
		return fmt.Errorf("%s has the impossible boot epoch %d; %s", path, h.Boot, remedy)
	}
	return nil
}

// Content is what a state file holds, as JSON.
type Content interface {
	Header() Header
}

// Header is what every state file begins with.
type Header struct {
	Version int
	Kind    string // of the owner: "device" or "evaluator"
	Name    string // of the owner
	Boot    uint64 // epoch
}
