package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/transport"
)

// ErrForeign: the directory holds something else than a spool.
var ErrForeign = errors.New("not a directory for a spool")

// markerName is the file that makes a directory a spool's own. The name counts, not the
// content.
const markerName = "hencedge.spool"

var markerText = []byte("This directory belongs to a spool of hencedge. Keep nothing else in it.\n")

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

// claim makes the directory the spool's own, unless it is already.
func (d directory) claim() error {
	d.claimed.Lock()
	defer d.claimed.Unlock()
	if d.claimed.done {
		return nil
	}
	if _, err := d.place(markerName, [][]byte{markerText}); err != nil {
		return err
	}
	d.claimed.done = true
	return nil
}

// streamOf returns the stream in the name of a file that a spool makes once for each
// stream.
func streamOf(name, suffix string) (string, bool) {
	stream, ok := strings.CutSuffix(name, suffix)
	return stream, ok && transport.CheckName(stream) == nil
}

// ours reports whether a spool gives files this name. Temporary files do not count.
func ours(name string) bool {
	if name == markerName {
		return true
	}
	if _, ok := numberOf(name, objectSuffix); ok {
		return true
	}
	if _, ok := streamOf(name, markSuffix); ok {
		return true
	}
	_, ok := streamOf(name, lastSuffix)
	return ok
}

// setAside returns the name of a damaged file in the quarantine.
func setAside(name string) string { return strings.TrimSuffix(name, objectSuffix) + damagedSuffix }

// wasSetAside reports whether setAside made this name.
func wasSetAside(name string) bool {
	if _, ok := numberOf(name, damagedSuffix); ok {
		return true
	}
	_, ok := streamOf(name, markSuffix+damagedSuffix)
	return ok
}
