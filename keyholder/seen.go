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

	"github.com/hencedge/hencedge/transport"
)

// ErrRepeated: an earlier result of the program was made of the same windows. An
// evaluator does not do that, unless its store is an old copy: then it computes again
// what it has delivered, under new numbers.
var ErrRepeated = errors.New("keyholder: these windows are in an earlier result of the program")

// seen remembers the newest results that were read by what they were made of: evaluator,
// program and windows. It is a file of records of 20 bytes, the start of a SHA-256 and a
// CRC-32C, that grows at its end; it is written anew at the start when it has become
// long. Damaged records, and a torn one at the end, count as forgotten.
type seen struct {
	path  string // empty: nothing is kept over restarts
	file  *os.File
	limit int
	set   map[[16]byte]bool
	order [][16]byte
}

const (
	seenRecord = 16 + 4
	maxSeen    = 1 << 16 // results
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func openSeen(path string, limit int) (*seen, error) {
	s := &seen{path: path, limit: limit, set: map[[16]byte]bool{}}
	if path == "" {
		return s, nil
	}
	fail := func(err error) (*seen, error) { return nil, fmt.Errorf("results that were read: %w", err) }
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fail(err)
	}
	s.file = f
	raw, err := io.ReadAll(io.LimitReader(f, int64(16*limit*seenRecord)))
	if err != nil {
		f.Close()
		return fail(err)
	}
	whole := len(raw) / seenRecord
	for i := range whole {
		r := raw[i*seenRecord : (i+1)*seenRecord]
		if crc32.Checksum(r[:16], castagnoli) == binary.BigEndian.Uint32(r[16:]) {
			s.remember([16]byte(r))
		}
	}
	if whole > 2*limit {
		f.Close()
		if err := transport.WriteFile(path, s.encode()); err != nil {
			return fail(err)
		}
		if s.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			return fail(err)
		}
		whole = len(s.order)
	}
	// What comes next begins where a whole record ends.
	if err := s.file.Truncate(int64(whole * seenRecord)); err != nil {
		s.file.Close()
		return fail(err)
	}
	return s, nil
}

func (s *seen) encode() (b []byte) {
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
func seenKey(r *Result) (key [16]byte, ok bool) {
	inputs := slices.Clone(r.Inputs)
	slices.SortFunc(inputs, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%d:%s", len(r.Evaluator), r.Evaluator, len(r.Program), r.Program)
	for i := range inputs {
		h.Write(inputs[i][:])
	}
	return [16]byte(h.Sum(nil)), len(inputs) > 0
}

func (s *seen) remember(key [16]byte) {
	if s.set[key] {
		return
	}
	s.set[key] = true
	if s.order = append(s.order, key); len(s.order) > s.limit {
		delete(s.set, s.order[0])
		s.order = s.order[1:]
	}
}

// has reports whether a result was read before under another number.
func (s *seen) has(r *Result) bool {
	key, ok := seenKey(r)
	return ok && s.set[key]
}

// add remembers a result and returns when that is on disk.
func (s *seen) add(r *Result) error {
	key, ok := seenKey(r)
	if !ok || s.set[key] {
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
	return nil
}

func (s *seen) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
