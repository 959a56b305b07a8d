package evaluator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
)

func makeContext(p henc.Parameters) (*henc.Context, error) { return henc.NewContext(p) }

// TestLoadKeys reads what the key holder exports, and refuses what was changed.
func TestLoadKeys(t *testing.T) {
	p := testHolder(t).ctx.Parameters()
	set, err := keyholder.Create(filepath.Join(t.TempDir(), "set"), keyholder.CreateOptions{Params: p, Needs: keyholder.Needs{Rotations: []int{1, 2, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	export := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "export")
		if _, err := set.Export(keyholder.RoleEvaluator, dir, keyholder.ExportOptions{}); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	m := set.Manifest()
	pinned, err := keyset.Trusted(m.Fingerprint())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := LoadKeys(export(t), pinned, makeContext)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 || keys[0].Evaluation.Epoch != 1 || keys[0].Evaluation.Relin == nil || len(keys[0].Evaluation.Galois) != 3 {
		t.Fatalf("keys %+v", keys)
	}
	for name, spoil := range map[string]func(dir string) error{
		"no manifest":  func(dir string) error { return os.Remove(filepath.Join(dir, keyset.ManifestFile)) },
		"no signature": func(dir string) error { return os.Remove(filepath.Join(dir, keyset.SignedManifestFile)) },
		"no key":       func(dir string) error { return os.Remove(filepath.Join(dir, "epoch-0001", keyFile)) },
		"changed manifest": func(dir string) error {
			return change(filepath.Join(dir, keyset.ManifestFile), "\"version\": 1", "\"version\":  1")
		},
		"other version": func(dir string) error {
			return change(filepath.Join(dir, keyset.ManifestFile), "\"version\": 1", "\"version\": 2")
		},
		"other parameters": func(dir string) error {
			return change(filepath.Join(dir, keyset.ManifestFile), "edge12-d1", "edge13-d3")
		},
		"no json": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, keyset.ManifestFile), []byte("{"), 0o600)
		},
		"changed key":  func(dir string) error { return flip(filepath.Join(dir, "epoch-0001", keyFile)) },
		"changed seal": func(dir string) error { return flip(filepath.Join(dir, keyset.SignedManifestFile)) },
		"key is a directory": func(dir string) error {
			f := filepath.Join(dir, "epoch-0001", keyFile)
			return errors.Join(os.Remove(f), os.Mkdir(f, 0o700))
		},
	} {
		dir := export(t)
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeys(dir, pinned, makeContext); !errors.Is(err, ErrKeys) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nor is a secret key taken to an evaluator, alone or with the whole key set.
	if _, err := LoadKeys(set.Dir(), pinned, makeContext); !errors.Is(err, keyset.ErrSecret) || !errors.Is(err, ErrKeys) {
		t.Errorf("a key set: %v", err)
	}
	beside := export(t)
	if err := os.WriteFile(filepath.Join(beside, "epoch-0001", keyset.SecretFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeys(beside, pinned, makeContext); !errors.Is(err, keyset.ErrSecret) {
		t.Errorf("a secret key beside an evaluation key: %v", err)
	}
	// A service with keys that lack a rotation does not start.
	cfg := testConfig(t, prog("p", "x*y", map[string]string{"x": "d1/count/temp", "y": "d1/count/load"}))
	_, err = New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: keys, Logger: quiet()})
	wantError(t, err, ErrKeys, "lacks rotations by [8]", "--for")
	keys[0].Evaluation.Relin = nil
	_, err = New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: keys, Logger: quiet()})
	wantError(t, err, ErrKeys, "no relinearisation key")
	_, err = New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: []Keys{}, Logger: quiet()})
	wantError(t, err, ErrKeys, "no keys for parameters edge12-d1")
}

