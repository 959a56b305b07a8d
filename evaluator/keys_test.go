package evaluator

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
)

func makeContext(p henc.Parameters) (*henc.Context, error) { return henc.NewContext(p) }

// Keys that lack something that a program needs keep the service from starting.
func TestKeysServePrograms(t *testing.T) {
	p := testHolder(t).ctx.Parameters()
	set, err := keyholder.Create(filepath.Join(t.TempDir(), "set"),
		keyholder.CreateOptions{Params: p, Needs: keyholder.Needs{Rotations: []int{1, 2, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := set.Export(keyholder.RoleEvaluator, dir, keyholder.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	keys, err := engine.LoadKeys(dir, keyset.Anyone(), makeContext)
	if err != nil {
		t.Fatal(err)
	}
	// A service with keys that lack a rotation does not start.
	cfg := testConfig(t, prog("p", "x*y", map[string]string{"x": "d1/count/temp", "y": "d1/count/load"}))
	_, err = New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: keys, Logger: testrig.Quiet()})
	wantError(t, err, engine.ErrKeys, "lacks rotations by [8]", "--for")
	keys[0].Evaluation.Relin = nil
	_, err = New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: keys, Logger: testrig.Quiet()})
	wantError(t, err, engine.ErrKeys, "no relinearisation key")
	_, err = New(cfg, Deps{SigningKey: signer(t, "cloud"), Keys: []engine.Keys{}, Logger: testrig.Quiet()})
	wantError(t, err, engine.ErrKeys, "no keys for parameters edge12-d1")
}

// TestNewFromFiles makes a service from nothing but its configuration.
func TestNewFromFiles(t *testing.T) {
	dir := t.TempDir()
	set, err := keyholder.Create(filepath.Join(dir, "set"),
		keyholder.CreateOptions{Params: testHolder(t).ctx.Parameters(),
			Needs: keyholder.Needs{Rotations: []int{1, 2, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, prog("p", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	cfg.KeySets, cfg.SigningKey, cfg.State = []string{filepath.Join(dir, "keys")}, filepath.Join(dir, "signing.key"),
		filepath.Join(dir, "state")
	if _, err := set.Export(keyholder.RoleEvaluator, cfg.KeySets[0], keyholder.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = New(cfg, Deps{Logger: testrig.Quiet()})
	wantError(t, err, ErrConfig, "signing.key")
	m := set.Manifest()
	if err := signer(t, "cloud").Save(cfg.SigningKey); err != nil {
		t.Fatal(err)
	}
	_, err = New(cfg, Deps{Logger: testrig.Quiet()})
	wantError(t, err, engine.ErrKeys, "keys.holder: no key holder is named")
	cfg.Keys.Holder = []string{m.Fingerprint()}
	s, err := New(cfg, Deps{Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.keys) != 1 || len(s.plan.Programs) != 1 {
		t.Errorf("%d keys, %d programs", len(s.keys), len(s.plan.Programs))
	}
	_, err = New(cfg, Deps{Logger: testrig.Quiet()})
	wantError(t, err, store.ErrState, "in use")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.KeySets = append(cfg.KeySets, cfg.KeySets[0])
	_, err = New(cfg, Deps{Logger: testrig.Quiet()})
	wantError(t, err, engine.ErrKeys, "twice")
	cfg.KeySets = []string{filepath.Join(dir, "elsewhere")}
	_, err = New(cfg, Deps{Logger: testrig.Quiet()})
	wantError(t, err, engine.ErrKeys, "elsewhere")
	other, err := makeContext(testHolder(t).ctx.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	h := testHolder(t)
	_, err = New(cfg, Deps{Logger: testrig.Quiet(), Keys: []engine.Keys{{Context: h.ctx, Evaluation: h.keys},
		{Context: other, Evaluation: h.keys}}})
	wantError(t, err, engine.ErrKeys, "different contexts")
	_, err = New(cfg, Deps{Logger: testrig.Quiet(), Keys: []engine.Keys{{}}})
	wantError(t, err, engine.ErrKeys, "without a context")
	cfg.Devices[0].PublicKey = "ed25519:nonsense"
	_, err = New(cfg, Deps{Logger: testrig.Quiet(), Keys: []engine.Keys{{Context: h.ctx, Evaluation: h.keys}}})
	wantError(t, err, ErrConfig, "device d1")
}

// TestSwappedKeySetIsRefused: evaluation keys that another holder made and signed are
// whole, and are refused where the holder is pinned: by a check, at the start, and
// when keys are read again.
func TestSwappedKeySetIsRefused(t *testing.T) {
	dir := t.TempDir()
	export := func(name string) *keyholder.Set {
		set, err := keyholder.Create(filepath.Join(dir, name, "set"),
			keyholder.CreateOptions{Params: testHolder(t).ctx.Parameters(),
				Needs: keyholder.Needs{Rotations: []int{1, 2, 4}}})
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
	cfg.KeySets, cfg.SigningKey, cfg.State = []string{filepath.Join(dir, "keys")}, filepath.Join(dir, "signing.key"),
		filepath.Join(dir, "state")
	cfg.Keys.Holder = []string{right.Fingerprint()}
	if err := signer(t, "cloud").Save(cfg.SigningKey); err != nil {
		t.Fatal(err)
	}
	use := func(name string) {
		if err := errors.Join(os.RemoveAll(cfg.KeySets[0]), os.CopyFS(cfg.KeySets[0],
			os.DirFS(filepath.Join(dir, name, "out")))); err != nil {
			t.Fatal(err)
		}
	}
	use("right")
	if err := CheckFiles(cfg, true); err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, Deps{Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	use("wrong")
	sets, err := engine.ConfiguredKeySets(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sets.Read(testHolder(t).ctx)
	wantError(t, err, keyset.ErrHolder, wrong.Fingerprint(), right.Fingerprint())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = New(cfg, Deps{Logger: testrig.Quiet()})
	wantError(t, err, keyset.ErrHolder, wrong.Fingerprint(), right.Fingerprint())
	wantError(t, CheckFiles(cfg, true), ErrAbsent, keyset.ErrHolder.Error(), "key_sets[0]",
		"changed the keys on their way")
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
