package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSigningKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing.key")
	k, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	got, err := LoadSigningKey(path)
	if err != nil || !got.priv.Equal(k.priv) || got.kid != k.kid {
		t.Fatalf("loaded another key: %v", err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Save(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second key: %v", err)
	}
	after, err := os.ReadFile(path)
	list, _ := os.ReadDir(filepath.Dir(path))
	if err != nil || !bytes.Equal(before, after) || len(list) != 1 {
		t.Errorf("the first key was changed, or something is left: %v, %v", list, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadSigningKey(path); !errors.Is(err, ErrKeyFile) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := LoadSigningKey(t.TempDir()); err == nil {
		t.Error("a directory was loaded")
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadSigningKey(big); !errors.Is(err, ErrKeyFile) {
		t.Errorf("big file: %v", err)
	}
}

// Of several that make a device's key at once one wins, and everybody who looks sees
// no key or a whole one: as after a power cut.
func TestSigningKeyAppearsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing.key")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	seen := make(chan error, 1)
	go func() {
		for {
			if _, err := LoadSigningKey(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				seen <- err
				return
			}
			select {
			case <-stop:
				seen <- nil
				return
			default:
			}
		}
	}()
	var saved atomic.Int32
	for range 8 {
		k, err := NewSigningKey()
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			switch err := k.Save(path); {
			case err == nil:
				saved.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(stop)
	if err := <-seen; err != nil {
		t.Errorf("a part of a key was seen: %v", err)
	}
	if saved.Load() != 1 {
		t.Errorf("%d keys were saved under one name", saved.Load())
	}
	dir := t.TempDir()
	for _, name := range []string{"new", "there"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(filepath.Join(dir, "new"), filepath.Join(dir, "there")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("published over a file: %v", err)
	}
}

func TestParseKeys(t *testing.T) {
	k := testKey(t, "a")
	secret, err := k.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(secret), string(secret) + "\n", "\t" + string(secret) + "\r\n"} {
		if got, err := ParseSigningKey([]byte(text)); err != nil || !got.priv.Equal(k.priv) {
			t.Errorf("%v", err)
		}
	}
	pub, err := ParsePublicKey(k.PublicText())
	if err != nil || !pub.Equal(k.Public()) {
		t.Errorf("%v", err)
	}
	body := strings.TrimPrefix(string(secret), secretScheme)
	for _, text := range []string{"", "ed25519-secret:", body, secretScheme + body[1:], secretScheme + body + "A",
		secretScheme + body[:20] + "\n" + body[21:],
		secretScheme + strings.Replace(body, "=", "A", 1), k.PublicText(), strings.ToUpper(string(secret)),
		strings.Repeat("x", 5000)} {
		_, err := ParseSigningKey([]byte(text))
		if err == nil {
			t.Errorf("accepted %q", text)
		} else if strings.Contains(err.Error(), body[3:20]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	for _, text := range []string{"", "ed25519:", string(secret), k.PublicText() + "=", k.PublicText()[1:],
		"ed25519:" + strings.Repeat("A", 43) + "B"} {
		if _, err := ParsePublicKey(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		} else if strings.Contains(err.Error(), body[3:20]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	// Trailing bits that are not zero would give one key two texts.
	if _, err := ParsePublicKey("ed25519:" + strings.Repeat("A", 42) + "B="); err == nil {
		t.Error("accepted base64 with stray bits")
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	k := testKey(t, "a")
	text, _ := k.MarshalText()
	secret := strings.TrimPrefix(string(text), secretScheme)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k)
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s", k, k, k, k), log.String()} {
		if strings.Contains(s, secret) || strings.Contains(s, fmt.Sprint(k.priv[0], " ", k.priv[1])) ||
			!strings.Contains(s, k.PublicText()) {
			t.Errorf("printed %q", s)
		}
	}
	k.Wipe()
	if !bytes.Equal(k.priv[:32], make([]byte, 32)) {
		t.Error("not wiped")
	}
	if _, err := Seal(testReading(1), nil, k); err == nil {
		t.Error("a wiped key signs")
	}
	if _, err := SigningKeyFromSeed(make([]byte, 31)); err == nil {
		t.Error("short seed")
	}
}

// TestSignText: a signature is good for its text, its purpose and its key, and a wiped key
// makes none.
func TestSignText(t *testing.T) {
	key, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("text")
	signature, err := key.SignText("purpose", text)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{
		"right":           VerifyText(key.Public(), "purpose", text, signature),
		"another purpose": !VerifyText(key.Public(), "purpos", append([]byte("e"), text...), signature),
		"another text":    !VerifyText(key.Public(), "purpose", []byte("texts"), signature),
		"another key":     !VerifyText(other.Public(), "purpose", text, signature),
		"no key":          !VerifyText(nil, "purpose", text, signature),
	} {
		if !good {
			t.Error(name)
		}
	}
	key.Wipe()
	if _, err := key.SignText("purpose", text); err == nil {
		t.Error("a wiped key signs")
	}
}
