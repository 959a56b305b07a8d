package evaluator

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
)

// storeMark names a store and counts its starts. It lies in the store and in the state, so
// that a start notices when the two do not belong together: a store that was left behind
// has windows that their devices have deleted, and results that nobody has read.
type storeMark struct {
	ID     string `json:"id"` // 16 random bytes in hexadecimal digits
	Starts uint64 `json:"starts"`
}

// storeFile is the mark in the store.
const storeFile = "store.json"

type markFile struct {
	Version int    `json:"version"`
	Name    string `json:"name"` // of the evaluator
	storeMark
}

// readMark reads the mark of a store; nil means that it has none.
func readMark(path, name string) (*storeMark, error) {
	raw, err := durable.ReadFile(path, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: store: %w", ErrState, err)
	}
	var f markFile
	id, herr := []byte(nil), error(nil)
	if err = json.Unmarshal(raw, &f); err == nil {
		id, herr = hex.DecodeString(f.ID)
	}
	switch {
	case err != nil || herr != nil || len(id) != 16:
		return nil, fmt.Errorf("%w: %s is damaged; restore it, or remove it if the rest of the store is in "+
			"its place", ErrState, path)
	case f.Version != stateVersion:
		return nil, fmt.Errorf("%w: %s has version %d, this program "+
			"reads %d", ErrState, path, f.Version, stateVersion)
	case f.Name != name:
		return nil, fmt.Errorf("%w: the store of %s belongs to evaluator %q, this is %q; give each evaluator a "+
			"store of its own", ErrState, path, f.Name, name)
	}
	return &f.storeMark, nil
}

// pairStore checks, before the store is opened, that it is the one of the state. What
// can be put right by putting the store back is refused, so that nothing goes on without
// it; an old copy, which is all that is left as a rule, is told.
func (s *state) pairStore(c *config.Store) (mark storeMark, trouble string, err error) {
	path := filepath.Join(c.Dir, storeFile)
	found, err := readMark(path, s.file.Name)
	if err != nil {
		return mark, "", err
	}
	known := s.file.Store
	_, lerr := os.Stat(filepath.Join(c.Dir, "ledger"))
	const lost = "windows that their devices have deleted and results that nobody has read may be in it. Put it there"
	switch {
	case known == nil && found == nil, found == nil && lerr == nil: // both are new, or the mark alone is missing
		if known != nil {
			mark = *known
			break
		}
		id := make([]byte, 16)
		_, _ = rand.Read(id)
		mark.ID = hex.EncodeToString(id)
	case known == nil:
		mark = *found
	case found == nil:
		return mark, "", fmt.Errorf("%w: the store that belongs to %s is not in %s: %s, or move %s away to "+
			"begin with an empty store, without what was in the other",
			ErrState, s.path, c.Dir, lost, s.path)
	case found.ID != known.ID:
		return mark, "", fmt.Errorf("%w: the store in %s is not the one that belongs to %s: %s, or move %s away "+
			"to go on with this store, without what is in the other",
			ErrState, c.Dir, s.path, lost, s.path)
	default:
		mark = *known
		if found.Starts < known.Starts {
			trouble = fmt.Sprintf("the store in %s is an old copy: it was last used %d starts ago. Windows that "+
				"were acknowledged since, and whose results were not delivered, are lost; "+
				"the key holder refuses what is computed again", c.Dir, known.Starts-found.Starts)
		}
		mark.Starts = max(mark.Starts, found.Starts)
	}
	mark.Starts++
	return mark, trouble, nil
}

// keepMark writes the mark into the store and then into the state. A disk that takes
// nothing leaves both as they are.
func (s *state) keepMark(c *config.Store, mark storeMark) error {
	raw, err := json.Marshal(markFile{stateVersion, s.file.Name, mark})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if err := durable.WriteState(filepath.Join(c.Dir, storeFile), raw); err != nil {
		return nil // the next start counts
	}
	s.mu.Lock()
	s.file.Store, s.last = &mark, nil
	s.mu.Unlock()
	return s.save()
}
