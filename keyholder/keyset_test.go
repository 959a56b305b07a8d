package keyholder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/keyset"
)

func params(t *testing.T, name string) henc.Parameters {
	t.Helper()
	p, err := henc.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// day0 is the time at which the sets of these tests are made.
var day0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

// newSet makes a small key set with the rotations 1 and 2.
func newSet(t *testing.T) *Set {
	t.Helper()
	s, err := Create(filepath.Join(t.TempDir(), "keys"), CreateOptions{
		Params: params(t, "edge12-d1"), Needs: Needs{Rotations: []int{2, 1, 2}}, Now: at(day0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestCreateWritesASetThatOpens(t *testing.T) {
	s := newSet(t)
	for path, want := range map[string]fs.FileMode{
		"": 0o700, "epoch-0001": 0o700, "epoch-0001/secret.key": 0o600, "holder.key": 0o600,
		"keyset.json": 0o644, "epoch-0001/public.key": 0o644, "epoch-0001/evaluation.key": 0o644,
	} {
		if got := mode(t, filepath.Join(s.Dir(), path)); got != want {
			t.Errorf("%q has mode %04o, want %04o", path, got, want)
		}
	}
	again, err := Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	m := again.Manifest()
	if m.Params != "edge12-d1" || len(m.Epochs) != 1 || m.Epochs[0].Epoch != 1 ||
		!slices.Equal(m.Epochs[0].Rotations, []int{1, 2}) || !m.Epochs[0].Relinearise {
		t.Errorf("manifest %+v", m)
	}
	ctx, err := henc.NewContext(s.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	b, err := readChecked(again, m.Epochs[0], EvaluationFile)
	if err != nil {
		t.Fatal(err)
	}
	evk, err := ctx.UnmarshalEvaluationKeys(b)
	if err != nil {
		t.Fatal(err)
	}
	id, err := m.Epochs[0].ID()
	if err != nil || evk.KeyID != id || evk.Epoch != 1 || len(evk.Galois) != 2 || evk.Relin == nil {
		t.Errorf("evaluation keys %x epoch %d, %d Galois keys; manifest %x, %v", evk.KeyID, evk.Epoch,
			len(evk.Galois), id,
			err)
	}
	key, err := again.loadSecret(ctx, m.Epochs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Wipe(); err != nil {
		t.Error(err)
	}
}

func TestManifestHoldsNoSecret(t *testing.T) {
	s := newSet(t)
	b, err := os.ReadFile(filepath.Join(s.Dir(), ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	holder, err := os.ReadFile(filepath.Join(s.Dir(), signerFile))
	if err != nil {
		t.Fatal(err)
	}
	seed := strings.TrimPrefix(strings.TrimSpace(string(holder)), "ed25519-secret:")
	if strings.Contains(string(b), seed) || strings.Contains(string(b), "secret.key") {
		t.Error("the manifest holds or lists a secret")
	}
}

func TestCreateRefuses(t *testing.T) {
	s := newSet(t)
	p := params(t, "edge12-d1")
	if _, err := Create(s.Dir(), CreateOptions{Params: p}); !errors.Is(err, ErrExists) {
		t.Errorf("over a key set: %v", err)
	}
	full := t.TempDir()
	if err := os.Chmod(full, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(full, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(full, CreateOptions{Params: p}); !errors.Is(err, ErrExists) {
		t.Errorf("over other files: %v", err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(open, CreateOptions{Params: p}); !errors.Is(err, ErrPermissions) {
		t.Errorf("in a directory that others can enter: %v", err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "x"), CreateOptions{}); err == nil {
		t.Error("without parameters")
	}
	dir := filepath.Join(t.TempDir(), "x")
	if _, err := Create(dir, CreateOptions{Params: params(t, "edge12-add"),
		Needs: Needs{Rotations: []int{1}}}); err == nil {
		t.Error("rotations were made without special primes")
	}
	// A failed creation leaves nothing that stands in the way of the next.
	if _, err := Create(dir, CreateOptions{Params: params(t, "edge12-add")}); err != nil {
		t.Errorf("after a failed attempt: %v", err)
	}
}

func TestInsecureKeysAreNeverWritten(t *testing.T) {
	p, err := henc.NamedInsecure("bench-paper16-insecure")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := Create(dir, CreateOptions{Params: p}); !errors.Is(err, ErrInsecure) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

func TestDefaultRotationsReachEveryOne(t *testing.T) {
	p := params(t, "edge12-d1")
	r := PowersOfTwo(p)
	sum := 0
	for i, k := range r {
		if k != 1<<i {
			t.Errorf("rotation %d is %d", i, k)
		}
		sum += k
	}
	if sum != p.Slots()-1 {
		t.Errorf("together they reach %d of %d", sum, p.Slots()-1)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNoKeySet) {
		t.Errorf("empty directory: %v", err)
	}
	s := newSet(t)
	if err := os.Chmod(s.Dir(), 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Dir()); !errors.Is(err, ErrPermissions) || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("open directory: %v", err)
	}
	if err := os.Chmod(s.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir(), ManifestFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func(m map[string]any)) []byte {
		var m map[string]any
		if err := json.Unmarshal(good, &m); err != nil {
			t.Fatal(err)
		}
		f(m)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	epochs := func(m map[string]any) []any { return m["epochs"].([]any) }
	for name, b := range map[string][]byte{
		"empty":            nil,
		"truncated":        good[:len(good)/2],
		"trailing":         append(slices.Clone(good), '{'),
		"unknown field":    edit(func(m map[string]any) { m["extra"] = 1 }),
		"version":          edit(func(m map[string]any) { m["version"] = 2 }),
		"no epochs":        edit(func(m map[string]any) { m["epochs"] = []any{} }),
		"same epoch twice": edit(func(m map[string]any) { m["epochs"] = append(epochs(m), epochs(m)[0]) }),
		"key id":           edit(func(m map[string]any) { epochs(m)[0].(map[string]any)["key_id"] = "abcd" }),
		"parameters":       edit(func(m map[string]any) { m["params"] = "edge13-d3" }),
		"unknown set":      edit(func(m map[string]any) { m["params"] = "edge99" }),
		"insecure set":     edit(func(m map[string]any) { m["params"] = "bench-paper16-insecure" }),
		"hash":             edit(func(m map[string]any) { m["params_hash"] = "00" }),
	} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(s.Dir()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSecretReadableByOthersIsRefused(t *testing.T) {
	s := newSet(t)
	ctx, err := henc.NewContext(s.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir(), "epoch-0001", SecretFile)
	for _, m := range []fs.FileMode{0o640, 0o604, 0o620, 0o601} {
		if err := os.Chmod(path, m); err != nil {
			t.Fatal(err)
		}
		if _, err := s.loadSecret(ctx, s.manifest.Current()); !errors.Is(err, ErrPermissions) ||
			!strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %04o: %v", m, err)
		}
		if _, err := s.Export(RoleAgent, filepath.Join(t.TempDir(), "x"),
			ExportOptions{Symmetric: true}); !errors.Is(err,
			ErrPermissions) {
			t.Errorf("export with mode %04o: %v", m, err)
		}
	}
}

func TestSwappedSecretIsFound(t *testing.T) {
	a, b := newSet(t), newSet(t)
	other, err := os.ReadFile(filepath.Join(b.Dir(), "epoch-0001", SecretFile))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(a.Dir(), "epoch-0001", SecretFile)
	if err := os.WriteFile(path, other, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(a.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.loadSecret(ctx, a.manifest.Current()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, other[:len(other)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.loadSecret(ctx, a.manifest.Current()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("truncated: got %v", err)
	}
}

func TestRotate(t *testing.T) {
	s := newSet(t)
	stale, err := Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	day9 := day0.AddDate(0, 0, 9)
	e, err := s.Rotate(RotateOptions{Overlap: 48 * time.Hour, Now: at(day9)})
	if err != nil {
		t.Fatal(err)
	}
	m := s.Manifest()
	if e.Epoch != 2 || m.Current().KeyID != e.KeyID || m.Epochs[0].KeyID == e.KeyID {
		t.Errorf("epochs %+v", m.Epochs)
	}
	if !m.Epochs[0].AcceptUntil.Equal(day9.Add(48*time.Hour)) || !e.AcceptUntil.IsZero() {
		t.Errorf("overlap ends %v, new epoch %v", m.Epochs[0].AcceptUntil, e.AcceptUntil)
	}
	if !slices.Equal(e.Rotations, []int{1, 2}) || !e.Relinearise {
		t.Errorf("the needs were not kept: %+v", e)
	}
	// A set that was opened before must not overwrite the rotation.
	third, err := stale.Rotate(RotateOptions{Needs: &Needs{Rotations: []int{4}, NoRelinearise: true}, Now: at(day9)})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if third.Epoch != 3 || len(again.Manifest().Epochs) != 3 || third.Relinearise ||
		!slices.Equal(third.Rotations, []int{4}) {
		t.Errorf("third %+v of %d", third, len(again.Manifest().Epochs))
	}
	// Both secret keys still load, each as itself.
	ctx, err := henc.NewContext(s.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range again.Manifest().Epochs {
		k, err := again.loadSecret(ctx, e)
		if err != nil {
			t.Fatalf("epoch %d: %v", e.Epoch, err)
		}
		if k.Epoch() != e.Epoch {
			t.Errorf("epoch %d loads as %d", e.Epoch, k.Epoch())
		}
	}
}

func TestRotateSkipsWhatAnInterruptedRotationLeft(t *testing.T) {
	s := newSet(t)
	if err := os.Mkdir(filepath.Join(s.Dir(), "epoch-0002"), 0o700); err != nil {
		t.Fatal(err)
	}
	e, err := s.Rotate(RotateOptions{})
	if err != nil || e.Epoch != 3 {
		t.Errorf("epoch %d, %v", e.Epoch, err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	s := newSet(t)
	unlock, err := lock(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate(RotateOptions{}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("got %v", err)
	}
	unlock()
	if _, err := s.Rotate(RotateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestExport(t *testing.T) {
	s := newSet(t)
	if _, err := s.Rotate(RotateOptions{Overlap: time.Hour, Now: at(day0.AddDate(0, 1, 0))}); err != nil {
		t.Fatal(err)
	}
	later := at(day0.AddDate(0, 2, 0))
	cases := []struct {
		name string
		role Role
		o    ExportOptions
		want []string
	}{
		{"agent", RoleAgent, ExportOptions{}, []string{"keyset.cose", "keyset.json", "public.key"}},
		{"symmetric agent", RoleAgent, ExportOptions{Symmetric: true},
			[]string{"keyset.cose", "keyset.json", "public.key", "secret.key"}},
		{"evaluator in the overlap", RoleEvaluator, ExportOptions{Now: at(day0.AddDate(0, 1, 0))},
			[]string{"epoch-0001/evaluation.key", "epoch-0002/evaluation.key", "keyset.cose", "keyset.json"}},
		{"evaluator", RoleEvaluator, ExportOptions{Now: later}, []string{"epoch-0002/evaluation.key", "keyset.cose",
			"keyset.json"}},
		{"evaluator, old epoch", RoleEvaluator, ExportOptions{Epoch: 1},
			[]string{"epoch-0001/evaluation.key", "keyset.cose", "keyset.json"}},
	}
	for _, c := range cases {
		dir := filepath.Join(t.TempDir(), "out")
		out, err := s.Export(c.role, dir, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var found []string
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(dir, path)
				found = append(found, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found)
		listed := slices.Clone(out.Files)
		slices.Sort(listed)
		if !slices.Equal(found, c.want) || !slices.Equal(listed, c.want) {
			t.Errorf("%s: wrote %v, listed %v, want %v", c.name, found, listed, c.want)
		}
		want := fs.FileMode(0o755)
		if c.o.Symmetric {
			want = 0o700
		}
		if mode(t, dir) != want || (c.o.Symmetric && mode(t, filepath.Join(dir, SecretFile)) != 0o600) {
			t.Errorf("%s: modes", c.name)
		}
		m, err := verifyExport(dir, s.manifest.Signer)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if len(m.Epochs) != len(out.Epochs) {
			t.Errorf("%s: %d epochs in the manifest, %v exported", c.name, len(m.Epochs), out.Epochs)
		}
		if out.Secret != c.o.Symmetric {
			t.Errorf("%s: secret %v", c.name, out.Secret)
		}
	}
}

// TestExportTells: an export tells how far it is. One that is interrupted leaves an empty
// directory, and can be made again.
func TestExportTells(t *testing.T) {
	s := newSet(t)
	dir, stop := filepath.Join(t.TempDir(), "out"), errors.New("interrupted")
	_, err := s.Export(RoleEvaluator, dir, ExportOptions{Progress: func(done, total int64) error {
		if done > total/2 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Fatalf("%d files are left, %v", len(list), err)
	}
	var last, all int64
	if _, err := s.Export(RoleEvaluator, dir, ExportOptions{Progress: func(done, total int64) error {
		if done <= last {
			t.Errorf("%d bytes after %d", done, last)
		}
		last, all = done, total
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if last != all || all == 0 {
		t.Errorf("ended at %d of %d bytes", last, all)
	}
}

func TestExportRefuses(t *testing.T) {
	s := newSet(t)
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := s.Export("owner", dir, ExportOptions{}); err == nil {
		t.Error("unknown role")
	}
	if _, err := s.Export(RoleEvaluator, dir, ExportOptions{Symmetric: true}); err == nil {
		t.Error("the secret key went to an evaluator")
	}
	if _, err := s.Export(RoleAgent, dir, ExportOptions{Epoch: 7}); err == nil {
		t.Error("unknown epoch")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused export wrote something: %v", err)
	}
	if _, err := s.Export(RoleAgent, s.Dir(), ExportOptions{}); !errors.Is(err, ErrExists) {
		t.Errorf("into the key set: %v", err)
	}
	path := filepath.Join(s.Dir(), "epoch-0001", PublicFile)
	if err := os.WriteFile(path, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Export(RoleAgent, dir, ExportOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged public key: %v", err)
	}
}

// verifyExport verifies an export as those do who get it.
func verifyExport(dir string, holder string) (*Manifest, error) {
	trust, err := keyset.Trusted(holder)
	if err != nil {
		return nil, err
	}
	x, err := keyset.OpenExport(dir, trust)
	if err != nil {
		return nil, err
	}
	return x.Manifest, x.Verify()
}

func TestExportedSecretIsTheKey(t *testing.T) {
	s := newSet(t)
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := s.Export(RoleAgent, dir, ExportOptions{Symmetric: true}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, SecretFile))
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(s.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	k, err := secret.Unmarshal(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := s.manifest.Current().ID(); pub.KeyID != id {
		t.Errorf("key %x, want %x", pub.KeyID, id)
	}
}

func TestOwned(t *testing.T) {
	for _, c := range []struct {
		uid, me int
		ok      bool
	}{{1000, 1000, true}, {0, 1000, true}, {1000, 0, true}, {1001, 1000, false}} {
		if err := owned("x", c.uid, c.me); (err == nil) != c.ok || (err != nil && !errors.Is(err, ErrPermissions)) {
			t.Errorf("file of %d, user %d: %v", c.uid, c.me, err)
		}
	}
}

// TestImpossibleRotations: a rotation that the parameters do not have is refused, not
// taken for another one, and nothing is left behind.
func TestImpossibleRotations(t *testing.T) {
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{0, -1, p.Slots(), 5000} {
		dir := filepath.Join(t.TempDir(), "set")
		_, err := Create(dir, CreateOptions{Params: p, Needs: Needs{Rotations: []int{1, k}}})
		if !errors.Is(err, ErrRotation) ||
			!strings.Contains(err.Error(), fmt.Sprintf("by %d: edge12-d1 has 2048 slots", k)) {
			t.Errorf("rotation by %d: %v", k, err)
		}
		if _, err := Open(dir); !errors.Is(err, ErrNoKeySet) {
			t.Errorf("rotation by %d: a key set was left: %v", k, err)
		}
	}
}
