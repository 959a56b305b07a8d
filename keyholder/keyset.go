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

const signerFile = keyset.HolderFile

// Every role reads the public part of a key set, which package keyset defines.
type (
	Manifest = keyset.Manifest
	Epoch    = keyset.Epoch
)

// Set is an opened key set directory.
type Set struct {
	dir      string
	manifest *Manifest
	params   henc.Parameters
}

// Needs says which evaluation keys an epoch gets.
type Needs struct {
	// Rotations by slots that get a Galois key; nil means PowersOfTwo.
	Rotations   []int
	Conjugation bool
	// NoRelinearise leaves out the key for products of ciphertexts.
	NoRelinearise bool
}

// PowersOfTwo returns the rotations 1, 2, 4, ..., N/4. Every other rotation is a sequence
// of these.
func PowersOfTwo(p henc.Parameters) []int {
	var r []int
	for k := 1; k < p.Slots(); k *= 2 {
		r = append(r, k)
	}
	return r
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

// Create makes a key set with its first epoch in dir, which must not exist or
// be empty. It fails with ErrExists when dir holds a key set or anything else,
// and with ErrInsecure for insecure parameters.
func Create(dir string, o CreateOptions) (*Set, error) {
	if o.Params.N() == 0 {
		return nil, errors.New("create key set: no parameters")
	}
	if o.Params.Insecure() {
		return nil, fmt.Errorf("%w: %s: its keys are never written", ErrInsecure, o.Params.Name())
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

// populate makes the holder's key, the first epoch and the manifest. If it fails, it
// removes what it made.
func (s *Set) populate(o CreateOptions) (err error) {
	now, hash := clock(o.Now), o.Params.Hash()
	e, err := s.generate(1, o.Needs, now, generateOptions{o.Context, o.Progress})
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

// RotateOptions say how Rotate changes epochs.
type RotateOptions struct {
	// Needs of the new epoch; nil keeps those of the current one.
	Needs *Needs
	// Overlap is how long readings under the old epoch are still accepted; 0 means
	// for ever.
	Overlap  time.Duration
	Context  []henc.Option
	Now      func() time.Time
	Progress func(Progress) error // as in CreateOptions
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
	needs := Needs{Rotations: current.Rotations, Conjugation: current.Conjugation, NoRelinearise: !current.Relinearise}
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
	e, err := s.generate(number, needs, now, generateOptions{o.Context, o.Progress})
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

func (s *Set) save() error {
	b, err := s.manifest.Encode()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(s.dir, ManifestFile), b, publicMode)
}

// emptyDir fails with ErrExists unless dir holds nothing but its lock.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, ManifestFile)); err == nil {
		if _, err := os.Lstat(filepath.Join(dir, signerFile)); err != nil {
			return fmt.Errorf("%w: %s holds an export of a key set; use another directory", ErrExists, dir)
		}
		return fmt.Errorf("%w: %s holds a key set; use another directory, or give it fresh keys with: hencedge keys "+
			"rotate --dir %s", ErrExists, dir, dir)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			return fmt.Errorf("%w: %s is not empty (it holds %s)", ErrExists, dir, e.Name())
		}
	}
	return nil
}

func clock(now func() time.Time) time.Time {
	if now == nil {
		now = time.Now
	}
	return now().UTC().Truncate(time.Second)
}
