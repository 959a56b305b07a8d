package keyholder

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// DeviceOptions say how AddDevice makes keys.
type DeviceOptions struct {
	Context []henc.Option // backend of the key generation
}

// AddDevice gives a device keys of compact windows in the current epoch: the evaluator's files, and a place in the
// manifest. The board's own secret follows from the epoch's root, so it is the same whenever Export makes it, and is
// not kept. It does not look whether the epoch has keys of bootstrapping, without which evaluators cannot use those of
// compact windows. It fails with ErrExists if the device has keys, with transport.ErrMalformed for its name, and with
// henc.ErrParams for parameters that are not for bootstrapping.
func (s *Set) AddDevice(name string, o DeviceOptions) (Epoch, error) {
	e, err := s.addDevice(name, o)
	if err != nil {
		return Epoch{}, fmt.Errorf("keys of device %q: %w", name, err)
	}
	return e, nil
}

func (s *Set) addDevice(name string, o DeviceOptions) (Epoch, error) {
	if err := transport.CheckName(name); err != nil {
		return Epoch{}, err
	}
	unlock, err := lock(s.dir)
	if err != nil {
		return Epoch{}, err
	}
	defer unlock()
	fresh, err := Open(s.dir) // another process may have changed it
	if err != nil {
		return Epoch{}, err
	}
	*s = *fresh
	e := s.manifest.Current()
	if _, ok := e.Compact.Device(name); ok {
		return Epoch{}, fmt.Errorf("%w in epoch %d: write its key again with: hencedge keys export --dir %s --role "+
			"agent --device %s --out DIR", ErrExists, e.Epoch, s.dir, name)
	}
	maker, err := s.compactMaker(e, o.Context)
	if err != nil {
		return Epoch{}, err
	}
	defer maker.close()
	if err := maker.write(filepath.Join(s.dir, e.Dir()), &e, []string{name}, nil); err != nil {
		return Epoch{}, err
	}
	epochs := slices.Clone(s.manifest.Epochs)
	epochs[len(epochs)-1] = e
	s.manifest.Epochs = epochs
	if err := s.save(); err != nil {
		return Epoch{}, err
	}
	return e, nil
}

// compactMaker makes the keys of compact windows of one epoch.
type compactMaker struct {
	board  *henc.Context // of the boards' ring
	small  *henc.Context // of the same ring on the server
	key    *secret.Key   // of the epoch
	owned  bool          // key is wiped by close
	common *secret.Key
}

// compactMaker opens the secret key of an epoch.
func (s *Set) compactMaker(e Epoch, o []henc.Option) (*compactMaker, error) {
	ctx, err := henc.NewContext(s.params, o...)
	if err != nil {
		return nil, err
	}
	key, err := s.loadSecret(ctx, e)
	if err != nil {
		return nil, err
	}
	m, err := newCompactMaker(key, o)
	if err != nil {
		return nil, errors.Join(err, key.Wipe())
	}
	m.owned = true
	return m, nil
}

// newCompactMaker makes the keys of compact windows of an epoch with this secret key.
func newCompactMaker(key *secret.Key, o []henc.Option) (m *compactMaker, err error) {
	p := key.Context().Parameters()
	if p.UpperLevels() == 0 {
		return nil, fmt.Errorf("%w: compact windows need bootstrapping, and %s has no levels for it; use %s",
			henc.ErrParams, p.Name(), strings.Join(henc.BootstrapNames(), " or "))
	}
	set, err := compact.Named(compact.SetFor(p))
	if err != nil {
		return nil, err
	}
	small, err := compact.Switching(set, p)
	if err != nil {
		return nil, err
	}
	m = &compactMaker{key: key}
	if m.board, err = henc.NewContext(set, o...); err != nil {
		return nil, err
	}
	if m.small, err = henc.NewContext(small, o...); err != nil {
		return nil, err
	}
	if m.common, err = key.CompactSecret(m.small); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *compactMaker) close() {
	_ = m.common.Wipe()
	if m.owned {
		_ = m.key.Wipe()
	}
}