// TestNewFromFiles makes a service from nothing but its configuration.
func TestNewFromFiles(t *testing.T) {
	dir := t.TempDir()
	set, err := keyholder.Create(filepath.Join(dir, "set"), keyholder.CreateOptions{Params: testHolder(t).ctx.Parameters(), Needs: keyholder.Needs{Rotations: []int{1, 2, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, prog("p", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	cfg.KeySets, cfg.SigningKey, cfg.State = []string{filepath.Join(dir, "keys")}, filepath.Join(dir, "signing.key"), filepath.Join(dir, "state")
	if _, err := set.Export(keyholder.RoleEvaluator, cfg.KeySets[0], keyholder.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = New(cfg, Deps{Logger: quiet()})
	wantError(t, err, ErrConfig, "signing.key")
	m := set.Manifest()
	if err := signer(t, "cloud").Save(cfg.SigningKey); err != nil {
		t.Fatal(err)
	}
	_, err = New(cfg, Deps{Logger: quiet()})
	wantError(t, err, ErrKeys, "keys.holder: no key holder is named")
	cfg.Keys.Holder = []string{m.Fingerprint()}
	s, err := New(cfg, Deps{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.keys) != 1 || len(s.Plan().Programs) != 1 {
		t.Errorf("%d keys, %d programs", len(s.keys), len(s.Plan().Programs))
	}
	_, err = New(cfg, Deps{Logger: quiet()})
	wantError(t, err, store.ErrState, "in use")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.KeySets = append(cfg.KeySets, cfg.KeySets[0])
	_, err = New(cfg, Deps{Logger: quiet()})
	wantError(t, err, ErrKeys, "twice")
	cfg.KeySets = []string{filepath.Join(dir, "elsewhere")}
	_, err = New(cfg, Deps{Logger: quiet()})
	wantError(t, err, ErrKeys, "elsewhere")
	other, err := makeContext(testHolder(t).ctx.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	h := testHolder(t)
	_, err = New(cfg, Deps{Logger: quiet(), Keys: []Keys{{Context: h.ctx, Evaluation: h.keys}, {Context: other, Evaluation: h.keys}}})
	wantError(t, err, ErrKeys, "different contexts")
	_, err = New(cfg, Deps{Logger: quiet(), Keys: []Keys{{}}})
	wantError(t, err, ErrKeys, "without a context")
	cfg.Devices[0].PublicKey = "ed25519:nonsense"
	_, err = New(cfg, Deps{Logger: quiet(), Keys: []Keys{{Context: h.ctx, Evaluation: h.keys}}})
	wantError(t, err, ErrConfig, "device d1")
}

// TestSwappedKeySetIsRefused: evaluation keys that another holder made and signed are
// whole, and are refused where the holder is pinned: by a check, at the start, and
// when keys are read again.
func TestSwappedKeySetIsRefused(t *testing.T) {
	dir := t.TempDir()
	export := func(name string) *keyholder.Set {
		set, err := keyholder.Create(filepath.Join(dir, name, "set"), keyholder.CreateOptions{Params: testHolder(t).ctx.Parameters(), Needs: keyholder.Needs{Rotations: []int{1, 2, 4}}})
		if err == nil {
			_, err = set.Export(keyholder.RoleEvaluator, filepath.Join(dir, name, "out"), keyholder.ExportOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	right, wrong := export("right").Manifest(), export("wrong").Manifest()
	cfg := testConfig(t, prog("p", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	cfg.KeySets, cfg.SigningKey, cfg.State = []string{filepath.Join(dir, "keys")}, filepath.Join(dir, "signing.key"), filepath.Join(dir, "state")
	cfg.Keys.Holder = []string{right.Fingerprint()}
	if err := signer(t, "cloud").Save(cfg.SigningKey); err != nil {
		t.Fatal(err)
	}
	use := func(name string) {
		if err := errors.Join(os.RemoveAll(cfg.KeySets[0]), os.CopyFS(cfg.KeySets[0], os.DirFS(filepath.Join(dir, name, "out")))); err != nil {
			t.Fatal(err)
		}
	}
	use("right")
	if err := CheckFiles(cfg, true); err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, Deps{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	use("wrong")
	_, err = s.loadKeys(testHolder(t).ctx)
	wantError(t, err, keyset.ErrHolder, wrong.Fingerprint(), right.Fingerprint())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = New(cfg, Deps{Logger: quiet()})
	wantError(t, err, keyset.ErrHolder, wrong.Fingerprint(), right.Fingerprint())
	wantError(t, CheckFiles(cfg, true), ErrAbsent, keyset.ErrHolder.Error(), "key_sets[0]", "changed the keys on their way")
	for _, waiver := range []string{config.HolderNone, wrong.Signer} {
		cfg.Keys.Holder = []string{waiver}
		if err := CheckFiles(cfg, true); err != nil {
			t.Errorf("%s: %v", waiver, err)
		}
		if got := len(Warnings(cfg)); (got == 1) != (waiver == config.HolderNone) {
			t.Errorf("%s: %d warnings", waiver, got)
		}
	}
}

func change(path, from, to string) error {
	b, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(b), from) {
		err = errors.New("nothing to change in " + path)
	}
	return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(b), from, to, 1)), 0o600))
}

func flip(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[len(b)/2] ^= 1
	return os.WriteFile(path, b, 0o600)
}
