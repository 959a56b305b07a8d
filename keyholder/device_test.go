package keyholder

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// newCompactSet makes a key set for compact windows without evaluation keys.
func newCompactSet(t *testing.T) *Set {
	t.Helper()
	s, err := Create(filepath.Join(t.TempDir(), "keys"), CreateOptions{Params: params(t, "boot15"),
		Needs: Needs{Rotations: []int{}, NoRelinearise: true}, Now: at(day0)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func addDevice(t *testing.T, s *Set, name string) Epoch {
	t.Helper()
	e, err := s.AddDevice(name, DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// openExport exports and opens it as the role does.
func openExport(t *testing.T, s *Set, role Role, o ExportOptions) *keyset.Export {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := s.Export(role, dir, o); err != nil {
		t.Fatal(err)
	}
	trust, err := keyset.Trusted(s.manifest.Fingerprint())
	if err != nil {
		t.Fatal(err)
	}
	x, err := keyset.OpenExport(dir, trust)
	if err == nil {
		err = x.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// readBoard reads the board's key of an agent's export.
func readBoard(t *testing.T, x *keyset.Export) *secret.Key {
	t.Helper()
	set, _, err := x.Manifest.Current().CompactParameters(x.Params)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(set)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(x.Dir, keyset.BoardFile))
	if err != nil {
		t.Fatal(err)
	}
	k, err := secret.Unmarshal(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestDevice: what agent and evaluator get of two devices fits together. A window of one board is received with that
// board's key, and decrypts under the common secret.
func TestDevice(t *testing.T) {
	s := newCompactSet(t)
	addDevice(t, s, "pump-7")
	e := addDevice(t, s, "fan.2")
	if got := e.CompactDevices(); !slices.Equal(got, []string{"fan.2", "pump-7"}) {
		t.Fatalf("devices %q", got)
	}
	for name, want := range map[string]fs.FileMode{"compact-join.key": 0o644, "compact-pack.key": 0o644,
		"compact": 0o755, "compact/pump-7.key": 0o644} {
		if got := mode(t, filepath.Join(s.Dir(), "epoch-0001", name)); got != want {
			t.Errorf("%s has mode %04o, want %04o", name, got, want)
		}
	}

	agent := openExport(t, s, RoleAgent, ExportOptions{Device: "pump-7"})
	want := []string{"board.key", "keyset.cose", "keyset.json", "public.key"}
	if got := names(t, agent.Dir); !slices.Equal(got, want) {
		t.Errorf("an agent gets %q", got)
	}
	if mode(t, agent.Dir) != 0o700 || mode(t, filepath.Join(agent.Dir, "board.key")) != 0o600 {
		t.Error("the export for a board is open to others")
	}
	if got := agent.Manifest.Current().CompactDevices(); !slices.Equal(got, []string{"pump-7"}) {
		t.Errorf("an agent learns of %q", got)
	}
	board := readBoard(t, agent)
	if id, err := boardID(board); err != nil || id != agent.Manifest.Current().Compact.Devices[0].Board ||
		board.Epoch() != 1 {
		t.Errorf("the board's key is %s of epoch %d: %v", id, board.Epoch(), err)
	}

	evaluator := openExport(t, s, RoleEvaluator, ExportOptions{})
	if found := keyset.Secrets(evaluator.Dir); len(found) > 0 {
		t.Errorf("an evaluator gets %q", found)
	}
	checkSwitch(t, s, evaluator, board)
}

// checkSwitch receives a window of the board of pump-7 with the keys of an evaluator, and decrypts it with the common
// secret, which only the key holder can make.
func checkSwitch(t *testing.T, s *Set, x *keyset.Export, board *secret.Key) {
	t.Helper()
	e := x.Manifest.Current()
	set, smallParams, err := e.CompactParameters(x.Params)
	if err != nil {
		t.Fatal(err)
	}
	small, big := must(henc.NewContext(smallParams))(t), must(henc.NewContext(x.Params))(t)
	join, pack, err := x.CompactCommon(e, small, big)
	if err != nil || len(pack) != len(compact.PackElements(smallParams)) {
		t.Fatalf("%d Galois keys: %v", len(pack), err)
	}
	receiver := must(compact.NewReceiver(set, small, big, join))(t)
	if packer, err := receiver.NewPacker(pack); err != nil {
		t.Error(err)
	} else {
		packer.Free()
	}
	encryptor := must(secret.NewCompactEncryptor(board))(t)
	id, err := e.ID()
	if err != nil {
		t.Fatal(err)
	}
	origin := compact.Origin{Device: "pump-7", Stream: "env", KeyID: id, KeyEpoch: 1, BootEpoch: 2, Sequence: 3}
	readings := []float64{1, -1, 0, 0.25}
	window := must(encryptor.Encrypt(readings, compact.Bits16, origin, nil))(t)
	maker := must(s.compactMaker(e, nil))(t)
	defer maker.close()
	common := must(maker.key.CompactSecret(small))(t)
	for device, fits := range map[string]bool{"pump-7": true, "fan.2": false} {
		key := must(receiver.Prepare(must(x.CompactDevice(e, device, small))(t)))(t)
		ct := must(receiver.Receive(window, origin, key))(t)
		pt := must(secret.NewDecryptor(small, common).Decrypt(ct))(t)
		values, off := must(small.Encoder().Coeffs(pt))(t), 0.0
		for j, want := range readings {
			off = max(off, math.Abs(values[j*set.N()/len(readings)]/ct.Scale-want))
		}
		if (off < compact.Bits16.Bound()+0x1p-27) != fits {
			t.Errorf("with the key of %s it is off by %g", device, off)
		}
	}
	if _, err := x.CompactDevice(e, "pump-8", small); !errors.Is(err, keyset.ErrNoCompact) {
		t.Errorf("a device without keys: %v", err)
	}
}

// TestRotateDevices: a new epoch has new secrets for all devices but those that are dropped. Keys of one epoch are
// refused in the place of another's.
func TestRotateDevices(t *testing.T) {
	s := newCompactSet(t)
	for _, name := range []string{"a", "b", "c"} {
		addDevice(t, s, name)
	}
	var told []Progress
	e, err := s.Rotate(RotateOptions{Drop: []string{"b"}, Now: at(day0.Add(1)),
		Progress: func(p Progress) error { told = append(told, p); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if last := told[len(told)-1]; last.Done != last.Total || last.Total != 1+1+2 {
		t.Errorf("told %+v at last", last)
	}
	if got := e.CompactDevices(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("devices %q", got)
	}
	old := s.manifest.Epochs[0]
	if got := old.CompactDevices(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("devices of the first epoch %q", got)
	}
	if a, b := old.Compact.Devices[0], e.Compact.Devices[0]; a.Board == b.Board || a.SHA256 == b.SHA256 {
		t.Error("a board's secret is the same in two epochs")
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := s.Export(RoleAgent, out, ExportOptions{Device: "b"}); !errors.Is(err, keyset.ErrNoCompact) {
		t.Errorf("a dropped device: %v", err)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an export that failed left something: %v", err)
	}
	if _, err := s.Rotate(RotateOptions{Drop: []string{"b"}}); !errors.Is(err, keyset.ErrNoCompact) {
		t.Errorf("dropped twice: %v", err)
	}
	x := openExport(t, s, RoleEvaluator, ExportOptions{})
	_, smallParams, err := e.CompactParameters(x.Params)
	if err != nil {
		t.Fatal(err)
	}
	small := must(henc.NewContext(smallParams))(t)
	mixed := e
	mixed.Epoch, mixed.KeyID = 1, old.KeyID
	mixed.Compact = old.Compact
	if _, err := x.CompactDevice(mixed, "a", small); err != nil {
		t.Errorf("the first epoch: %v", err)
	}
	mixed.Epoch, mixed.Compact = 2, e.Compact
	if _, err := x.CompactDevice(mixed, "a", small); !errors.Is(err, keyset.ErrCorrupt) {
		t.Errorf("a key id of another epoch: %v", err)
	}
	path := x.Path(e, keyset.CompactFile("c"))
	b := must(os.ReadFile(path))(t)
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := x.CompactDevice(e, "c", small); !errors.Is(err, keyset.ErrCorrupt) {
		t.Errorf("a changed key: %v", err)
	}
	if err := x.Verify(); !errors.Is(err, keyset.ErrCorrupt) {
		t.Errorf("verify: %v", err)
	}
}

// TestDeviceRefuses: nothing is overwritten, and what cannot work is refused.
func TestDeviceRefuses(t *testing.T) {
	s := newCompactSet(t)
	first := addDevice(t, s, "pump-7")
	if _, err := s.AddDevice("pump-7", DeviceOptions{}); !errors.Is(err, ErrExists) {
		t.Errorf("twice: %v", err)
	}
	for _, name := range []string{"", "..", "a/b"} {
		if _, err := s.AddDevice(name, DeviceOptions{}); !errors.Is(err, transport.ErrMalformed) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := newSet(t).AddDevice("pump-7", DeviceOptions{}); !errors.Is(err, henc.ErrParams) {
		t.Errorf("parameters that do not bootstrap: %v", err)
	}
	for what, c := range map[string]struct {
		role Role
		o    ExportOptions
	}{
		"an evaluator": {RoleEvaluator, ExportOptions{Device: "pump-7"}},
		"two secrets":  {RoleAgent, ExportOptions{Device: "pump-7", Symmetric: true}},
		"a stranger":   {RoleAgent, ExportOptions{Device: "pump-8"}},
	} {
		if _, err := s.Export(c.role, filepath.Join(t.TempDir(), "x"), c.o); err == nil {
			t.Errorf("%s got a board's key", what)
		}
	}
	plain := openExport(t, s, RoleAgent, ExportOptions{})
	if plain.Manifest.Current().Compact != nil || mode(t, plain.Dir) != 0o755 {
		t.Error("an agent without a board's key learns of devices")
	}

	// A process that was killed before it wrote the manifest has left a file: it is made again, the same.
	m := s.manifest
	m.Epochs[0].Compact, m.Epochs[0].Files = nil, map[string]string{PublicFile: first.Files[PublicFile],
		EvaluationFile: first.Files[EvaluationFile]}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	again := addDevice(t, s, "pump-7")
	if again.Compact.Devices[0] != first.Compact.Devices[0] ||
		again.Files[keyset.CompactJoinFile] != first.Files[keyset.CompactJoinFile] {
		t.Error("the same device got other keys")
	}

	// One that was killed while it made an epoch leaves nothing in the end.
	left := filepath.Join(s.Dir(), temporaryEpoch+"123", keyset.CompactDir)
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pump-7.key", ".pump-7.key8231", "../" + keyset.CompactPackFile} {
		if err := os.WriteFile(filepath.Join(left, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Rotate(RotateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.Dir()); !slices.Equal(got, []string{"epoch-0001", "epoch-0002", "holder.key", "keyset.json"}) {
		t.Errorf("%q is there", got)
	}
}

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }
