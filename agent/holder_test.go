package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
)

// TestSwappedKeysAreRefused: keys that another holder made and signed are whole, and
// this board would encrypt for that one. They are refused where the holder is pinned, in
// both modes: by a check, at the start, and when keys are read again.
func TestSwappedKeysAreRefused(t *testing.T) {
	dir := t.TempDir()
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	export := func(name string) keyholder.Manifest {
		set, err := keyholder.Create(filepath.Join(dir, name),
			keyholder.CreateOptions{Params: p, Needs: keyholder.Needs{Rotations: []int{1}}})
		if err == nil {
			_, err = set.Export(keyholder.RoleAgent, filepath.Join(dir, name+"-out"),
				keyholder.ExportOptions{Symmetric: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		return set.Manifest()
	}
	right, wrong := export("right"), export("wrong")
	use := func(from ...string) {
		t.Helper()
		keys := filepath.Join(dir, "keys")
		err := errors.Join(os.RemoveAll(keys), os.CopyFS(keys, os.DirFS(filepath.Join(dir, "right-out"))))
		for _, name := range from {
			b, rerr := os.ReadFile(filepath.Join(dir, "wrong-out", name))
			err = errors.Join(err, rerr, os.WriteFile(filepath.Join(keys, name), b, 0o600))
		}
		if err := errors.Join(err, os.Chmod(filepath.Join(keys, keyset.SecretFile), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{keyset.PublicFile, keyset.SecretFile, keyset.ManifestFile, keyset.SignedManifestFile}
	for _, keys := range []config.AgentKeys{
		{Mode: config.KeyModePublic, PublicKey: filepath.Join(dir, "keys", keyset.PublicFile)},
		{Mode: config.KeyModeSymmetric, SecretKey: filepath.Join(dir, "keys", keyset.SecretFile)},
	} {
		cfg := testConfig(t)
		cfg.Keys = keys
		deps, _ := testDeps(t, &fakeClient{})
		deps.PublicKey, deps.Context = nil, nil
		refused := func(sentinel error, words ...string) {
			t.Helper()
			err := plan.Check(cfg, deps.options())
			_, nerr := New(cfg, deps)
			if err == nil || nerr == nil {
				t.Fatalf("%s: accepted: %v, %v", keys.Mode, err, nerr)
			}
			for _, w := range append(words, sentinel.Error()) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: no %q in\n%v", keys.Mode, w, err)
				}
			}
		}
		use()
		refused(keyset.ErrNoHolder, "keys.holder", "hencedge keys show")
		cfg.Keys.Holder = right.Fingerprint()
		a, err := New(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		use(all...)
		refused(keyset.ErrHolder, "keys.holder", wrong.Fingerprint(), right.Fingerprint(),
			"changed the keys on their way")
		if _, err := a.move(a.keys.Context, nil); err == nil ||
			!strings.Contains(err.Error(), keyset.ErrHolder.Error()) {
			t.Errorf("%s: read again: %v", keys.Mode, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		use(keyset.PublicFile, keyset.SecretFile) // beside the right manifest
		refused(keyset.ErrCorrupt, filepath.Join(dir, "keys"))
		use(keyset.SignedManifestFile)
		refused(keyset.ErrCorrupt, keyset.SignedManifestFile)
		use()
		if err := os.Remove(filepath.Join(dir, "keys", keyset.SignedManifestFile)); err != nil {
			t.Fatal(err)
		}
		refused(syscall.ENOENT, keyset.SignedManifestFile, "beside the key")
		if keys.Mode == config.KeyModePublic {
			if got := strings.Join(plan.Warnings(cfg), "\n"); !strings.Contains(got,
				"SECRET KEY ON THIS DEVICE: "+filepath.Join(dir, "keys", keyset.SecretFile)) {
				t.Errorf("a secret key beside the public one: %s", got)
			}
			cfg.Keys.PublicKey = filepath.Join(dir, "right", "epoch-0001", keyset.PublicFile)
			refused(keyset.ErrSecret, "holder", "decrypts everything")
			cfg.Keys.PublicKey = keys.PublicKey
		}
		use(all...)
		for _, holder := range []string{config.HolderNone, wrong.Signer} {
			cfg.Keys.Holder = holder
			if err := plan.Check(cfg, deps.options()); err != nil {
				t.Errorf("%s, holder %s: %v", keys.Mode, holder, err)
			}
			if got := strings.Contains(strings.Join(plan.Warnings(cfg), "\n"),
				"keys.holder is none"); got != (holder == config.HolderNone) {
				t.Errorf("%s, holder %s: warned %v", keys.Mode, holder, got)
			}
		}
	}
}
