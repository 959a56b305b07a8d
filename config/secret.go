package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
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
//	age:password.age@cred:id      a file encrypted with age (age-encryption.org), and where
//	                              the identity is that opens it: file:, env: or cred:;
//	                              without "@...", cred:age-identity
//
// The empty Secret means that there is none.
type Secret string

// Resolve reads the secret. It returns nil for the empty Secret. An empty value is an error,
// and so is one of more than 64 KiB.
func (s Secret) Resolve() ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	scheme, ref, ok := strings.Cut(string(s), ":")
	if !ok || ref == "" {
		return nil, fmt.Errorf("%w: not a reference of the form file:, env:, cred: or age:", ErrSecret)
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
			return nil, fmt.Errorf("%w: cred:%s needs a service started by systemd with LoadCredential=%s, or "+
				"--credentials where there is one", ErrSecret, ref, ref)
		}
		return readSecret(filepath.Join(dir, ref))
	case "age":
		return openSealed(splitSealed(ref))
	}
	return nil, fmt.Errorf("%w: unknown kind of reference, use file:, env:, cred: or age:", ErrSecret)
}

// File returns the file that holds the secret in clear, or the identity that opens it. It
// returns "" if there is none, or if only a service can see it.
func (s Secret) File() string {
	scheme, ref, _ := strings.Cut(string(s), ":")
	switch scheme {
	case "file":
		return ref
	case "cred":
		if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
			return filepath.Join(dir, ref)
		}
	case "age":
		_, identity := splitSealed(ref)
		return identity.File()
	}
	return ""
}

// Exposed returns the file of the secret if every user of the machine may read or change it,
// else "".
func (s Secret) Exposed() string { return Exposed(s.File()) }

// Exposed returns path if it is a file that every user of the machine may read or change,
// else "".
func Exposed(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return ""
	}
	return path
}

// defaultIdentity opens age files whose reference names no identity.
const defaultIdentity Secret = "cred:age-identity"

// splitSealed takes the part after "age:" apart.
func splitSealed(ref string) (file string, identity Secret) {
	for _, scheme := range []string{"@file:", "@env:", "@cred:"} {
		if i := strings.LastIndex(ref, scheme); i >= 0 {
			return ref[:i], Secret(ref[i+1:])
		}
	}
	return ref, defaultIdentity
}

// openSealed decrypts an age file, in its binary or its text form, with the
// identity that a reference names.
func openSealed(file string, identity Secret) ([]byte, error) {
	text, err := identity.Resolve()
	if err != nil {
		return nil, fmt.Errorf("identity for %s: %w", file, err)
	}
	defer clear(text)
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil { // the error could quote the identity
		return nil, fmt.Errorf("%w: %s holds no age identity (AGE-SECRET-KEY-...)", ErrSecret, identity)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecret, err)
	}
	defer f.Close()
	in := bufio.NewReader(io.LimitReader(f, 2*maxSecret))
	var sealed io.Reader = in
	if head, err := in.Peek(len(armor.Header)); err == nil && string(head) == armor.Header {
		sealed = armor.NewReader(in)
	}
	plain, err := age.Decrypt(sealed, ids...)
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot be decrypted with %s: %w", ErrSecret, file, identity, err)
	}
	return readAll(file, plain)
}

func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecret, err)
	}
	defer f.Close()
	return readAll(path, f)
}

// readAll reads a secret and drops one final line end.
func readAll(path string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSecret, path, err)
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

// below returns s with the paths of file: and age: references made absolute by resolve.
func (s Secret) below(resolve func(path string) string) Secret {
	if path, ok := strings.CutPrefix(string(s), "file:"); ok {
		return "file:" + Secret(resolve(path))
	}
	if sealed, ok := strings.CutPrefix(string(s), "age:"); ok {
		file, identity := splitSealed(sealed)
		return "age:" + Secret(resolve(file)) + "@" + identity.below(resolve)
	}
	return s
}

// problem returns why s is not a well-formed reference, or "".
func (s Secret) problem() string {
	scheme, ref, ok := strings.Cut(string(s), ":")
	if !ok || (scheme != "file" && scheme != "env" && scheme != "cred" && scheme != "age") {
		return "a secret must not be written into the file"
	}
	if scheme == "age" {
		file, identity := splitSealed(ref)
		if file == "" {
			return "nothing follows \"age:\""
		}
		return identity.problem()
	}
	if ref == "" {
		return fmt.Sprintf("nothing follows %q", scheme+":")
	}
	if scheme == "cred" && (strings.ContainsAny(ref, `/\`) || ref == "." || ref == "..") {
		return "the name of a credential is a path"
	}
	return ""
}

// remedy returns how to write a reference of the kind that s has.
func (s Secret) remedy() string {
	scheme, ref, _ := strings.Cut(string(s), ":")
	switch scheme {
	case "file":
		return "write file: and the path of the file that holds the secret"
	case "env":
		return "write env: and the name of the environment variable"
	case "cred":
		return "write cred: and the plain name that LoadCredential= gives it; for a path write file:/path"
	case "age":
		if file, identity := splitSealed(ref); file != "" {
			return "after '@', " + identity.remedy()
		}
		return "write age:FILE@IDENTITY: the encrypted file, and where the identity is that opens it, such as " +
			"cred:age-identity"
	}
	return "put it into a file of mode 0600 and write file:/path; or env:NAME, cred:NAME, age:FILE@IDENTITY"
}

// Available returns what to do if the secret cannot be read.
func (s Secret) Available() string {
	kind, name, _ := strings.Cut(string(s), ":")
	switch kind {
	case "env":
		return fmt.Sprintf("set %s in the environment of this process; for the service with EnvironmentFile= in a "+
			"drop-in",
			name)
	case "cred":
		return fmt.Sprintf("add LoadCredential=%s:/path to the unit; outside of it give --credentials DIR", name)
	case "age":
		return "correct the file, or where the identity is that opens it"
	}
	return "correct the path or the file"
}
