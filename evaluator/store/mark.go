package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hencedge/hencedge/internal/durable"
)

// Mark names a store and counts its starts. It lies in the store and in the state, so
// that a start notices when the two do not belong together. A store that was left behind
// has windows that their devices have deleted, and results that nobody has read.
type Mark struct {
	ID     string `json:"id"` // 16 random bytes in hexadecimal digits
	Starts uint64 `json:"starts"`
}

// MarkFile is the file of the mark in a store.
const MarkFile = "store.json"

const markVersion = 1

// nextMark returns the mark for this start of the store in dir, for the evaluator of a
// name. state is the path of its state, and known what that has of its store. A store that
// does not belong to the state is an error: the right one can be put back. An old copy is
// a trouble only, because as a rule nothing else is left.
func nextMark(dir, name, state string, known *Mark) (mark Mark, trouble string, err error) {
	found, err := readMark(filepath.Join(dir, MarkFile), name)
	if err != nil {
		return mark, "", err
	}
	_, lerr := os.Stat(filepath.Join(dir, "ledger"))
	lost := found == nil && lerr != nil
	const putThere = "windows that their devices have deleted and results that nobody has read may be in it. Put " +
		"it there"
	switch {
	case known != nil && lost:
		return mark, "", fmt.Errorf("%w: the store that belongs to %s is not in %s: %s, or move %s away to "+
			"begin with an empty store, without what was in the other", ErrState, state, dir, putThere, state)
	case known != nil && found != nil && found.ID != known.ID:
		return mark, "", fmt.Errorf("%w: the store in %s is not the one that belongs to %s: %s, or move %s away "+
			"to go on with this store, without what is in the other", ErrState, dir, state, putThere, state)
	case known != nil && found != nil:
		mark = Mark{known.ID, max(known.Starts, found.Starts)}
		if found.Starts < known.Starts {
			trouble = fmt.Sprintf("the store in %s is an old copy: it was last used %d starts ago. Windows that "+
				"were acknowledged since, and whose results were not delivered, are lost; "+
				"the key holder refuses what is computed again", dir, known.Starts-found.Starts)
		}
	case known != nil: // the mark alone is missing
		mark = *known
	case found != nil: // the state is new
		mark = *found
	default: // the state is new, and the store is new or its mark alone is missing
		id := make([]byte, 16)
		_, _ = rand.Read(id)
		mark.ID = hex.EncodeToString(id)
	}
	mark.Starts++
	return mark, trouble, nil
}

// readMark reads the mark of a store; nil means that it has none.
func readMark(path, name string) (*Mark, error) {
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
	case f.Version != markVersion:
		return nil, fmt.Errorf("%w: %s has version %d, this program reads %d", ErrState, path, f.Version, markVersion)
	case f.Name != name:
		return nil, fmt.Errorf("%w: the store of %s belongs to evaluator %q, this is %q; give each evaluator a "+
			"store of its own", ErrState, path, f.Name, name)
	}
	return &f.Mark, nil
}

// writeMark writes the mark into the store in dir, for the evaluator of a name.
func writeMark(dir, name string, mark Mark) error {
	raw, err := json.Marshal(markFile{markVersion, name, mark})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return durable.WriteState(filepath.Join(dir, MarkFile), raw)
}

// markFile is the JSON form of a mark in a store.
type markFile struct {
	Version int    `json:"version"`
	Name    string `json:"name"` // of the evaluator
	Mark
}
