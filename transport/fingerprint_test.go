package transport

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestFingerprint(t *testing.T) {
	pub := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	got := Fingerprint(pub)
	if !regexp.MustCompile(`^[a-z2-7]{5}(-[a-z2-7]{5}){4}$`).MatchString(got) {
		t.Fatalf("fingerprint %q", got)
	}
	sum := sha256.Sum256(pub)
	if want := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:25]; strings.ReplaceAll(got, "-",
		"") != want {
		t.Errorf("fingerprint %s is not the start of %s", got, want)
	}
	for _, text := range []string{got, strings.ToUpper(got), strings.ReplaceAll(got, "-", " "),
		strings.ReplaceAll(got, "-", "")} {
		if read, err := ParseFingerprint(text); err != nil || read != got {
			t.Errorf("%q is read as %q: %v", text, read, err)
		}
	}
	for _, text := range []string{"", got[:28], got + "a", "0" + got[1:], strings.Repeat("é", 13)} {
		if read, err := ParseFingerprint(text); !errors.Is(err, ErrFingerprint) {
			t.Errorf("%q is read as %q: %v", text, read, err)
		}
	}
}
