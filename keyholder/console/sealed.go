package console

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// sealed keeps the newest sealed results in a directory, for the proof view, each under its
// id, and the receipts that were given for them. What does not fit on the disk is missing there
// and nowhere else.
type sealed struct {
	dir  string
	most int64 // bytes

	mu    sync.Mutex
	order [][32]byte         // oldest first
	size  map[[32]byte]int64 // of object and receipt
	sum   int64
	early map[[32]byte][]byte // receipts of results that are not kept yet
	told  time.Time           // when a failure was logged last
}

// Endings of the files of a result, and of a file that is being written.
const (
	objectEnding  = ".cose"
	receiptEnding = ".receipt"
	halfEnding    = ".tmp"
)

// maxEarly bounds the receipts that wait for their results.
const maxEarly = 1024

// openSealed makes the directory, or finds what it has.
func openSealed(dir string, most int64) (*sealed, error) {
	s := &sealed{dir: dir, most: most, size: map[[32]byte]int64{}, early: map[[32]byte][]byte{}}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	at := map[[32]byte]time.Time{}
	for _, e := range list {
		name, whole := strings.CutSuffix(e.Name(), objectEnding)
		receipt, half := false, strings.HasSuffix(e.Name(), halfEnding)
		if !whole {
			name, receipt = strings.CutSuffix(e.Name(), receiptEnding)
		}
		info, err := e.Info()
		if err == nil && (half || (whole || receipt) && info.Size() == 0) {
			// The process was killed while it wrote, or the machine lost its power soon after that.
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		id, bad := parseID(name)
		if !whole && !receipt || err != nil || bad != nil {
			continue
		}
		s.size[id] += info.Size()
		s.sum += info.Size()
		if _, there := at[id]; !there {
			s.order = append(s.order, id) // a receipt alone counts too, so that it goes when it is old
		}
		if _, there := at[id]; whole || !there {
			at[id] = info.ModTime()
		}
	}
	slices.SortFunc(s.order, func(a, b [32]byte) int {
		return cmp.Or(at[a].Compare(at[b]), slices.Compare(a[:], b[:]))
	})
	return s, s.shrink(0)
}

func (s *sealed) path(id [32]byte, ending string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%x%s", id, ending))
}

// keep stores an object, unless it is there. The oldest ones make room.
func (s *sealed) keep(id [32]byte, object []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.size[id]; there || len(object) == 0 || int64(len(object)) > s.most {
		return nil
	}
	if err := s.add(id, objectEnding, object); err != nil {
		return err
	}
	s.order = append(s.order, id)
	receipt := s.early[id]
	delete(s.early, id)
	if len(receipt) == 0 {
		return nil
	}
	return s.add(id, receiptEnding, receipt)
}

// receipt stores the receipt of an object, or remembers it until the object comes.
func (s *sealed) receipt(id [32]byte, receipt []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.size[id]; !there {
		for other := range s.early {
			if len(s.early) < maxEarly {
				break
			}
			delete(s.early, other)
		}
		s.early[id] = receipt
		return nil
	}
	if _, err := os.Stat(s.path(id, receiptEnding)); err == nil || int64(len(receipt)) > s.most {
		return nil // the first one counts
	}
	return s.add(id, receiptEnding, receipt)
}

// add writes a file of an object. s.mu is held.
func (s *sealed) add(id [32]byte, ending string, b []byte) error {
	if err := s.shrink(int64(len(b))); err != nil {
		return err
	}
	if _, there := s.size[id]; ending == receiptEnding && !there {
		return nil // it had to make room for its own receipt
	}
	path := s.path(id, ending)
	err := os.WriteFile(path+halfEnding, b, 0o600)
	if err == nil {
		err = os.Rename(path+halfEnding, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+halfEnding))
	}
	s.size[id] += int64(len(b))
	s.sum += int64(len(b))
	return nil
}

// shrink removes the oldest objects until there is room for more bytes.
func (s *sealed) shrink(more int64) error {
	for len(s.order) > 0 && s.sum+more > s.most {
		id := s.order[0]
		for _, ending := range []string{objectEnding, receiptEnding} {
			if err := os.Remove(s.path(id, ending)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		s.order, s.sum = s.order[1:], s.sum-s.size[id]
		delete(s.size, id)
	}
	return nil
}

// read returns an object with its receipt, if it has one; it fails with fs.ErrNotExist if the object
// is not kept.
func (s *sealed) read(id [32]byte) (p keyholder.Proof, err error) {
	if p.Sealed, err = durable.ReadFile(s.path(id, objectEnding), transport.DefaultMaxObject*8); err != nil {
		return p, err
	}
	p.Receipt, err = durable.ReadFile(s.path(id, receiptEnding), transport.DefaultMaxObject)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return p, err
}

// tellEvery is how often a failure is logged.
const tellEvery = 10 * time.Minute

// tell logs a failure, not more often than tellEvery.
func (s *sealed) tell(log *slog.Logger, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.told) > tellEvery {
		s.told = time.Now()
		log.Warn("a sealed result could not be kept for the proof view", "error", err)
	}
}
