package keyset_test

import (
	"crypto/ed25519"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

func exported(t *testing.T, role keyholder.Role) (dir string, set *keyholder.Set) {
	t.Helper()
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	set, err = keyholder.Create(filepath.Join(t.TempDir(), "set"),
		keyholder.CreateOptions{Params: p, Needs: keyholder.Needs{Rotations: []int{1}}})
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "out")
	if _, err := set.Export(role, dir, keyholder.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	return dir, set
}

func trust(t *testing.T, holders ...string) keyset.Trust {
	t.Helper()
	tr, err := keyset.Trusted(holders...)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestExportOfAnotherHolder: an export that somebody else signed is whole, and refused
// where the holder is pinned, whichever way.
func TestExportOfAnotherHolder(t *testing.T) {
	dir, set := exported(t, keyholder.RoleAgent)
	_, other := exported(t, keyholder.RoleAgent)
	mine, theirs := set.Manifest(), other.Manifest()
	for _, tr := range []keyset.Trust{trust(t, mine.Signer), trust(t, mine.Fingerprint()),
		trust(t, theirs.Fingerprint(), mine.Fingerprint()), trust(t, "none"), keyset.Anyone()} {
		if x, err := keyset.OpenExport(dir, tr); err != nil || !x.Holder.Equal(mustKey(t, mine.Signer)) {
			t.Errorf("own holder: %v", err)
		}
	}
	for _, tr := range []keyset.Trust{trust(t, theirs.Signer), trust(t, theirs.Fingerprint())} {
		_, err := keyset.OpenExport(dir, tr)
		if !errors.Is(err, keyset.ErrHolder) || !strings.Contains(err.Error(), mine.Fingerprint()) ||
			!strings.Contains(err.Error(), theirs.Fingerprint()) {
			t.Errorf("another holder: %v", err)
		}
	}
	if _, err := keyset.OpenExport(dir, keyset.Trust{}); !errors.Is(err, keyset.ErrNoHolder) {
		t.Errorf("no holder: %v", err)
	}
	// Whoever writes the trusted key into a manifest has not signed it.
	path := filepath.Join(dir, keyset.ManifestFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(raw), mine.Signer, theirs.Signer, 1)), 0o644); err !=
		nil {
		t.Fatal(err)
	}
	if _, err := keyset.OpenExport(dir, trust(t, theirs.Signer)); !errors.Is(err, keyset.ErrCorrupt) {
		t.Errorf("signer replaced: %v", err)
	}
}

func mustKey(t *testing.T, text string) ed25519.PublicKey {
	t.Helper()
	pub, err := transport.ParsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return pub
}

func TestExportFindsChanges(t *testing.T) {
	dir, set := exported(t, keyholder.RoleEvaluator)
	m := set.Manifest()
	tr := trust(t, m.Fingerprint())
	verify := func() error {
		x, err := keyset.OpenExport(dir, tr)
		if err != nil {
			return err
		}
		readErr := x.Stream(x.Manifest.Current(), keyset.EvaluationFile, func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		err = x.Verify()
		if (readErr == nil) != (err == nil) {
			t.Errorf("Stream says %v, Verify %v", readErr, err)
		}
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"epoch-0001/evaluation.key", keyset.ManifestFile, keyset.SignedManifestFile} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := verify(); err == nil {
			t.Errorf("a flipped bit in %s was not found", name)
		}
		if err := os.WriteFile(path, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStreamFindsLateChanges: a file that changes after it was verified, or of which something is left,
// is refused.
func TestStreamFindsLateChanges(t *testing.T) {
	dir, set := exported(t, keyholder.RoleEvaluator)
	m := set.Manifest()
	x, err := keyset.OpenExport(dir, trust(t, m.Fingerprint()))
	if err != nil {
		t.Fatal(err)
	}
	current := x.Manifest.Current()
	path := x.Path(current, keyset.EvaluationFile)
	for name, read := range map[string]func(r io.Reader) error{
		"read in part": func(r io.Reader) error { _, err := io.CopyN(io.Discard, r, 100); return err },
		"changed": func(r io.Reader) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("late"), current.EvaluationBytes-4)
			_, e := io.Copy(io.Discard, r)
			return errors.Join(err, e, f.Close())
		},
	} {
		if err := x.Stream(current, keyset.EvaluationFile, read); !errors.Is(err, keyset.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	called := false
	err = x.Stream(current, keyset.EvaluationFile, func(io.Reader) error { called = true; return nil })
	if !errors.Is(err, keyset.ErrCorrupt) || called {
		t.Errorf("a changed file: %v, read %t", err, called)
	}
}

func TestTrusted(t *testing.T) {
	for _, c := range []struct {
		holders []string
		want    error
	}{
		{nil, keyset.ErrNoHolder},
		{[]string{""}, keyset.ErrNoHolder},
		{[]string{"none", "none"}, transport.ErrMalformed},
		{[]string{"ed25519:AAAA"}, transport.ErrMalformed},
		{[]string{"SHA256:AAAA"}, transport.ErrMalformed},
		{[]string{"k7qd2-4mzra"}, transport.ErrFingerprint},
		{[]string{"K7QD2 4MZRA xxb3e jq6hn 2hvwp"}, nil},
	} {
		if _, err := keyset.Trusted(c.holders...); !errors.Is(err, c.want) {
			t.Errorf("%q: %v", c.holders, err)
		}
	}
}

// TestKeySetIsNoExport: a directory with the holder's secret keys, in the place of an
// export, is called what it is.
func TestKeySetIsNoExport(t *testing.T) {
	dir, set := exported(t, keyholder.RoleEvaluator)
	m := set.Manifest()
	_, err := keyset.OpenExport(set.Dir(), trust(t, m.Signer))
	if !errors.Is(err, keyset.ErrSecret) || !strings.Contains(err.Error(), "holder.key") ||
		!strings.Contains(err.Error(), "decrypts everything") {
		t.Errorf("a key set: %v", err)
	}
	if got := keyset.Secrets(set.Dir()); len(got) != 2 {
		t.Errorf("secrets of a key set: %q", got)
	}
	if got := keyset.Secrets(dir); len(got) != 0 {
		t.Errorf("secrets of an export: %q", got)
	}
	odd := filepath.Join(t.TempDir(), "a[b]*c")
	if err := errors.Join(os.Mkdir(odd, 0o700), os.WriteFile(filepath.Join(odd, keyset.SecretFile), nil, 0o600)); err !=
		nil {
		t.Fatal(err)
	}
	if got := keyset.Secrets(odd); len(got) != 1 {
		t.Errorf("secrets of %s: %q", odd, got)
	}
}
