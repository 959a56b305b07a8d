package alert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
)

// Suffixes of the files beside the key holder's state.
const (
	StateSuffix   = ".alerts"
	SilenceSuffix = ".alerts.silences"
	lockSuffix    = ".lock"
)

// Bounds of the file of silences.
const (
	maxSilences     = 1024
	maxSilencesFile = 1 << 20
)

// A Silence is one that a command has set.
type Silence struct {
	Rule    string    `json:"rule,omitempty"`   // empty: all
	Device  string    `json:"device,omitempty"` // empty: all
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Comment string    `json:"comment,omitempty"`
}

// Covers reports whether the silence is about an alarm at a time.
func (s *Silence) Covers(name, device string, now time.Time) bool {
	return !now.Before(s.From) && now.Before(s.To) && (s.Rule == "" || s.Rule == name) &&
		(s.Device == "" || s.Device == device)
}

// readSilences reads the silences of commands. No file means none.
func readSilences(path string) ([]Silence, error) {
	b, err := durable.ReadFile(path, maxSilencesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Silence
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		err = d.Decode(&out)
	}
	if err != nil {
		return nil, fmt.Errorf("silences: %s: %w; correct or remove it", path, err)
	}
	return out, nil
}

// EditSilences changes the silences that lie beside the key holder's state. A running
// process follows within a second. Silences that have ended are dropped. It fails if the
// state belongs to another user, whose process could not read the file.
func EditSilences(keyHolderState string, now time.Time, edit func([]Silence) []Silence) error {
	path := keyHolderState + SilenceSuffix
	if err := sameOwner(keyHolderState); err != nil {
		return err
	}
	lock, err := waitLock(path + lockSuffix)
	if err != nil {
		return fmt.Errorf("silences: %w", err)
	}
	defer lock.Close()
	list, err := readSilences(path)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(edit(list), func(s Silence) bool { return !s.To.After(now) })
	if len(list) > maxSilences {
		return fmt.Errorf("silences: there would be %d, want at most %d", len(list), maxSilences)
	}
	b, err := json.MarshalIndent(list, "", " ")
	if err == nil {
		err = durable.WriteFile(path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("silences: %w", err)
	}
	return nil
}

// sameOwner fails if the alarms' state belongs to another user.
func sameOwner(keyHolderState string) error {
	info, err := os.Stat(keyHolderState + StateSuffix)
	if err != nil {
		if info, err = os.Stat(filepath.Dir(keyHolderState)); err != nil {
			return fmt.Errorf("silences: %w", err)
		}
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("silences: %s belongs to user %d; run this as that user, who reads results",
			keyHolderState+StateSuffix, s.Uid)
	}
	return nil
}

// waitLock takes the lock of a file that others hold for a moment only.
func waitLock(path string) (*os.File, error) {
	for try := 0; ; try++ {
		f, err := durable.LockFile(path)
		if !errors.Is(err, durable.ErrLocked) || try == 100 {
			return f, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// silences are those of the configuration and of commands.
type silences struct {
	fixed []config.Silence
	path  string
	info  os.FileInfo // of the file as it was read; nil: there was none
	list  []Silence
}

// refresh reads the file again if it was replaced. After an error the old silences stay.
func (s *silences) refresh() error {
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.info, s.list = nil, nil
		return nil
	case err != nil:
		return fmt.Errorf("silences: %w", err)
	case s.info != nil && os.SameFile(info, s.info) && info.ModTime().Equal(s.info.ModTime()) &&
		info.Size() == s.info.Size():
		return nil
	}
	list, err := readSilences(s.path)
	if err == nil {
		s.info, s.list = info, list
	}
	return err
}

// until returns when the silence about an alarm ends; the zero time means that there is none.
func (s *silences) until(name, device string, now time.Time) (end time.Time) {
	for _, f := range s.fixed {
		if f.Covers(name, device, now) {
			to, _ := time.Parse(time.RFC3339, f.To)
			end = latest(end, to)
		}
	}
	for i := range s.list {
		if s.list[i].Covers(name, device, now) {
			end = latest(end, s.list[i].To)
		}
	}
	return end
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
