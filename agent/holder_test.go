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
	h := newSwappedKeys(t)
	for _, keys := range []config.AgentKeys{
		{Mode: config.KeyModePublic, PublicKey: h.at("keys", keyset.PublicFile)},
		{Mode: config.KeyModeSymmetric, SecretKey: h.at("keys", keyset.SecretFile)},
	} {
		t.Run(string(keys.Mode), func(t *testing.T) { h.test(t, keys) })
	}
}

func (h *swappedKeys) test(t *testing.T, keys config.AgentKeys) {
	cfg := testConfig(t)
	cfg.Keys = keys
	deps, _ := testDeps(t, &fakeClient{})
	deps.PublicKey, deps.Context = nil, nil
	refused := func(sentinel error, words ...string) {
		t.Helper()
		err := plan.Check(cfg, deps.options())
		_, nerr := New(cfg, deps)
		if err == nil || nerr == nil {
			t.Fatalf("accepted: %v, %v", err, nerr)
		}
		for _, w := range append(words, sentinel.Error()) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("no %q in\n%v", w, err)
			}
		}
	}
	h.use(t)
	refused(keyset.ErrNoHolder, "keys.holder", "hencedge keys show")
	cfg.Keys.Holder = h.right.Fingerprint()
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	h.use(t, allKeyFiles...)
	refused(keyset.ErrHolder, "keys.holder", h.wrong.Fingerprint(), h.right.Fingerprint(),
		"changed the keys on their way")
	if _, err := a.move(a.keys.Context, nil); err == nil || !strings.Contains(err.Error(), keyset.ErrHolder.Error()) {
		t.Errorf("read again: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	h.use(t, keyset.PublicFile, keyset.SecretFile) // beside the right manifest
	refused(keyset.ErrCorrupt, h.at("keys"))
	h.use(t, keyset.SignedManifestFile)
	refused(keyset.ErrCorrupt, keyset.SignedManifestFile)
	h.use(t)
	if err := os.Remove(h.at("keys", keyset.SignedManifestFile)); err != nil {
		t.Fatal(err)
	}
	refused(syscall.ENOENT, keyset.SignedManifestFile, "beside the key")
	if keys.Mode == config.KeyModePublic {
		if got := strings.Join(plan.Warnings(cfg), "\n"); !strings.Contains(got,
			"SECRET KEY ON THIS DEVICE: "+h.at("keys", keyset.SecretFile)) {
			t.Errorf("a secret key beside the public one: %s", got)
		}
		cfg.Keys.PublicKey = h.at("right", "epoch-0001", keyset.PublicFile)
		refused(keyset.ErrSecret, "holder", "decrypts everything")
		cfg.Keys.PublicKey = keys.PublicKey
	}
	h.use(t, allKeyFiles...)
	for _, holder := range []string{config.HolderNone, h.wrong.Signer} {
		cfg.Keys.Holder = holder
		if err := plan.Check(cfg, deps.options()); err != nil {
			t.Errorf("holder %s: %v", holder, err)
		}
		if got := strings.Contains(strings.Join(plan.Warnings(cfg), "\n"),
			"keys.holder is none"); got != (holder == config.HolderNone) {
			t.Errorf("holder %s: warned %v", holder, got)
		}
	}
}

// swappedKeys are two key sets, exported for agents into right-out and wrong-out, and keys,
// the directory that an agent reads.
type swappedKeys struct {
	dir          string
	right, wrong keyholder.Manifest
}

func newSwappedKeys(t *testing.T) *swappedKeys {
	t.Helper()
	h := &swappedKeys{dir: t.TempDir()}
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	export := func(name string) keyholder.Manifest {
		set, err := keyholder.Create(h.at(name),
			keyholder.CreateOptions{Params: p, Needs: keyholder.Needs{Rotations: []int{1}}})
		if err == nil {
			_, err = set.Export(keyholder.RoleAgent, h.at(name+"-out"), keyholder.ExportOptions{Symmetric: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		return set.Manifest()
	}
	h.right, h.wrong = export("right"), export("wrong")
	return h
}

func (h *swappedKeys) at(name ...string) string {
	return filepath.Join(append([]string{h.dir}, name...)...)
}

// allKeyFiles are the files of an export.
var allKeyFiles = []string{keyset.PublicFile, keyset.SecretFile, keyset.ManifestFile, keyset.SignedManifestFile}

// use makes keys the right export, but for some files, which come from the wrong one.
func (h *swappedKeys) use(t *testing.T, fromWrong ...string) {
	t.Helper()
	keys := h.at("keys")
	err := errors.Join(os.RemoveAll(keys), os.CopyFS(keys, os.DirFS(h.at("right-out"))))
	for _, name := range fromWrong {
		b, rerr := os.ReadFile(h.at("wrong-out", name))
		err = errors.Join(err, rerr, os.WriteFile(filepath.Join(keys, name), b, 0o600))
	}
	if err := errors.Join(err, os.Chmod(filepath.Join(keys, keyset.SecretFile), 0o600)); err != nil {
		t.Fatal(err)
	}
}
