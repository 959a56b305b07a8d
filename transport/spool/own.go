package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrForeign: the directory holds something else than a spool.
var ErrForeign = errors.New("not a directory for a spool")

// CheckDir returns an error that wraps ErrForeign where a spool must not live: in the
// root directory, in the user's home directory, and in a directory that holds files and
// has no marker of a spool. A directory that is not there yet is fine. It changes nothing.
func CheckDir(path string) error {
	if err := CheckPlace(path); err != nil {
		return err
	}
	_, err := directory{fs: disk{}, path: path}.owned()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CheckPlace returns an error that wraps ErrForeign for the root directory and for home
// directories, whatever they hold.
func CheckPlace(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if full == "/" {
		return fmt.Errorf("%w: %s is the root directory; name a directory of its own", ErrForeign, path)
	}
	homes := []string{"/root", "/home"}
	if home, err := os.UserHomeDir(); err == nil && home != "" {
		homes = append(homes, filepath.Clean(home))
	}
	if slices.Contains(homes, full) || filepath.Dir(full) == "/home" {
		return fmt.Errorf("%w: %s is a home directory; name a directory of its own", ErrForeign, path)
	}
	return nil
}

// owned reports whether the directory has the marker of a spool. A directory without a
// marker must be empty.
func (d directory) owned() (bool, error) {
	list, err := d.fs.ReadDir(d.path)
	if err != nil {
		return false, err
	}
	var others []string
	for _, f := range list {
		switch name := f.Name(); name {
		case markerName:
			return true, nil
		case markerName + tempSuffix, "lost+found": // of a crash; of a disk of its own
		default:
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return false, nil
	}
	return false, fmt.Errorf("%w: %s holds %d other files, such as %q, and no %s; name an empty directory, "+
		"or, if this is a spool that lost its marker, run: touch %s", ErrForeign, d.path, len(others), others[0],
		markerName, d.join(markerName))
}
