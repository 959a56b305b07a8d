package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

func parameters(t *testing.T) henc.Parameters {
	t.Helper()
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// backend is what the tests of programs run on: the CPU, or the GPU if CUTRANTT_TEST_BACKEND=cuda.
func backend() (cutrantt.Backend, error) {
	switch name := os.Getenv("CUTRANTT_TEST_BACKEND"); name {
	case "", "cpu":
		return cpu.New(), nil
	case "cuda":
		return cuda.New()
	default:
		return nil, fmt.Errorf("CUTRANTT_TEST_BACKEND=%s: use cpu or cuda", name)
	}
}

func makeContext(p henc.Parameters) (*henc.Context, error) {
	b, err := backend()
	if err != nil {
		return nil, err
	}
	return henc.NewContext(p, henc.WithBackend(b))
}

// TestLoadBootstrapKeys: what the key holder exports for boot15 bootstraps. It takes 3 GiB and some minutes.
func TestLoadBootstrapKeys(t *testing.T) {
	if os.Getenv("HENCEDGE_TEST_DEEP") != "1" {
		testenv.Missing(t, "deep", "HENCEDGE_TEST_DEEP is not 1")
	}
	p, err := henc.Named("boot15")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	set, err := keyholder.Create(filepath.Join(dir, "set"),
		keyholder.CreateOptions{Params: p,
			Needs: keyholder.Needs{Rotations: []int{}, Bootstrap: keyset.BootstrapSmall}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = set.Export(keyholder.RoleEvaluator, filepath.Join(dir, "export"), keyholder.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := LoadKeys(filepath.Join(dir, "export"), keyset.Anyone(), makeContext)
	if err != nil {
		t.Fatal(err)
	}
	ctx := keys[0].Context
	raw, err := os.ReadFile(filepath.Join(dir, "set", "epoch-0001", keyset.SecretFile))
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.Unmarshal(ctx, raw)
	if err != nil {
		t.Fatal(err)
	}
	lit, err := bootstrap.LiteralOf(p)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := bootstrap.NewPlan(p, lit)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bootstrap.New(ctx, plan, keys[0].Evaluation)
	if err != nil {
		t.Fatal(err)
	}
	ct, err := secret.NewSeededEncryptor(ctx, key).EncryptReal([]float64{0.5, -0.25}, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ct, err = b.Bootstrap(ct); err != nil {
		t.Fatal(err)
	}
	got, err := secret.NewDecryptor(ctx, key).DecryptReal(ct)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.5, -0.25, 0} {
		if d := got[i] - want; d > 0x1p-12 || d < -0x1p-12 {
			t.Errorf("slot %d is %g, want %g", i, got[i], want)
		}
	}
}

// TestLoadKeys reads what the key holder exports, and refuses what was changed.
func TestLoadKeys(t *testing.T) {
	p := parameters(t)
	set, err := keyholder.Create(filepath.Join(t.TempDir(), "set"),
		keyholder.CreateOptions{Params: p, Needs: keyholder.Needs{Rotations: []int{1, 2, 4}}})
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
	if len(keys) != 1 || keys[0].Evaluation.Epoch != 1 || keys[0].Evaluation.Relin == nil ||
		len(keys[0].Evaluation.Galois) != 3 {
		t.Fatalf("keys %+v", keys)
	}
	for name, spoil := range map[string]func(dir string) error{
		"no manifest":  func(dir string) error { return os.Remove(filepath.Join(dir, keyset.ManifestFile)) },
		"no signature": func(dir string) error { return os.Remove(filepath.Join(dir, keyset.SignedManifestFile)) },
		"no key": func(dir string) error {
			return os.Remove(filepath.Join(dir, "epoch-0001", keyset.EvaluationFile))
		},
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
		"changed key":  func(dir string) error { return flip(filepath.Join(dir, "epoch-0001", keyset.EvaluationFile)) },
		"changed seal": func(dir string) error { return flip(filepath.Join(dir, keyset.SignedManifestFile)) },
		"key is a directory": func(dir string) error {
			f := filepath.Join(dir, "epoch-0001", keyset.EvaluationFile)
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
	if _, err := LoadKeys(set.Dir(), pinned, makeContext); !errors.Is(err, keyset.ErrSecret) ||
		!errors.Is(err, ErrKeys) {
		t.Errorf("a key set: %v", err)
	}
	beside := export(t)
	if err := os.WriteFile(filepath.Join(beside, "epoch-0001", keyset.SecretFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeys(beside, pinned, makeContext); !errors.Is(err, keyset.ErrSecret) {
		t.Errorf("a secret key beside an evaluation key: %v", err)
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

// TestLoadCompactKeys: the keys of devices come with an export, also those that were added after it was read.
func TestLoadCompactKeys(t *testing.T) {
	p, err := henc.Named("boot15")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	set, err := keyholder.Create(filepath.Join(dir, "set"), keyholder.CreateOptions{Params: p,
		Needs: keyholder.Needs{Rotations: []int{}, NoRelinearise: true}})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "export")
	export := func(device string) {
		t.Helper()
		if device != "" {
			if _, err := set.AddDevice(device, keyholder.DeviceOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if _, err := set.Export(keyholder.RoleEvaluator, at, keyholder.ExportOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	load := func() Keys {
		t.Helper()
		keys, err := LoadKeys(at, keyset.Anyone(), makeContext)
		if err != nil {
			t.Fatal(err)
		}
		return keys[0]
	}
	export("")
	if k := load(); k.Compact != nil {
		t.Error("there are keys of compact windows for no device")
	}
	export("pump-1")
	k := load()
	if k.Compact == nil || k.Compact.Set.Name() != "compact12" || k.Compact.Join == nil || len(k.Compact.Pack) != 12 {
		t.Fatalf("%+v", k.Compact)
	}
	side, err := (&compacts{keys: map[transport.KeyRef]*CompactKeys{k.Ref(): k.Compact}}).of(k.Context, k.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := side.key("pump-1"); err != nil {
		t.Error(err)
	}
	export("pump-2")
	if _, err := side.key("pump-2"); err != nil {
		t.Errorf("a device that was added: %v", err)
	}
	if _, err := side.key("pump-3"); !errors.Is(err, ErrNoDeviceKey) {
		t.Errorf("a device without a key: %v", err)
	}
	d := &device{ctx: k.Context, compacts: compacts{}}
	if _, err := d.compacts.of(k.Context, k.Ref()); !errors.Is(err, ErrNoDeviceKey) {
		t.Errorf("a key set without compact windows: %v", err)
	}
}
