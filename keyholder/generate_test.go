package keyholder

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/cryptotest"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyset"
)

// readChecked reads a public file of an epoch.
func readChecked(s *Set, e Epoch, name string) ([]byte, error) {
	var b bytes.Buffer
	err := s.copyChecked(&b, e, name)
	return b.Bytes(), err
}

// names are what a directory holds, but for the lock.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			out = append(out, e.Name())
		}
	}
	return out
}

// TestProgress: each key is told, and an error from there ends the making without a trace.
func TestProgress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	o := CreateOptions{Params: params(t, "edge12-d1"), Needs: Needs{Rotations: []int{1, 2}, Conjugation: true}}
	const total = 5 // public, relinearisation, three Galois keys
	stop := errors.New("enough")
	for at := range total {
		o.Progress = func(p Progress) error {
			if p.Total != total {
				t.Errorf("%+v, want %d in all", p, total)
			}
			if p.Done == at {
				return stop
			}
			return nil
		}
		if _, err := Create(dir, o); !errors.Is(err, stop) {
			t.Fatalf("stopped after %d keys: %v", at, err)
		}
		if left := names(t, dir); len(left) > 0 {
			t.Fatalf("stopped after %d keys, %q is left", at, left)
		}
	}
	told := []int{}
	o.Progress = func(p Progress) error { told = append(told, p.Done); return nil }
	s, err := Create(dir, o)
	if err != nil || !slices.Equal(told, []int{0, 1, 2, 3, 4, 5}) {
		t.Fatalf("told %v: %v", told, err)
	}
	before := names(t, dir)
	_, err = s.Rotate(RotateOptions{Progress: func(p Progress) error {
		if p.Done == 3 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || !slices.Equal(names(t, dir), before) {
		t.Errorf("a stopped rotation: %v, %q is there, was %q", err, names(t, dir), before)
	}
	again, err := Open(dir)
	if err != nil || len(again.Manifest().Epochs) != 1 {
		t.Errorf("after a stopped rotation: %v", err)
	}
}

// TestKilledWhileMaking: what a killed process left, secrets too, goes with the next
// making of keys; other files stay and are named.
func TestKilledWhileMaking(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	left := filepath.Join(dir, temporaryEpoch+"123")
	o := CreateOptions{Params: params(t, "edge12-add")}
	leave := func(files ...string) {
		t.Helper()
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(left, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave(PublicFile, SecretFile, "."+EvaluationFile+"8231", "mine")
	if _, err := Create(dir, o); !errors.Is(err, ErrExists) {
		t.Fatalf("a directory with another's file: %v", err)
	}
	if got := names(t, left); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("%q is left", got)
	}
	if err := os.Remove(filepath.Join(left, "mine")); err != nil {
		t.Fatal(err)
	}
	leave(SecretFile)
	s, err := Create(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	leave(SecretFile)
	if _, err := s.Rotate(RotateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); err == nil {
		t.Error("the remains of a killed rotation are still there")
	}
}

// TestKeysAreHedged: two machines whose kernels give the same random bytes, and one that
// gives them twice, make different keys.
func TestKeysAreHedged(t *testing.T) {
	o := CreateOptions{Params: params(t, "edge12-add"), Now: at(day0)}
	seen := map[string]bool{}
	for range 3 {
		cryptotest.SetGlobalRandom(t, 1)
		s, err := Create(filepath.Join(t.TempDir(), "keys"), o)
		if err != nil {
			t.Fatal(err)
		}
		cryptotest.SetGlobalRandom(t, 1)
		if _, err := s.Rotate(RotateOptions{Now: at(day0)}); err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Manifest().Epochs {
			if seen[e.KeyID] {
				t.Errorf("key %s was made twice", e.KeyID)
			}
			seen[e.KeyID] = true
		}
	}
}

// TestBootstrapNeeds: the keys of bootstrapping are whole, within the sizes that the documentation states,
// and only for sets that have levels for them.
func TestBootstrapNeeds(t *testing.T) {
	for _, c := range []struct {
		params  string
		kind    keyset.Bootstrap
		keys    int
		largest float64 // GiB
	}{
		{"boot15", keyset.BootstrapFast, 48, 1.6},
		{"boot15", keyset.BootstrapSmall, 20, 0.65},
		{"boot16", keyset.BootstrapFast, 50, 3.5},
		{"boot16", keyset.BootstrapSmall, 21, 1.5},
	} {
		p := params(t, c.params)
		keys, size, err := Needs{Bootstrap: c.kind}.Size(p)
		if err != nil || keys != c.keys || float64(size) > c.largest*(1<<30) || size < 1<<28 {
			t.Errorf("%s, %s: %d keys of %d bytes, %v", c.params, c.kind, keys, size, err)
		}
		n, err := Needs{Rotations: []int{3}, NoRelinearise: true, Bootstrap: c.kind}.normalise(p)
		if err != nil || !n.Conjugation || n.NoRelinearise || !slices.IsSorted(n.Rotations) ||
			n.Rotations[0] < 1 || n.Rotations[len(n.Rotations)-1] != p.Slots()-16 || !slices.Contains(n.Rotations, 3) {
			t.Errorf("%s, %s: %+v, %v", c.params, c.kind, n, err)
		}
	}
	none := Needs{Bootstrap: keyset.BootstrapFast}
	if _, _, err := none.Size(params(t, "edge13-d3")); !errors.Is(err, henc.ErrUnknownSet) {
		t.Errorf("a set without levels: %v", err)
	}
	if _, _, err := (Needs{Bootstrap: "large"}).Size(params(t, "boot15")); err == nil {
		t.Error("keys of an unknown kind")
	}
}
