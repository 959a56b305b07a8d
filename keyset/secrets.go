package keyset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// HolderFile is the holder's signing key in a key set.
const HolderFile = "holder.key"

// Secrets lists the files with secret keys in a key set or an export, by their names.
func Secrets(dir string) []string {
	var out []string
	for _, pattern := range []string{HolderFile, SecretFile, BoardFile, filepath.Join("epoch-*", SecretFile)} {
		found, _ := filepath.Glob(filepath.Join(escape(dir), pattern)) // the patterns are sound
		out = append(out, found...)
	}
	return out
}

// escape makes dir match itself alone in a pattern.
func escape(dir string) string {
	out := make([]rune, 0, len(dir))
	for _, r := range dir {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}

// notKeySet fails with ErrSecret where dir is a key set itself, or one of its epochs,
// instead of an export.
func notKeySet(dir string) error {
	if strings.HasPrefix(filepath.Base(dir), "epoch-") {
		dir = filepath.Dir(dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, HolderFile)); err != nil {
		return nil
	}
	return fmt.Errorf("%w: %s is a key set with its secret keys (%s), not an export: whoever reads it decrypts "+
		"everything. Take it off this machine, put here what `hencedge keys export` writes, and make a new key set "+
		"if others could read it",
		ErrSecret, dir, filepath.Join(dir, HolderFile))
}
