package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteState is WriteFile for a state that a service must be able to write even when the
// disk is full: the service may be the one that frees the disk. A second file,
// path.spare, reserves the room for one more state. On a full disk the new state goes
// there, and the room of the old state becomes the next spare.
func WriteState(path string, data []byte) error {
	err := WriteFile(path, data)
	if diskFull(err) {
		if serr := writeSpare(path, data); serr != nil {
			return errors.Join(err, serr)
		}
		err = nil
	}
	if err == nil {
		keepSpare(path, len(data))
	}
	return err
}

// writeSpare writes data into the spare file and renames it to path.
func writeSpare(path string, data []byte) error {
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
	return SyncDir(filepath.Dir(path))
}

// keepSpare creates a spare file if there is none that is long enough for a state of n
// bytes that grows a little. Without one, a full disk is an error as usual.
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

// spareBlock is what a spare grows by, in bytes: a block of common file systems.
const spareBlock = 4096
