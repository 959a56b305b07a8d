package keyholder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// Export writes to dir exactly what role may hold. dir must be empty or not exist. Its
// mode is 0700 with a secret key in it and 0755 otherwise. The layout is
//
//	keyset.json, keyset.cose          what it is, and the holder's signature over it
//	public.key, [secret.key]          for an agent
//	epoch-0001/evaluation.key, ...    for an evaluator
func (s *Set) Export(role Role, dir string, o ExportOptions) (*Exported, error) {
	fail := func(err error) (*Exported, error) { return nil, fmt.Errorf("export keys for %s: %w", role, err) }
	if role != RoleAgent && role != RoleEvaluator {
		return fail(fmt.Errorf("unknown role %q: use agent or evaluator", role))
	}
	if o.Symmetric && role != RoleAgent {
		return fail(errors.New("only an agent can be given the secret key"))
	}
	epochs, err := s.exported(role, o)
	if err != nil {
		return fail(err)
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
	out := &Exported{Role: role, Dir: dir, Secret: o.Symmetric, Holder: s.manifest.Fingerprint()}
	m := s.Manifest()
	m.Epochs = nil
	for _, e := range epochs {
		out.Epochs = append(out.Epochs, e.Epoch)
		files, public, err := s.exportEpoch(role, dir, e, o.Symmetric)
		if err != nil {
			return fail(err)
		}
		out.Files = append(out.Files, files...)
		e.Files = public
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
	// Holder is the fingerprint of the key that signed. The receiver of the export
	// configures it as keys.holder.
	Holder string
}

// ExportOptions refine an export.
type ExportOptions struct {
	// Symmetric gives an agent the secret key too. Whoever takes the board can then
	// read everything that is encrypted under this key set.
	Symmetric bool
	// Epoch to export; 0 means the current one for agents and every epoch
	// that is still accepted for evaluators.
	Epoch uint32
	Now   func() time.Time
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
	if o.Symmetric {
		return dirMode
	}
	return openMode
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
	symmetric bool) (files []string, public map[string]string, err error) {
	name, to := PublicFile, PublicFile
	if role == RoleEvaluator {
		name, to = EvaluationFile, filepath.Join(e.Dir(), EvaluationFile)
		if err := makeDir(filepath.Join(dir, e.Dir()), openMode); err != nil {
			return nil, nil, err
		}
	}
	_, sum, err := streamNew(filepath.Join(dir, to), publicMode,
		func(w io.Writer) error { return s.copyChecked(w, e, name) })
	if err != nil {
		return nil, nil, err
	}
	files, public = append(files, to), map[string]string{name: sum}
	if !symmetric {
		return files, public, nil
	}
	secret, err := readSecret(filepath.Join(s.dir, e.Dir(), SecretFile), maxSecretFile)
	if err != nil {
		return nil, nil, err
	}
	defer clear(secret)
	if err := writeNew(filepath.Join(dir, SecretFile), secret, secretMode); err != nil {
		return nil, nil, err
	}
	return append(files, SecretFile), public, nil
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
