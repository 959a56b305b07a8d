package enroll

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
)

// A Book keeps an operator's invitations, a file each (mode 0600), in a directory that only
// the operator may read: the files hold the secrets of tokens. Several processes may use it.
type Book struct{ dir string }

// An Invitation is a token as its operator remembers it.
type Invitation struct {
	ID      string    `json:"id"`
	Secret  Secret    `json:"secret"` // zeros once it is of no use
	Class   string    `json:"class"`
	Device  string    `json:"device,omitempty"` // that the board must be called
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Board   *Admitted `json:"board,omitempty"` // that was let in
	// Revoked: it is to be forgotten once nothing lies at the broker for it.
	Revoked bool `json:"revoked,omitempty"`
	// Noticed: the broker keeps a notice that the token was used.
	Noticed bool `json:"noticed,omitempty"`
}

// Admitted is a board that an invitation let in.
type Admitted struct {
	Device    string    `json:"device"`
	PublicKey string    `json:"public_key"`
	At        time.Time `json:"at"`
	Joined    bool      `json:"joined"`  // it has said that it kept the answer
	Request   [32]byte  `json:"request"` // SHA-256 of the last one that was answered
	Answer    [32]byte  `json:"answer"`  // SHA-256 of the last one
	Parts     int       `json:"parts"`   // that it announces
}

// The states of an invitation.
const (
	StateOpen     = "open"     // good for a board
	StateApproved = "approved" // the board has not yet said that it has the answer
	StateJoined   = "joined"
	StateExpired  = "expired"
	StateRevoked  = "revoked" // and something may still lie at the broker
)

// State returns one of the states above.
func (i *Invitation) State(now time.Time) string {
	switch {
	case i.Revoked:
		return StateRevoked
	case i.Board != nil && i.Board.Joined:
		return StateJoined
	case now.After(i.Expires):
		return StateExpired
	case i.Board != nil:
		return StateApproved
	}
	return StateOpen
}

const (
	maxInvitation = 16 << 10 // bytes of a file
	bookLock      = "lock"
	fileSuffix    = ".json"
)

// OpenBook opens the book in a directory, which it makes with mode 0700 if there is none.
func OpenBook(dir string) (*Book, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open invitations: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open invitations: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, and holds secrets: chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	return &Book{dir}, nil
}

// List returns all invitations, the oldest first.
func (b *Book) List() ([]Invitation, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	var out []Invitation
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), fileSuffix)
		if !ok || e.IsDir() {
			continue
		}
		i, err := b.Find(id)
		switch {
		case errors.Is(err, ErrUnknown): // removed meanwhile
			continue
		case err != nil:
			return nil, err
		}
		out = append(out, *i)
	}
	slices.SortFunc(out, func(x, y Invitation) int {
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.ID, y.ID))
	})
	return out, nil
}

// Find returns an invitation. It fails with ErrUnknown.
func (b *Book) Find(id string) (*Invitation, error) {
	raw, err := durable.ReadFile(b.path(id), maxInvitation)
	if errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(id, "/\x00") {
		return nil, fmt.Errorf("%w: there is no invitation %q in %s", ErrUnknown, id, b.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read invitation: %w", err)
	}
	i := new(Invitation)
	if err := json.Unmarshal(raw, i); err != nil {
		return nil, fmt.Errorf("read invitation %s: %w", b.path(id), err)
	}
	if i.ID != id {
		return nil, fmt.Errorf("%w: %s holds the invitation %q", ErrMalformed, b.path(id), i.ID)
	}
	return i, nil
}

// Add stores a new invitation and returns when it is on disk.
func (b *Book) Add(i Invitation) error { return b.write(&i) }

// Change lets f change an invitation, which no other process changes meanwhile. Nothing
// changes if f fails.
func (b *Book) Change(id string, f func(*Invitation) error) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	i, err := b.Find(id)
	if err != nil {
		return err
	}
	if err := f(i); err != nil {
		return err
	}
	return b.write(i)
}

// Remove forgets an invitation: its token is worth nothing from now on. It returns what the book had of it.
func (b *Book) Remove(id string) (*Invitation, error) {
	unlock, err := b.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	i, err := b.Find(id)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(b.path(id)); err != nil {
		return nil, fmt.Errorf("remove invitation: %w", err)
	}
	return i, durable.SyncDir(b.dir)
}

// Stamp returns a text that differs after a change of the book. It reads no invitation.
func (b *Book) Stamp() string {
	entries, err := os.ReadDir(b.dir)
	sum := sha256.New()
	fmt.Fprintln(sum, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), fileSuffix) {
			continue
		}
		if info, err := e.Info(); err == nil { // else it is gone
			fmt.Fprintln(sum, e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return string(sum.Sum(nil))
}

func (b *Book) path(id string) string { return filepath.Join(b.dir, id+fileSuffix) }

func (b *Book) write(i *Invitation) error {
	raw, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("encode invitation: %w", err)
	}
	return durable.WriteFile(b.path(i.ID), append(raw, '\n'))
}

// lock waits for other processes that change the book.
func (b *Book) lock() (unlock func(), err error) {
	for range 100 {
		f, err := durable.LockFile(filepath.Join(b.dir, bookLock))
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, durable.ErrLocked) {
			return nil, fmt.Errorf("lock invitations: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, fmt.Errorf("lock invitations: %w", durable.ErrLocked)
}

// MarshalText returns the secret in hexadecimal.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads what MarshalText returns.
func (s *Secret) UnmarshalText(text []byte) error {
	if len(text) != 2*len(s) {
		return fmt.Errorf("%w: a secret of %d digits", ErrMalformed, len(text))
	}
	if _, err := hex.Decode(s[:], text); err != nil {
		return fmt.Errorf("%w: secret: %w", ErrMalformed, err)
	}
	return nil
}

// String keeps the secret out of logs.
func (s Secret) String() string { return "(secret)" }