// write makes the keys of devices, none of which has any, in the directory of epoch e, those that all devices share
// included where they are not there yet, and lists them in e. step is called after each device's, and for the shared
// ones; nil is allowed. A file that a killed process left is replaced by the same one.
func (m *compactMaker) write(dir string, e *Epoch, devices []string, step func() error) error {
	id, err := e.ID()
	if err != nil {
		return err
	}
	if step == nil {
		step = func() error { return nil }
	}
	files, listed := maps.Clone(e.Files), keyset.Compact{Set: m.board.Parameters().Name()}
	if e.Compact != nil {
		listed.Devices = slices.Clone(e.Compact.Devices)
	}
	if files[keyset.CompactJoinFile] == "" || files[keyset.CompactPackFile] == "" {
		if err := m.writeCommon(dir, e.Epoch, id, files); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	if err := makeDir(filepath.Join(dir, keyset.CompactDir), openMode); err != nil {
		return err
	}
	for _, name := range devices {
		d, err := m.writeDevice(dir, e.Epoch, id, name)
		if err != nil {
			return err
		}
		listed.Devices = append(listed.Devices, d)
		if err := step(); err != nil {
			return err
		}
	}
	slices.SortFunc(listed.Devices, func(a, b keyset.CompactDevice) int { return strings.Compare(a.Name, b.Name) })
	e.Files, e.Compact = files, &listed
	return durable.SyncDir(dir)
}

// writeCommon makes the files that all devices share.
func (m *compactMaker) writeCommon(dir string, epoch uint32, id [16]byte, files map[string]string) error {
	join, err := m.key.CompactKey(m.common)
	if err != nil {
		return err
	}
	big := m.key.Context()
	b, err := big.MarshalSwitchingKey(join, id, epoch)
	big.Ring().Free(join.Value)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, keyset.CompactJoinFile), b, publicMode); err != nil {
		return err
	}
	files[keyset.CompactJoinFile] = digest(b)
	galois, err := m.common.GaloisKeys(compact.PackElements(m.small.Parameters()))
	if err != nil {
		return err
	}
	b, err = m.small.MarshalEvaluationKeys(&henc.EvaluationKeys{Galois: galois, KeyID: id, Epoch: epoch})
	for _, k := range galois {
		m.small.Ring().Free(k.Value)
	}
	if err != nil {
		return err
	}
	files[keyset.CompactPackFile] = digest(b)
	return writeFile(filepath.Join(dir, keyset.CompactPackFile), b, publicMode)
}

// writeDevice makes the file of a device.
func (m *compactMaker) writeDevice(
	dir string, epoch uint32, id [16]byte, name string,
) (d keyset.CompactDevice, err error) {
	board, err := m.key.CompactBoard(m.board, name)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, board.Wipe()) }()
	own, err := boardID(board)
	if err != nil {
		return d, err
	}
	key, err := m.common.CompactKey(board)
	if err != nil {
		return d, err
	}
	b, err := m.small.MarshalSwitchingKey(key, id, epoch)
	m.small.Ring().Free(key.Value)
	if err != nil {
		return d, err
	}
	if err := writeFile(filepath.Join(dir, keyset.CompactFile(name)), b, publicMode); err != nil {
		return d, err
	}
	return keyset.CompactDevice{Name: name, Board: own, SHA256: digest(b)}, nil
}

// boardID is CompactDevice.Board of a board's secret.
func boardID(board *secret.Key) (string, error) {
	pub, err := board.PublicKey()
	if err != nil {
		return "", err
	}
	board.Context().Ring().Free(pub.Value)
	return hex.EncodeToString(pub.KeyID[:]), nil
}

// device finds a device in an epoch.
func (s *Set) device(e Epoch, name string) (keyset.CompactDevice, error) {
	d, ok := e.Compact.Device(name)
	if !ok {
		return d, fmt.Errorf("device %s in epoch %d: %w; make them with: hencedge keys device --dir %s --out DIR %s",
			name, e.Epoch, keyset.ErrNoCompact, s.dir, name)
	}
	return d, nil
}

// boardFile makes the secret of a device's board, as a file. The caller clears it.
func (s *Set) boardFile(e Epoch, device string) ([]byte, error) {
	d, err := s.device(e, device)
	if err != nil {
		return nil, err
	}
	m, err := s.compactMaker(e, nil)
	if err != nil {
		return nil, err
	}
	defer m.close()
	board, err := m.key.CompactBoard(m.board, device)
	if err != nil {
		return nil, err
	}
	defer func() { _ = board.Wipe() }()
	if own, err := boardID(board); err != nil || own != d.Board {
		return nil, errors.Join(fmt.Errorf("%w: the board of device %s is %s, the manifest says %s", ErrCorrupt, device,
			own, d.Board), err)
	}
	board.SetEpoch(e.Epoch)
	return board.Marshal()
}

// exportCompact copies what evaluators need for compact windows of an epoch, after checking it. It returns the names of
// the files.
func (s *Set) exportCompact(dir string, e Epoch, public map[string]string) (files []string, err error) {
	if e.Compact == nil {
		return nil, nil
	}
	if err := makeDir(filepath.Join(dir, e.Dir(), keyset.CompactDir), openMode); err != nil {
		return nil, err
	}
	type item struct{ name, sum string }
	all := []item{{keyset.CompactJoinFile, e.Files[keyset.CompactJoinFile]},
		{keyset.CompactPackFile, e.Files[keyset.CompactPackFile]}}
	for _, it := range all {
		public[it.name] = it.sum
	}
	for _, d := range e.Compact.Devices {
		all = append(all, item{keyset.CompactFile(d.Name), d.SHA256})
	}
	for _, it := range all {
		to := filepath.Join(e.Dir(), it.name)
		if err := s.copyFile(filepath.Join(dir, to), filepath.Join(s.dir, to), it.sum); err != nil {
			return nil, err
		}
		files = append(files, to)
	}
	return files, nil
}

// copyFile copies a public file that has the digest want.
func (s *Set) copyFile(to, from, want string) error {
	b, err := readPublic(from, maxFile)
	if err != nil {
		return err
	}
	if got := digest(b); got != want {
		return fmt.Errorf("%w: %s has SHA-256 %.16s..., the manifest says %.16s...", ErrCorrupt, from, got, want)
	}
	return writeNew(to, b, publicMode)
}
