package transport

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
)

// A fingerprint is the first 125 bits of the SHA-256 of a public key in base32
// (RFC 4648, lower case): 25 characters in groups of five.
const (
	fingerprintGroups = 5
	fingerprintGroup  = 5
	fingerprintLength = fingerprintGroups * fingerprintGroup
)

// ErrFingerprint: a text is no fingerprint.
var ErrFingerprint = errors.New("not a fingerprint")

// Fingerprint names a public key by 25 characters that can be compared by eye or
// over the telephone, such as "k7qd2-4mzra-...". To find another key with the same
// fingerprint takes about 2^125 attempts.
func Fingerprint(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	text := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	groups := make([]string, fingerprintGroups)
	for i := range groups {
		groups[i] = text[i*fingerprintGroup : (i+1)*fingerprintGroup]
	}
	return strings.Join(groups, "-")
}

// ParseFingerprint reads a fingerprint as people write it down: in either case, with
// or without hyphens and spaces. It returns the form that Fingerprint gives, or fails
// with ErrFingerprint.
func ParseFingerprint(text string) (string, error) {
	plain := strings.NewReplacer("-", "", " ", "").Replace(strings.ToLower(text))
	if len(plain) != fingerprintLength {
		return "", fmt.Errorf("%w: it has %d letters and digits, this has %d", ErrFingerprint, fingerprintLength,
			len(plain))
	}
	foreign := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }
	if i := strings.IndexFunc(plain, foreign); i >= 0 {
		return "", fmt.Errorf("%w: it has letters and the digits 2 to 7, not %q", ErrFingerprint, []rune(plain[i:])[0])
	}
	var b strings.Builder
	for i := 0; i < fingerprintLength; i += fingerprintGroup {
		if i > 0 {
			b.WriteByte('-')
		}
		b.WriteString(plain[i : i+fingerprintGroup])
	}
	return b.String(), nil
}
