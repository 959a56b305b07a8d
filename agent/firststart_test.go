package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/transport"
)

// A device makes its key at its first start only: later a missing key is a loss,
// which a new key would hide.
func TestFirstStartMakesTheKey(t *testing.T) {
	cfg := testConfig(t)
	cfg.SigningKey = filepath.Join(filepath.Dir(cfg.State), "signing.key")
	deps, _ := testDeps(t, &fakeClient{})
	deps.SigningKey = nil
	if err := plan.Check(cfg, deps.options()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.SigningKey); err == nil {
		t.Fatal("a check made the key")
	}
	if w := strings.Join(plan.Warnings(cfg), "\n"); !strings.Contains(w, "made at the first start") {
		t.Errorf("warnings %q", w)
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	made := a.Report().Keys.PublicKey
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	key, err := transport.LoadSigningKey(cfg.SigningKey) // refuses loose permissions
	if err != nil || key.PublicText() != made {
		t.Fatalf("%v: the key on disk is %v, in use was %s", err, key, made)
	}
	if a, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	if got := a.Report().Keys.PublicKey; got != made {
		t.Errorf("the second start uses %s, the first %s", got, made)
	}
	a.Close()
	if err := os.Remove(cfg.SigningKey); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, deps); err == nil || !strings.Contains(err.Error(), "signing_key") {
		t.Errorf("a lost key was replaced: %v", err)
	}
}

// A missing directory is not a lost key.
func TestNoSigningKey(t *testing.T) {
	cfg := testConfig(t)
	dir := filepath.Join(filepath.Dir(cfg.State), "none")
	deps, _ := testDeps(t, &fakeClient{})
	deps.SigningKey = nil
	cfg.SigningKey = filepath.Join(dir, "signing.key")
	if err := plan.Check(cfg, deps.options()); err == nil ||
		!strings.Contains(err.Error(), "the directory "+dir+" does not exist") ||
		strings.Contains(err.Error(), "had a key") {
		t.Errorf("without its directory: %v", err)
	}
	cfg.SigningKey = filepath.Join(filepath.Dir(cfg.State), "signing.key")
	if err := os.WriteFile(cfg.State, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := transport.LoadSigningKey(cfg.SigningKey)
	if err := seal.NoSigningKey(cfg, err); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "this device had a key, since its state "+cfg.State+" exists") {
		t.Errorf("with a state: %v", err)
	}
}
