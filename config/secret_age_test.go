package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// sealedFile encrypts text with age for id.
func sealedFile(t *testing.T, path, text string, armored bool, to age.Recipient) {
	t.Helper()
	var b bytes.Buffer
	seal := func(w *bytes.Buffer) {
		if armored {
			a := armor.NewWriter(w)
			defer a.Close()
			e, err := age.Encrypt(a, to)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if _, err := e.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			return
		}
		e, err := age.Encrypt(w, to)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if _, err := e.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	seal(&b)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAgeSecret(t *testing.T) {
	dir, creds := t.TempDir(), t.TempDir()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(creds, "age-identity"), "# created: today\n"+id.String()+"\n")
	write(filepath.Join(dir, "id"), id.String())
	write(filepath.Join(dir, "other"), other.String())
	write(filepath.Join(dir, "junk"), "AGE-SECRET-KEY-1NOTREALLY")
	t.Setenv("CREDENTIALS_DIRECTORY", creds)
	t.Setenv("AGE_ID", id.String())
	plain, text := filepath.Join(dir, "a@b.age"), filepath.Join(dir, "text.age")
	sealedFile(t, plain, "sesame\n", false, id.Recipient())
	sealedFile(t, text, "sesame", true, id.Recipient())
	for _, ref := range []string{"age:" + plain, "age:" + text + "@file:" + dir + "/id", "age:" + plain + "@env:AGE_ID",
		"age:" + plain + "@cred:age-identity"} {
		if got, err := Secret(ref).Resolve(); err != nil || string(got) != "sesame" {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
		if p := Secret(ref).problem(); p != "" {
			t.Errorf("%s: %s", ref, p)
		}
	}
	if err := os.Truncate(text, 120); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"age:" + plain + "@file:" + dir + "/other", "age:" + plain + "@file:" + dir + "/junk",
		"age:" + plain + "@cred:none",
		"age:" + dir + "/none", "age:" + dir + "/id", "age:" + text} {
		got, err := Secret(ref).Resolve()
		if !errors.Is(err, ErrSecret) || got != nil {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "SECRET-KEY-1") || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("%s: the error tells the secret: %v", ref, err)
		}
	}
}

// A path may be a credential, and only where there are credentials.
func TestCredentialAsPath(t *testing.T) {
	data, err := os.ReadFile("examples/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const before, after = "signing_key: /var/lib/hencedge/agent/signing.key", "signing_key: cred:device"
	text := strings.Replace(string(data), before, after, 1)
	t.Setenv("CREDENTIALS_DIRECTORY", "/run/credentials/x")
	a, err := ParseAgent("/etc/hencedge/agent.yaml", []byte(text))
	if err != nil || a.SigningKey != "/run/credentials/x/device" || a.Keys.PublicKey != "/etc/hencedge/public.key" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := ParseAgent("a.yaml", []byte(strings.Replace(text, "cred:device", "cred:../device", 1))); err == nil {
		t.Error("a credential outside of the directory was taken")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, err := ParseAgent("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(),
		"LoadCredential=device") {
		t.Errorf("%v", err)
	}
}
