package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
)

const (
	publicScheme = "ed25519:"
	secretScheme = "ed25519-secret:"
	maxKeyFile   = 4 << 10
)

// ErrKeyFile: a signing key file cannot be used as it is.
var ErrKeyFile = errors.New("unusable signing key file")

// SigningKey is an Ed25519 private key. It prints as its public half, so that
// no log, error or template shows the secret.
type SigningKey struct {
	priv ed25519.PrivateKey
	kid  [8]byte
}

// NewSigningKey returns a key from the operating system's entropy.
func NewSigningKey() (*SigningKey, error) {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make signing key: %w", err)
	}
	return newSigningKey(priv), nil
}

// SigningKeyFromSeed returns the key of a 32-byte Ed25519 seed (RFC 8032). It is
// meant for test vectors and key derivation.
func SigningKeyFromSeed(seed []byte) (*SigningKey, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("signing key seed of %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	return newSigningKey(ed25519.NewKeyFromSeed(seed)), nil
}

func newSigningKey(priv ed25519.PrivateKey) *SigningKey {
	return &SigningKey{priv: priv, kid: keyHint(priv.Public().(ed25519.PublicKey))}
}

// keyHint returns the COSE key id of a public key: the first 8 bytes of its SHA-256.
func keyHint(pub ed25519.PublicKey) [8]byte {
	sum := sha256.Sum256(pub)
	return [8]byte(sum[:8])
}

// Public returns the public key.
func (k *SigningKey) Public() ed25519.PublicKey {
	return append(ed25519.PublicKey(nil), k.priv[32:]...)
}

// PublicText returns the public key as it stands in configuration files.
func (k *SigningKey) PublicText() string { return FormatPublicKey(k.Public()) }

// String returns PublicText, so that the secret never prints.
func (k *SigningKey) String() string { return k.PublicText() }

// GoString returns PublicText, so that the secret does not print with %#v either.
func (k *SigningKey) GoString() string { return k.PublicText() }

// LogValue returns PublicText, for log/slog.
func (k *SigningKey) LogValue() slog.Value { return slog.StringValue(k.PublicText()) }

// Wipe overwrites the secret; the key cannot sign afterwards.
func (k *SigningKey) Wipe() {
	clear(k.priv[:32])
}

// textContext begins what SignText signs. No message of this package begins so: the signed
// bytes of a COSE_Sign1 are a CBOR array.
const textContext = "hencedge text "

// SignText signs text for a purpose, outside of the formats of this package: a signature for
// one purpose is never valid for another. It fails once the key was wiped.
func (k *SigningKey) SignText(purpose string, text []byte) ([]byte, error) {
	if bytes.Equal(k.priv[:32], make([]byte, 32)) {
		return nil, errors.New("sign: the signing key was wiped")
	}
	return ed25519.Sign(k.priv, purposeText(purpose, text)), nil
}

// VerifyText reports whether the owner of pub signed text for this purpose with SignText.
func VerifyText(pub ed25519.PublicKey, purpose string, text, signature []byte) bool {
	return len(pub) == ed25519.PublicKeySize && ed25519.Verify(pub, purposeText(purpose, text), signature)
}

func purposeText(purpose string, text []byte) []byte {
	return append([]byte(textContext+purpose+"\x00"), text...)
}

// MarshalText returns the secret text form that Save writes:
// "ed25519-secret:" and the base64 of the 32-byte seed.
func (k *SigningKey) MarshalText() ([]byte, error) {
	return []byte(secretScheme + base64.StdEncoding.EncodeToString(k.priv.Seed())), nil
}

// ParseSigningKey reads the secret text form; white space around it is ignored.
func ParseSigningKey(text []byte) (*SigningKey, error) {
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%w: signing key text of %d bytes", ErrTooLarge, len(text))
	}
	s := strings.TrimSpace(string(text))
	if strings.HasPrefix(s, publicScheme) {
		return nil, fmt.Errorf("%w: this is a public key, a signing key starts with %q", ErrMalformed, secretScheme)
	}
	seed, err := parseKeyText(s, secretScheme, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	defer clear(seed)
	return SigningKeyFromSeed(seed)
}

// FormatPublicKey returns the text form "ed25519:<base64>" of a public key.
func FormatPublicKey(pub ed25519.PublicKey) string {
	return publicScheme + base64.StdEncoding.EncodeToString(pub)
}

// ParsePublicKey reads "ed25519:<base64>" (standard alphabet, padded).
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	if strings.HasPrefix(text, secretScheme) {
		return nil,
			fmt.Errorf("%w: this is a secret key where a public key belongs; keep it out of configuration files",
				ErrMalformed)
	}
	b, err := parseKeyText(text, publicScheme, ed25519.PublicKeySize)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return ed25519.PublicKey(b), nil
}

// parseKeyText never quotes its input in errors: it may be a secret.
func parseKeyText(s, scheme string, size int) ([]byte, error) {
	enc, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return nil, fmt.Errorf("%w: does not start with %q", ErrMalformed, scheme)
	}
	if want := base64.StdEncoding.EncodedLen(size); len(enc) != want {
		return nil, fmt.Errorf("%w: %d base64 characters after %q, want %d", ErrMalformed, len(enc), scheme, want)
	}
	if strings.ContainsAny(enc, "\r\n") {
		return nil, fmt.Errorf("%w: line break inside the key", ErrMalformed)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(enc)
	if err != nil || len(b) != size {
		return nil, fmt.Errorf("%w: not the base64 of %d bytes", ErrMalformed, size)
	}
	return b, nil
}

// Save writes the secret to a new file with mode 0600 and flushes file and
// directory to disk. It refuses to overwrite, with fs.ErrExist. The file appears
// with all its content. A power cut leaves no file rather than a part of one, which would
// keep a device from ever starting.
func (k *SigningKey) Save(path string) error {
	if err := k.save(path); err != nil {
		return fmt.Errorf("save signing key: %w", err)
	}
	return nil
}

func (k *SigningKey) save(path string) error {
	text, err := k.MarshalText()
	if err != nil {
		return err
	}
	text = append(text, '\n')
	defer clear(text)
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".signing-key-*") // mode 0600
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make the directory %s first: %w", dir, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = publish(f.Name(), path)
	}
	if err != nil {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		os.Remove(path)
		return err
	}
	return nil
}

// publish gives the file old the name path, unless a file of that name exists.
func publish(old, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, old, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not on this file system
		err = os.Link(old, path)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: old, New: path, Err: err}
	}
	return nil
}

// LoadSigningKey reads a file that Save wrote. A file that others than its
// owner may read or write is refused with ErrKeyFile.
func LoadSigningKey(path string) (*SigningKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load signing key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("load signing key: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrKeyFile, path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%w: %s has mode %04o, others may read it; run chmod 600 %s", ErrKeyFile, path,
			info.Mode().Perm(), path)
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("%w: %s has %d bytes, a signing key has less than %d", ErrKeyFile, path, info.Size(),
			maxKeyFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("load signing key: %w", err)
	}
	defer clear(text)
	k, err := ParseSigningKey(text)
	if err != nil {
		return nil, fmt.Errorf("load signing key %s: %w", path, err)
	}
	return k, nil
}
