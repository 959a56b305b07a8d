package keyholder

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/transport"
)

// ErrRepeated: an earlier result of the program was made of the same windows. An
// evaluator does not do that, unless its store is an old copy: then it computes again
// what it has delivered, under new numbers.
var ErrRepeated = errors.New("keyholder: these windows are in an earlier result of the program")

// seen remembers the newest results that were handed on, and those that wait for it, by what
// they were made of: evaluator, program and windows. It is a file of records of 20 bytes, the start of a SHA-256 and a
// CRC-32C, that grows at its end; it is written anew when it has become long. Damaged
// records, and a torn one at the end, are forgotten and counted. One goroutine at a time
// calls add.
type seen struct {
	path  string // empty: nothing is kept over restarts
	file  *os.File
	long  int64 // size from which the file is written anew
	limit int
	lost  int // damaged records at the start; they were forgotten
	torn  int // bytes of a record at the end that was not whole

	mu      sync.Mutex
	set     map[[16]byte]bool
	order   [][16]byte
	waiting map[[16]byte]bool // taken, and not handed on yet; not in the file
}

const (
	seenRecord = 16 + 4
	maxSeen    = 1 << 16 // results
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func openSeen(path string, limit int) (*seen, error) {
	s := &seen{path: path, limit: limit, set: map[[16]byte]bool{}, waiting: map[[16]byte]bool{}}
	if path == "" {
		return s, nil
	}
	fail := func(err error) (*seen, error) { return nil, fmt.Errorf("results that were read: %w", err) }
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fail(err)
	}
	s.file = f
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fail(err)
	}
	// The newest are at the end.
	whole := info.Size() / seenRecord
	first := max(whole-int64(4*limit), 0)
	raw := make([]byte, (whole-first)*seenRecord)
	if _, err := f.ReadAt(raw, first*seenRecord); err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return fail(err)
	}
	s.torn = int(info.Size() % seenRecord)
	for r := range slices.Chunk(raw, seenRecord) {
		s.lost++
		if crc32.Checksum(r[:16], castagnoli) == binary.BigEndian.Uint32(r[16:]) {
			s.remember([16]byte(r))
			s.lost--
		}
	}
	// What comes next begins where a whole record ends.
	if err := f.Truncate(whole * seenRecord); err != nil {
		s.close()
		return fail(err)
	}
	if s.long = int64(2 * limit * seenRecord); s.lost > 0 {
		s.long = 0 // without them, so that the next start does not find them again
	}
	if err := s.shorten(); err != nil {
		s.close()
		return fail(err)
	}
	return s, nil
}

// damage says what of the file was forgotten, and what follows; empty: nothing.
func (s *seen) damage() string {
	const cost = "an evaluator whose store is an old copy may have these results read once more"
	switch {
	case s.lost > 0:
		return fmt.Sprintf("%s is damaged: %d records were lost, and %d bytes at its end were cut; %s. Look at the disk; a backup of the file can be put back while nothing reads results", s.path, s.lost, s.torn, cost)
	case s.torn > 0:
		return fmt.Sprintf("%s ended within a record, as after a crash; %d bytes were cut. The result was not acknowledged, so nothing is lost", s.path, s.torn)
	}
	return ""
}

// shorten writes the file anew if it is long. When the disk has no room for that, the
// old one goes on growing for a while.
func (s *seen) shorten() error {
	info, err := s.file.Stat()
	if err != nil || info.Size() <= s.long {
		return err
	}
	_ = transport.WriteFile(s.path, s.encode())
	f, err := os.OpenFile(s.path, os.O_RDWR, 0) // whichever of the two it is
	if err != nil {
		return err
	}
	s.file.Close()
	s.file = f
	if info, err = f.Stat(); err == nil {
		s.long = info.Size() + int64(2*s.limit*seenRecord)
	}
	return err
}

func (s *seen) encode() (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.order {
		b = appendSeen(b, s.order[i])
	}
	return b
}

func appendSeen(b []byte, key [16]byte) []byte {
	b = append(b, key[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(key[:], castagnoli))
}

// seenKey names what a result was made of; ok is false for one that does not tell.
func seenKey(m *transport.Meta) (key [16]byte, ok bool) {
	inputs := slices.Clone(m.Inputs)
	slices.SortFunc(inputs, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%d:%s", len(m.Device), m.Device, len(m.Program), m.Program)
	for i := range inputs {
		h.Write(inputs[i][:])
	}
	return [16]byte(h.Sum(nil)), len(inputs) > 0
}

func (s *seen) remember(key [16]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, key)
	if s.set[key] {
		return
	}
	s.set[key] = true
	if s.order = append(s.order, key); len(s.order) > s.limit {
		delete(s.set, s.order[0])
		s.order = s.order[1:]
	}
}

// has reports whether a result of the same windows was handed on, or waits for it.
func (s *seen) has(m *transport.Meta) bool {
	key, ok := seenKey(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && (s.set[key] || s.waiting[key])
}

// hold notes that a result waits; release and add end that.
func (s *seen) hold(m *transport.Meta) {
	if key, ok := seenKey(m); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[key] = true
	}
}

func (s *seen) release(m *transport.Meta) {
	key, _ := seenKey(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, key)
}

func (s *seen) known(key [16]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set[key]
}

// add remembers a result that was handed on and returns when that is on disk.
func (s *seen) add(m *transport.Meta) error {
	key, ok := seenKey(m)
	if !ok || s.known(key) {
		return nil
	}
	if s.file != nil {
		end, err := s.file.Seek(0, io.SeekEnd)
		if err == nil {
			_, err = s.file.WriteAt(appendSeen(nil, key), end-end%seenRecord)
		}
		if err == nil {
			err = s.file.Sync()
		}
		if err != nil {
			return fmt.Errorf("results that were read: %w", err)
		}
	}
	s.remember(key)
	if s.file == nil {
		return nil
	}
	return s.shorten()
}

func (s *seen) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
