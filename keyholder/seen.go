package keyholder

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/transport"
)

// ErrRepeated: an earlier result of the program was computed from the same windows. That
// happens if the evaluator's store is an old copy: it then computes again, under new
// numbers, what it has already delivered.
var ErrRepeated = errors.New("keyholder: these windows are in an earlier result of the program")

// seen remembers the newest results that were handed on, and those that wait to be. It
// knows them by what they were computed from: evaluator, program and windows. On disk it
// is a durable.Log of 20-byte records: the start of a SHA-256 and a checksum. The log is
// compacted when it is long. Damaged records, and a torn one at the end, are dropped and
// counted. Only one goroutine at a time may call add.
type seen struct {
	path  string // empty: nothing is kept over restarts
	log   *durable.Log
	limit int
	found durable.Found // at the start

	mu      sync.Mutex
	set     map[[16]byte]bool
	order   [][16]byte
	waiting map[[16]byte]bool // taken and not yet handed on; not in the file
}

const (
	seenRecord = 16 + 4
	maxSeen    = 1 << 16 // results
)

func openSeen(path string, limit int) (*seen, error) {
	s := &seen{path: path, limit: limit, set: map[[16]byte]bool{}, waiting: map[[16]byte]bool{}}
	if path == "" {
		return s, nil
	}
	s.log = durable.NewLog(durable.LogOptions{Path: path, Width: seenRecord, Newest: 4 * limit, Skip: true,
		Contents: s.encode})
	var err error
	s.found, err = s.log.Read(func(payload []byte) bool {
		s.remember([16]byte(payload))
		return true
	})
	if err == nil {
		err = s.log.Open(s.found.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("results that were read: %w", err)
	}
	if s.found.Damaged > 0 {
		_ = s.log.Compact() // so that the next start does not find the damage again
	}
	s.shorten()
	return s, nil
}

// damage returns what was lost of the file and what follows from that, or "".
func (s *seen) damage() string {
	const cost = "an evaluator whose store is an old copy may have these results read again"
	switch {
	case s.found.Damaged > 0:
		return fmt.Sprintf("%s is damaged: %d records were lost, and %d bytes at its end were cut; %s. Look at the "+
			"disk; a backup of the file can be put back while nothing reads results", s.path, s.found.Damaged,
			s.found.Torn, cost)
	case s.found.Torn > 0:
		return fmt.Sprintf("%s ended within a record, as after a crash; %d bytes were cut. The result was not "+
			"acknowledged, so nothing is lost", s.path, s.found.Torn)
	}
	return ""
}

// shorten compacts the log if it is long. On a full disk the log grows for a while.
func (s *seen) shorten() {
	if s.log.Size()-s.log.Least() > int64(2*s.limit*seenRecord) {
		_ = s.log.Compact()
	}
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
	return durable.AppendSum(append(b, key[:]...), len(b))
}

// seenKey returns a digest of what a result was computed from. ok is false if its header
// does not say.
func seenKey(m *transport.Meta) (key [16]byte, ok bool) {
	inputs := slices.Clone(m.Inputs)
	slices.SortFunc(inputs, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%d:%s", len(m.Device), m.Device, len(m.Program), m.Program)
	for i := range inputs {
		h.Write(inputs[i][:])
	}
	if f := m.Fleet; f != nil && len(inputs) == 0 {
		h.Write(f.Digest[:])
	}
	return [16]byte(h.Sum(nil)), len(inputs) > 0 || m.Fleet != nil
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

// has reports whether a result of the same windows was handed on or waits to be.
func (s *seen) has(m *transport.Meta) bool {
	key, ok := seenKey(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && (s.set[key] || s.waiting[key])
}

// fresh returns those of results for which has is false.
func (s *seen) fresh(results []transport.Meta) (out []transport.Meta) {
	for i := range results {
		if !s.has(&results[i]) {
			out = append(out, results[i])
		}
	}
	return out
}

// hold notes that results wait, until release or add.
func (s *seen) hold(results []transport.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range results {
		if key, ok := seenKey(&results[i]); ok {
			s.waiting[key] = true
		}
	}
}

func (s *seen) release(results []transport.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range results {
		key, _ := seenKey(&results[i])
		delete(s.waiting, key)
	}
}

// handed reports whether a result of the same windows was handed on.
func (s *seen) handed(m *transport.Meta) bool {
	key, ok := seenKey(m)
	return ok && s.known(key)
}

func (s *seen) known(key [16]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set[key]
}

// add remembers a result that was handed on. It returns when that is on disk.
func (s *seen) add(m *transport.Meta) error {
	key, ok := seenKey(m)
	if !ok || s.known(key) {
		return nil
	}
	if s.log != nil {
		if err := s.log.Append(appendSeen(nil, key)); err != nil {
			return fmt.Errorf("results that were read: %w", err)
		}
		defer s.shorten() // with the new one
	}
	s.remember(key)
	return nil
}

func (s *seen) close() {
	if s.log != nil {
		_ = s.log.Close()
	}
}
