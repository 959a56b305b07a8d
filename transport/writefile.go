package transport

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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

// SweepTemporary removes what a process left of path that was killed in WriteFile. Call
// it at the start; what is younger than an hour may belong to a process that runs.
func SweepTemporary(path string) {
	dir, base := filepath.Split(path)
	list, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return // it shows when the file is written
	}
	for _, e := range list {
		digits, ours := strings.CutPrefix(e.Name(), "."+base)
		if !ours || digits == "" || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()).Abs() > time.Hour {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// syncDir flushes the names in a directory, where the file system can (some network
// file systems say EINVAL or ENOTSUP). A test replaces it.
var syncDir = func(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// WriteState is WriteFile for a state that must be written for a service to start or go
// on, also when the disk is full: full, perhaps, of what waits for that service. A file
// beside it, path.spare, keeps the room for one more; it takes the new state, and the
// old state's room becomes the next spare.
func WriteState(path string, data []byte) error {
	err := WriteFile(path, data)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		if serr := fromSpare(path, data); serr != nil {
			return errors.Join(err, serr)
		}
		err = nil
	}
	if err == nil {
		keepSpare(path, len(data))
	}
	return err
}

// spareBlock is what a spare grows by, in bytes: a block of common file systems.
const spareBlock = 4096

// fromSpare writes data into the room of the spare and puts it in the place of path.
func fromSpare(path string, data []byte) error {
	f, err := os.OpenFile(path+".spare", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < int64(len(data)) {
		err = fmt.Errorf("%s.spare has room for %d of %d bytes", path, info.Size(), len(data))
	}
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".spare", path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// keepSpare makes a spare with room for a state of n bytes that has grown a little, if
// there is none; without one, a full disk is the error that it was.
func keepSpare(path string, n int) {
	name := path + ".spare"
	want := (n/spareBlock + 2) * spareBlock
	if info, err := os.Stat(name); err == nil && info.Size() >= int64(want-spareBlock) {
		return
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, err = f.Write(make([]byte, want))
	if err == nil {
		err = f.Sync()
	}
	if errors.Join(err, f.Close()) != nil {
		_ = os.Remove(name)
	}
}
