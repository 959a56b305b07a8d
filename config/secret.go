package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrSecret is wrapped by every failure to read a secret.
var ErrSecret = errors.New("secret not available")

// maxSecret bounds the size of a secret, in bytes.
const maxSecret = 64 << 10

// Secret refers to a secret that is kept outside of the configuration:
//
//	file:/etc/hencedge/password   the contents of a file, one final newline removed
//	env:HENCEDGE_PASSWORD         an environment variable
//	cred:password                 a systemd credential, $CREDENTIALS_DIRECTORY/password
//
// The empty Secret means that there is none.
type Secret string

// Resolve reads the secret. It is nil for the empty Secret; an empty value is
// an error, as is one of more than 64 KiB.
func (s Secret) Resolve() ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	scheme, ref, ok := strings.Cut(string(s), ":")
	if !ok || ref == "" {
		return nil, fmt.Errorf("%w: not a reference of the form file:, env: or cred:", ErrSecret)
	}
	switch scheme {
	case "file":
		return readSecret(ref)
	case "env":
		v, set := os.LookupEnv(ref)
		if !set || v == "" {
			return nil, fmt.Errorf("%w: environment variable %s is not set", ErrSecret, ref)
		}
		return []byte(v), nil
	case "cred":
		dir := os.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return nil, fmt.Errorf("%w: cred:%s needs a service started by systemd with LoadCredential=%s", ErrSecret, ref, ref)
		}
		return readSecret(filepath.Join(dir, ref))
	}
	return nil, fmt.Errorf("%w: unknown kind of reference, use file:, env: or cred:", ErrSecret)
}

func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecret, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecret, err)
	}
	if len(b) > maxSecret {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrSecret, path, maxSecret)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	b = bytes.TrimSuffix(b, []byte("\r"))
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: %s is empty", ErrSecret, path)
	}
	return b, nil
}

// problem says why s is not a well-formed reference, or "".
func (s Secret) problem() string {
	scheme, ref, ok := strings.Cut(string(s), ":")
	if !ok || (scheme != "file" && scheme != "env" && scheme != "cred") {
		return "a secret must not be written into the file"
	}
	if ref == "" {
		return "the reference names nothing"
	}
	if scheme == "cred" && (strings.ContainsAny(ref, `/\`) || ref == "." || ref == "..") {
		return "a credential is a plain name"
	}
	return ""
}
