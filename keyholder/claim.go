package keyholder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
)

// Claim takes the name by which this process is known at a broker, until release. Two
// clients of one name take the connection from each other, and each gets some of the
// results. It fails where another process on this machine that reads with the same key
// set has it; where no file can be written in the key set's directory, or its file system
// has no locks, nothing is claimed.
func (r *Reader) Claim(url, client string) (release func(), err error) {
	path := filepath.Join(r.view.Load().set.dir, ".watch-"+digest([]byte(url + "\n" + client))[:16])
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, secretMode)
	if err != nil {
		return func() {}, nil
	}
	switch err := tryLock(int(f.Fd())); {
	case errors.Is(err, durable.ErrLocked):
		f.Close()
		return nil, fmt.Errorf("%w: %s is already connected to %s from this machine; stop that process, or give this "+
			"one another broker.client_id; otherwise each would get some of the results", ErrClaimed, client, url)
	case err != nil:
		f.Close()
		return func() {}, nil
	}
	return func() { f.Close() }, nil
}

// tryLock is replaced in a test.
var tryLock = durable.TryLock
