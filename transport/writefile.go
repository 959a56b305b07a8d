package transport

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile replaces a file, mode 0600, and returns when the replacement is on disk:
// the file is flushed before it is renamed, and its directory after. Without the last
// step a power cut could bring the old file back, and with it numbers that were used.
func WriteFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := renameio.WriteFile(path, data, 0o600, renameio.WithStaticPermissions(0o600), renameio.WithTempDir(dir)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir flushes the names in a directory. A test replaces it.
var syncDir = func(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
