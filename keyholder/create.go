package keyholder

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// Create makes a key set with its first epoch in dir, which must not exist or
// be empty. It fails with ErrExists when dir holds a key set or anything else,
// and with ErrInsecure for insecure parameters.
func Create(dir string, o CreateOptions) (*Set, error) {
	if o.Params.N() == 0 {
		return nil, errors.New("create key set: no parameters")
	}
	if err := o.Params.CheckKeys(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInsecure, err)
	}
	dir = filepath.Clean(dir)
	if err := makeDir(dir, dirMode); err != nil {
		return nil, fmt.Errorf("create key set: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, fmt.Errorf("create key set: %w", err)
	}
	defer unlock()
	if err := sweep(dir); err != nil {
		return nil, fmt.Errorf("create key set: %w", err)
	}
	if err := emptyDir(dir); err != nil {
		return nil, fmt.Errorf("create key set: %w", err)
	}
	s := &Set{dir: dir, params: o.Params}
	if err := s.populate(o); err != nil {
		return nil, fmt.Errorf("create key set: %w", err)
	}
	return s, nil
}

// CreateOptions say what Create makes.
type CreateOptions struct {
	Params  henc.Parameters
	Needs   Needs
	Context []henc.Option    // backend of the key generation
	Now     func() time.Time // nil means time.Now
	// Progress is called before the first key and after each. If it returns an error,
	// Create fails and leaves nothing.
	Progress func(Progress) error
}

// populate makes the holder's key, the first epoch and the manifest. If it fails, it
// removes what it made.
func (s *Set) populate(o CreateOptions) (err error) {
	now, hash := clock(o.Now), o.Params.Hash()
	e, err := s.generate(1, o.Needs, now, generateOptions{context: o.Context, progress: o.Progress})
	if err != nil {
		return err
	}
	signerPath := filepath.Join(s.dir, signerFile)
	defer func() {
		if err != nil {
			os.Remove(signerPath)
			os.RemoveAll(filepath.Join(s.dir, e.Dir()))
		}
	}()
	signer, err := transport.NewSigningKey()
	if err != nil {
		return err
	}
	defer signer.Wipe()
	if err := signer.Save(signerPath); err != nil {
		return err
	}
	s.manifest = &Manifest{
		Version: keyset.Version, Params: o.Params.Name(), ParamsHash: hex.EncodeToString(hash[:]),
		Signer: signer.PublicText(), Created: now, Epochs: []Epoch{e},
	}
	return s.save()
}

// Rotate adds an epoch with fresh keys and makes it the current one. Keys of
// earlier epochs stay where they are.
func (s *Set) Rotate(o RotateOptions) (Epoch, error) {
	unlock, err := lock(s.dir)
	if err != nil {
		return Epoch{}, fmt.Errorf("rotate keys: %w", err)
	}
	defer unlock()
	// Another process may have rotated since this one read the manifest.
	fresh, err := Open(s.dir)
	if err != nil {
		return Epoch{}, fmt.Errorf("rotate keys: %w", err)
	}
	*s = *fresh
	if err := sweep(s.dir); err != nil {
		return Epoch{}, fmt.Errorf("rotate keys: %w", err)
	}
	current := s.manifest.Current()
	needs := Needs{Rotations: current.Rotations, Conjugation: current.Conjugation,
		NoRelinearise: !current.Relinearise, Bootstrap: current.Bootstrap}
	if needs.Rotations == nil {
		needs.Rotations = []int{}
	}
	if o.Needs != nil {
		needs = *o.Needs
	}
	number, err := s.nextEpoch()
	if err != nil {
		return Epoch{}, fmt.Errorf("rotate keys: %w", err)
	}
	now := clock(o.Now)
	devices, err := remaining(current, o.Drop)
	if err != nil {
		return Epoch{}, fmt.Errorf("rotate keys: %w", err)
	}
	e, err := s.generate(number, needs, now, generateOptions{o.Context, o.Progress, devices})
	if err != nil {
		return Epoch{}, fmt.Errorf("rotate keys: %w", err)
	}
	if o.Overlap > 0 {
		s.manifest.Epochs[len(s.manifest.Epochs)-1].AcceptUntil = now.Add(o.Overlap)
	}
	s.manifest.Epochs = append(s.manifest.Epochs, e)
	if err := s.save(); err != nil {
		return Epoch{}, fmt.Errorf("rotate keys: %w", err)
	}
	return e, nil
}

// RotateOptions say how Rotate changes epochs.
type RotateOptions struct {
	// Needs of the new epoch; nil keeps those of the current one.
	Needs *Needs
	// Drop are devices that get no keys of compact windows in the new epoch. All others of the current one do.
	Drop []string
	// Overlap is how long readings under the old epoch are still accepted; 0 means
	// for ever.
	Overlap  time.Duration
	Context  []henc.Option
	Now      func() time.Time
	Progress func(Progress) error // as in CreateOptions
}

// remaining returns the devices with keys of compact windows in an epoch, but for those to drop.
func remaining(e Epoch, drop []string) ([]string, error) {
	devices := e.CompactDevices()
	for _, name := range drop {
		i := slices.Index(devices, name)
		if i < 0 {
			return nil, fmt.Errorf("device %s in epoch %d: %w", name, e.Epoch, keyset.ErrNoCompact)
		}
		devices = slices.Delete(devices, i, i+1)
	}
	return devices, nil
}

// nextEpoch returns a number above every epoch of the manifest and every directory that an
// interrupted rotation left.
func (s *Set) nextEpoch() (uint32, error) {
	next := s.manifest.Current().Epoch + 1
	for ; next <= keyset.MaxEpochs; next++ {
		_, err := os.Lstat(filepath.Join(s.dir, Epoch{Epoch: next}.Dir()))
		if errors.Is(err, fs.ErrNotExist) {
			return next, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("the key set has %d epochs, the most that are allowed; make a new one", keyset.MaxEpochs)
}
