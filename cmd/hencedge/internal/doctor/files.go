package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/keyholder"
)

// privateFile checks that a secret file is there for this user alone.
func privateFile(name, path string) Check {
	c := Check{Name: name, Status: OK, Detail: path}
	err := keyholder.Private(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Status, c.Detail, c.Remedy = Fail, path+" does not exist", "see the command's --help for how it is made"
	case errors.Is(err, keyholder.ErrPermissions):
		c.Status, c.Detail, c.Remedy = Fail, err.Error(), "chmod 600 "+path
	case err != nil:
		c.Status, c.Detail = Fail, err.Error()
	}
	return c
}

// writable checks that a state file can be written and replaced.
func writable(name, path string) Check {
	c := Check{Name: name, Status: OK, Detail: path}
	dir := filepath.Dir(path)
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		c.Status, c.Detail = Fail, fmt.Sprintf("cannot write to %s: %v", dir, err)
		c.Remedy = "make the directory and give it to the user that the service runs as"
	} else if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Status, c.Detail = Fail, fmt.Sprintf("cannot read and write %s: %v", path, err)
	}
	return c
}

// Bounds of the search for secrets.
const (
	maxScanned    = 2000
	maxScanDepth  = 3
	maxSecretSize = 16 << 20
)

// noSecrets looks for secret keys of ciphertexts other than own in and below dirs, by the contents of
// files rather than their names.
func noSecrets(name string, dirs []string, own ...string) Check {
	c := Check{Name: name, Status: OK}
	own = resolved(own)
	scanned, found := 0, []string{}
	visited := map[string]bool{}
	for _, dir := range dirs {
		dir, err := filepath.Abs(dir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err != nil || visited[dir] {
			continue
		}
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && d != nil && d.IsDir():
				return fs.SkipDir
			case err != nil:
				return nil
			case d.IsDir():
				rel, _ := filepath.Rel(dir, path)
				if visited[path] || strings.Count(rel, string(filepath.Separator)) >= maxScanDepth {
					return fs.SkipDir
				}
				visited[path] = true
				return nil
			case scanned >= maxScanned:
				return fs.SkipAll
			}
			scanned++
			if !slices.Contains(own, path) && holdsSecret(path, d) {
				found = append(found, path)
			}
			return nil
		})
	}
	if len(found) > 0 {
		c.Status, c.Detail = Fail, "secret key in "+strings.Join(found, ", ")
		c.Remedy = "remove it (shred -u) and rotate the key set: a secret key belongs to the key holder alone"
		return c
	}
	c.Detail = fmt.Sprintf("none in %d files", scanned)
	if scanned >= maxScanned {
		c.Status, c.Detail = Info, fmt.Sprintf("none in the first %d files", scanned)
	}
	return c
}

// resolved returns paths as a walk names them.
func resolved(paths []string) []string {
	out := make([]string, len(paths))
	for i, path := range paths {
		out[i], _ = filepath.Abs(path)
		if to, err := filepath.EvalSymlinks(out[i]); err == nil {
			out[i] = to
		}
	}
	return out
}

// holdsSecret reports whether a file is a serialised secret key: whether decoding accepts
// the kind of object, whatever the parameters. A key of another version cannot be decoded
// and is recognised by its first bytes.
func holdsSecret(path string, d fs.DirEntry) bool {
	info, err := d.Info()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > maxSecretSize {
		return false
	}
	b, err := readSmall(path, maxSecretSize)
	if err != nil {
		return false
	}
	defer clear(b)
	ctx, err := anyContext()
	if err != nil {
		return false
	}
	k, err := secret.Unmarshal(ctx, b)
	if err == nil {
		k.Wipe()
		return true
	}
	return errors.Is(err, henc.ErrParams) || errors.Is(err, henc.ErrVersion) && secretHead(b) && len(b) >= leastSecret
}

// leastSecret is below the length of every secret key, in bytes.
const leastSecret = 128

// anyContext is a context to decode with; which one does not matter.
var anyContext = sync.OnceValues(func() (*henc.Context, error) {
	p, err := henc.Named(henc.Names()[0])
	if err != nil {
		return nil, err
	}
	return henc.NewContext(p)
})

func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return b, err
}

// secretHead reports whether b begins as a serialised secret key of any version: a CBOR
// array of six, the version, kind 4 (secret key), then the 32-byte hash of the
// parameters.
func secretHead(b []byte) bool {
	return len(b) >= 5 && b[0] == 0x86 && b[1] < 24 && b[2] == 4 && b[3] == 0x58 && b[4] == 0x20
}
