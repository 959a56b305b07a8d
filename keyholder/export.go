package keyholder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// Export writes to dir exactly what role may hold. dir must be empty or not exist. Its
// mode is 0700 with a secret key in it and 0755 otherwise. The layout is
//
//	keyset.json, keyset.cose              what it is, and the holder's signature over it
//	public.key, [secret.key, board.key]   for an agent
//	epoch-0001/evaluation.key, ...        for an evaluator
//	epoch-0001/compact-join.key, ...      the same, where devices have keys of compact windows
func (s *Set) Export(role Role, dir string, o ExportOptions) (out *Exported, err error) {
	fail := func(err error) (*Exported, error) { return nil, fmt.Errorf("export keys for %s: %w", role, err) }
	if role != RoleAgent && role != RoleEvaluator {
		return fail(fmt.Errorf("unknown role %q: use agent or evaluator", role))
	}
	if o.Symmetric && role != RoleAgent {
		return fail(errors.New("only an agent can be given the secret key"))
	}
	if o.Device != "" && (role != RoleAgent || o.Symmetric) {
		return fail(errors.New("only an agent can be given a board's key, and none that has the secret key"))
	}
	epochs, err := s.exported(role, o)
	if err != nil {
		return fail(err)
	}
	if o.Device != "" {
		if _, err := s.device(epochs[0], o.Device); err != nil {
			return fail(err)
		}
	}
	signer, err := transport.LoadSigningKey(filepath.Join(s.dir, signerFile))
	if err != nil {
		return fail(err)
	}
	defer signer.Wipe()
	dir = filepath.Clean(dir)
	if err := makeDir(dir, exportMode(o)); err != nil {
		return fail(err)
	}
	if err := emptyDir(dir); err != nil {
		return fail(err)
	}
	o.track(role, epochs)
	defer func() {
		if err != nil {
			leaveNothing(dir)
		}
	}()
	out = &Exported{Role: role, Dir: dir, Secret: o.Symmetric, Device: o.Device, Holder: s.manifest.Fingerprint()}
	m := s.Manifest()
	m.Epochs = nil
	for _, e := range epochs {
		out.Epochs = append(out.Epochs, e.Epoch)
		files, public, err := s.exportEpoch(role, dir, e, o)
		if err != nil {
			return fail(err)
		}
		out.Files = append(out.Files, files...)
		e.Files = public
		if role == RoleAgent {
			e.Compact = only(e.Compact, o.Device)
		}
		m.Epochs = append(m.Epochs, e)
	}
	b, err := m.Encode()
	if err != nil {
		return fail(err)
	}
	sealed, err := keyset.Seal(b, s.params, signer)
	if err != nil {
		return fail(err)
	}
	if err := writeNew(filepath.Join(dir, ManifestFile), b, publicMode); err != nil {
		return fail(err)
	}
	if err := writeNew(filepath.Join(dir, SignedManifestFile), sealed, publicMode); err != nil {
		return fail(err)
	}
	out.Files = append(out.Files, ManifestFile, SignedManifestFile)
	return out, nil
}

// Exported lists what an export wrote.
type Exported struct {
	Role   Role
	Dir    string
	Epochs []uint32
	Files  []string // relative to Dir
	Secret bool     // the secret key is among them
	Device string   // whose board's key is among them; empty: none
	// Holder is the fingerprint of the key that signed. The receiver of the export
	// configures it as keys.holder.
	Holder string
}

// ExportOptions refine an export.
type ExportOptions struct {
	// Symmetric gives an agent the secret key too. Whoever takes the board can then
	// read everything that is encrypted under this key set.
	Symmetric bool
	// Device gives an agent the key of a board's compact windows too. Whoever takes the board can then read those of
	// this device, and nothing else.
	Device string
	// Epoch to export; 0 means the current one for agents and every epoch
	// that is still accepted for evaluators.
	Epoch uint32
	Now   func() time.Time
	// Progress is called as files are copied, with the bytes of how many. If it returns an error, the export ends with
	// it and leaves nothing.
	Progress func(done, total int64) error

	copied func(n int) error // of Progress, for each piece
}

