package keyholder

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/cryptotest"
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
