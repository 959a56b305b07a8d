package keyholder

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyset"
)

// Set is an opened key set directory.
type Set struct {
	dir      string
	manifest *Manifest
	params   henc.Parameters
}

// Every role reads the public part of a key set, which package keyset defines.
type (
	Manifest = keyset.Manifest
	Epoch    = keyset.Epoch
)

// Open reads the key set in dir. It fails with ErrNoKeySet if there is none, with
// ErrPermissions if others can enter the directory, and with ErrCorrupt if the manifest is
// damaged or its parameters differ from those that this program has under the name.
func Open(dir string) (*Set, error) {
	dir = filepath.Clean(dir)
	b, err := readPublic(filepath.Join(dir, ManifestFile), keyset.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: make one with: hencedge keys new --dir %s --params NAME",
			ErrNoKeySet, dir, dir)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("open key set: %w; it is for its owner alone", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open key set: %w", err)
	}
	if err := Private(dir); err != nil {
		return nil, fmt.Errorf("open key set: %w", err)
	}
	m, err := keyset.ParseManifest(b)
	if err != nil {
		return nil, fmt.Errorf("open key set %s: %w", dir, err)
	}
	p, err := m.Parameters()
	if err != nil {
		return nil, fmt.Errorf("open key set %s: %w", dir, err)
	}
	return &Set{dir: dir, manifest: m, params: p}, nil
}

// Dir returns the directory of the set.
func (s *Set) Dir() string { return s.dir }

// Parameters returns the parameters of the set.
func (s *Set) Parameters() henc.Parameters { return s.params }

// Manifest returns a copy of the public part of the set.
func (s *Set) Manifest() Manifest {
	m := *s.manifest
	m.Epochs = slices.Clone(m.Epochs)
	return m
}

func (s *Set) save() error {
	b, err := s.manifest.Encode()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(s.dir, ManifestFile), b, publicMode)
}

func clock(now func() time.Time) time.Time {
	if now == nil {
		now = time.Now
	}
	return now().UTC().Truncate(time.Second)
}