// track makes copied count for Progress.
func (o *ExportOptions) track(role Role, epochs []Epoch) {
	if o.Progress == nil {
		return
	}
	var done, total int64
	for _, e := range epochs {
		if role == RoleEvaluator {
			total += e.EvaluationBytes
		} else {
			total += e.PublicBytes
		}
	}
	o.copied = func(n int) error {
		done += int64(n)
		return o.Progress(done, max(total, done))
	}
}

// trackedWriter tells what is written to it.
type trackedWriter struct {
	io.Writer
	copied func(n int) error
}

func (w trackedWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err == nil && w.copied != nil {
		err = w.copied(n)
	}
	return n, err
}

// leaveNothing removes the contents of a directory that was empty before an export failed.
func leaveNothing(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		os.RemoveAll(filepath.Join(dir, e.Name()))
	}
}

// Role is who key material is exported for.
type Role string

// The roles, and what each may hold.
const (
	// RoleAgent holds the public key; in symmetric mode the secret key.
	RoleAgent Role = "agent"
	// RoleEvaluator holds the evaluation keys.
	RoleEvaluator Role = "evaluator"
)

// exportMode returns the mode of an export's directory. A service that runs as another
// user must be able to read public keys.
func exportMode(o ExportOptions) fs.FileMode {
	if o.Symmetric || o.Device != "" {
		return dirMode
	}
	return openMode
}

// only returns the part of an epoch that an agent sees: its own device, without the file for evaluators.
func only(c *keyset.Compact, device string) *keyset.Compact {
	d, ok := c.Device(device)
	if !ok {
		return nil
	}
	d.SHA256 = ""
	return &keyset.Compact{Set: c.Set, Devices: []keyset.CompactDevice{d}}
}

// exported returns the epochs to export.
func (s *Set) exported(role Role, o ExportOptions) ([]Epoch, error) {
	if o.Epoch != 0 {
		i := slices.IndexFunc(s.manifest.Epochs, func(e Epoch) bool { return e.Epoch == o.Epoch })
		if i < 0 {
			return nil, fmt.Errorf("the key set has no epoch %d", o.Epoch)
		}
		return s.manifest.Epochs[i : i+1], nil
	}
	if role == RoleAgent {
		return []Epoch{s.manifest.Current()}, nil
	}
	now := clock(o.Now)
	var out []Epoch
	for _, e := range s.manifest.Epochs {
		if e.AcceptUntil.IsZero() || now.Before(e.AcceptUntil) {
			out = append(out, e)
		}
	}
	return out, nil
}

// exportEpoch copies the files of one epoch, after checking them. It returns their names,
// and the digests of those that are public.
func (s *Set) exportEpoch(role Role, dir string, e Epoch,
	o ExportOptions) (files []string, public map[string]string, err error) {
	name, to := PublicFile, PublicFile
	if role == RoleEvaluator {
		name, to = EvaluationFile, filepath.Join(e.Dir(), EvaluationFile)
		if err := makeDir(filepath.Join(dir, e.Dir()), openMode); err != nil {
			return nil, nil, err
		}
	}
	_, sum, err := streamNew(filepath.Join(dir, to), publicMode,
		func(w io.Writer) error { return s.copyChecked(trackedWriter{w, o.copied}, e, name) })
	if err != nil {
		return nil, nil, err
	}
	files, public = append(files, to), map[string]string{name: sum}
	if role == RoleEvaluator {
		more, err := s.exportCompact(dir, e, public)
		return append(files, more...), public, err
	}
	var secret []byte
	switch {
	case o.Symmetric:
		to = SecretFile
		secret, err = readSecret(filepath.Join(s.dir, e.Dir(), SecretFile), maxSecretFile)
	case o.Device != "":
		to = keyset.BoardFile
		secret, err = s.boardFile(e, o.Device)
	default:
		return files, public, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer clear(secret)
	if err := writeNew(filepath.Join(dir, to), secret, secretMode); err != nil {
		return nil, nil, err
	}
	return append(files, to), public, nil
}

// copyChecked writes a public file of an epoch to w and checks its digest.
func (s *Set) copyChecked(w io.Writer, e Epoch, name string) error {
	path := filepath.Join(s.dir, e.Dir(), name)
	got, err := copyPublic(w, path)
	if err != nil {
		return err
	}
	if got != e.Files[name] {
		return fmt.Errorf("%w: %s has SHA-256 %.16s..., the manifest says %.16s...", ErrCorrupt, path,
			got, e.Files[name])
	}
	return nil
}
