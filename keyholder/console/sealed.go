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
	"github.com/hencedge/hencedge/transport"
)

// sealed keeps the newest sealed results in a directory, for the proof view, each under its
// id. What does not fit on the disk is missing there and nowhere else.
type sealed struct {
	dir  string
	most int64 // bytes

	mu    sync.Mutex
	order [][32]byte // oldest first
	size  map[[32]byte]int64
	sum   int64
	told  time.Time // when a failure was logged last
}

// openSealed makes the directory, or finds what it has.
func openSealed(dir string, most int64) (*sealed, error) {
	s := &sealed{dir: dir, most: most, size: map[[32]byte]int64{}}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	at := map[[32]byte]time.Time{}
	for _, e := range list {
		name, whole := strings.CutSuffix(e.Name(), ".cose")
		info, err := e.Info()
		id, bad := parseID(name)
		if !whole || err != nil || bad != nil {
			continue
		}
		at[id], s.size[id] = info.ModTime(), info.Size()
		s.order, s.sum = append(s.order, id), s.sum+info.Size()
	}
	slices.SortFunc(s.order, func(a, b [32]byte) int {
		return cmp.Or(at[a].Compare(at[b]), slices.Compare(a[:], b[:]))
	})
	return s, s.shrink(0)
}

func (s *sealed) path(id [32]byte) string { return filepath.Join(s.dir, fmt.Sprintf("%x.cose", id)) }

// keep stores an object, unless it is there. The oldest ones make room.
func (s *sealed) keep(id [32]byte, object []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.size[id]; there || len(object) == 0 || int64(len(object)) > s.most {
		return nil
	}
	if err := s.shrink(int64(len(object))); err != nil {
		return err
	}
	tmp := s.path(id) + ".tmp"
	err := os.WriteFile(tmp, object, 0o600)
	if err == nil {
		err = os.Rename(tmp, s.path(id))
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	s.order, s.sum = append(s.order, id), s.sum+int64(len(object))
	s.size[id] = int64(len(object))
	return nil
}

// shrink removes the oldest objects until there is room for more bytes.
func (s *sealed) shrink(more int64) error {
	for len(s.order) > 0 && s.sum+more > s.most {
		id := s.order[0]
		if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.order, s.sum = s.order[1:], s.sum-s.size[id]
		delete(s.size, id)
	}
	return nil
}

// read returns an object; it fails with fs.ErrNotExist if it is not kept.
func (s *sealed) read(id [32]byte) ([]byte, error) {
	return durable.ReadFile(s.path(id), transport.DefaultMaxObject*8)
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
