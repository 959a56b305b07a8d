package evaluator

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

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/transport"
)

// The ledger remembers, over restarts, what was taken and what was made of it:
//
//   - the content ids of the newest objects that were worked off, of all and of each
//     stream: a sender whose receipt was lost asks about one of its newest, however
//     much came from others meanwhile;
//   - for each signer's stream and boot epoch, which sequence numbers were used,
//     as intervals, without end: what arrives in order takes one interval;
//   - which results were made, by program and content ids of the inputs, as long
//     as an input may come up again.
//
// It is a file of records of 64 bytes, each with a CRC-32C, which grows at its
// end and is written anew when it has become long. A record counts once it is
// flushed. A torn record at the end, from a crash, is cut off.
//
//	0  kind   1: taken, 2: made, 3: interval, 4: among the newest of its stream
//	1  zeros  3 bytes
//	4  id     32 bytes: of the object; of the result; interval: last number in 8
//	36 series 8 bytes: start of the SHA-256 of signer, device and stream
//	44 boot   8 bytes
//	52 number 8 bytes: sequence number; interval: first number
//	60 CRC-32C of bytes 0 to 59
type ledger struct {
	path   string
	file   *os.File
	size   int64
	least  int64 // size when it was written anew
	limit  int   // ids and results remembered
	broken bool

	mu     sync.Mutex
	taken  idSet
	made   idSet
	latest latest
	series map[seriesKey][]interval // sorted, disjoint, not adjacent
}

type seriesKey struct {
	series [8]byte
	boot   uint64
}

type interval struct{ lo, hi uint64 }

const (
	recordSize   = 64
	recTaken     = 1
	recMade      = 2
	recInterval  = 3
	recLatest    = 4
	maxLedger    = 1 << 30
	maxIntervals = 4096 // of one series and boot epoch; beyond it the oldest gap closes
	maxSeries    = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seriesOf names a numbered series.
func seriesOf(signer [32]byte, device, stream string) (out [8]byte) {
	h := sha256.New()
	h.Write(signer[:])
	fmt.Fprintf(h, "%s/%s", device, stream)
	copy(out[:], h.Sum(nil))
	return out
}

// idSet is a set of ids that forgets its oldest.
type idSet struct {
	limit int
	set   map[[32]byte]struct{}
	order [][32]byte
}

func (s *idSet) has(id [32]byte) bool { _, ok := s.set[id]; return ok }

func (s *idSet) add(id [32]byte) {
	if s.has(id) {
		return
	}
	if s.set == nil {
		s.set = map[[32]byte]struct{}{}
	}
	s.set[id] = struct{}{}
	s.order = append(s.order, id)
	if len(s.order) > 2*s.limit {
		for _, old := range s.order[:len(s.order)-s.limit] {
			delete(s.set, old)
		}
		s.order = slices.Clone(s.order[len(s.order)-s.limit:])
	}
}

type record struct {
	kind   byte
	id     [32]byte
	series [8]byte
	boot   uint64
	number uint64
}

func (r *record) append(b []byte) []byte {
	start := len(b)
	b = append(b, r.kind, 0, 0, 0)
	b = append(append(b, r.id[:]...), r.series[:]...)
	b = binary.BigEndian.AppendUint64(b, r.boot)
	b = binary.BigEndian.AppendUint64(b, r.number)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

var errRecord = errors.New("damaged record")

func parseRecord(b []byte) (r record, err error) {
	if len(b) != recordSize || crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) || !bytes.Equal(b[1:4], []byte{0, 0, 0}) ||
		b[0] < recTaken || b[0] > recLatest {
		return r, errRecord
	}
	r.kind = b[0]
	copy(r.id[:], b[4:])
	copy(r.series[:], b[36:])
	r.boot, r.number = binary.BigEndian.Uint64(b[44:]), binary.BigEndian.Uint64(b[52:])
	if r.kind == recInterval && r.last() < r.number {
		return r, errRecord
	}
	return r, nil
}

// last is the last number of an interval.
func (r *record) last() uint64 { return binary.BigEndian.Uint64(r.id[:]) }

// openLedger reads the ledger, cuts a torn end off and compacts it. Damage
// before the end is an error: silently forgetting would double results.
func openLedger(path string, limit int) (*ledger, error) {
	l := &ledger{path: path, limit: limit, taken: idSet{limit: limit}, made: idSet{limit: limit}, series: map[seriesKey][]interval{}, latest: newLatest()}
	transport.SweepTemporary(path)
	raw, err := readCapped(path, maxLedger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: ledger: %w", ErrState, err)
	}
	good := 0
	for n := 0; n < len(raw); n += recordSize {
		r, err := parseRecord(raw[n:min(n+recordSize, len(raw))])
		if err != nil {
			if len(raw)-n <= recordSize || bytes.Count(raw[n:], []byte{0}) == len(raw)-n {
				break // the last record, or zeros that a crash left: never counted
			}
			return nil, fmt.Errorf("%w: %s is damaged at byte %d; restore it, or move it away and accept that windows that come again are computed again", ErrState, path, n)
		}
		l.apply(&r)
		good = n + recordSize
	}
	if err := l.compact(); err != nil {
		// A disk that is full must not keep the evaluator from starting: without
		// its torn end the old file will do.
		if aerr := l.adopt(int64(good)); aerr != nil {
			return nil, fmt.Errorf("%w: ledger: %w", ErrState, errors.Join(err, aerr))
		}
	}
	return l, nil
}

// adopt goes on with the file as it is, cut to size.
func (l *ledger) adopt(size int64) error {
	f, err := os.OpenFile(l.path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Sync()); err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, size
	return nil
}

// apply takes a record into memory; mu is held or l is not shared yet.
func (l *ledger) apply(r *record) {
	switch r.kind {
	case recTaken:
		l.taken.add(r.id)
		if r.series != noSeries {
			l.latest.add(r)
			l.use(seriesKey{r.series, r.boot}, r.number, r.number)
		}
	case recLatest:
		l.latest.add(r)
		l.use(seriesKey{r.series, r.boot}, r.number, r.number)
	case recMade:
		l.made.add(r.id)
	case recInterval:
		l.use(seriesKey{r.series, r.boot}, r.number, r.last())
	}
}

// use marks lo to hi as used.
func (l *ledger) use(k seriesKey, lo, hi uint64) {
	list := l.series[k]
	if list == nil && len(l.series) >= maxSeries {
		return
	}
	// The first interval that ends at or after lo-1, and the first that begins
	// after hi+1, bound what merges.
	i := 0
	for i < len(list) && list[i].hi < lo && list[i].hi+1 < lo {
		i++
	}
	j := i
	for j < len(list) && (list[j].lo <= hi || list[j].lo == hi+1) {
		lo, hi = min(lo, list[j].lo), max(hi, list[j].hi)
		j++
	}
	list = slices.Replace(list, i, j, interval{lo, hi})
	if len(list) > maxIntervals {
		list[1].lo = list[0].lo
		list = slices.Delete(list, 0, 1)
	}
	l.series[k] = list
}

// used reports whether a number was.
func (l *ledger) used(k seriesKey, n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := slices.BinarySearchFunc(l.series[k], n, func(v interval, n uint64) int {
		switch {
		case v.hi < n:
			return -1
		case v.lo > n:
			return 1
		}
		return 0
	})
	return ok
}

func (l *ledger) hasTaken(id [32]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken.has(id) || l.latest.has(id)
}

func (l *ledger) hasMade(id [32]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made.has(id)
}

// add appends records and returns when they are on disk. When it fails, none of
// them counts.
func (l *ledger) add(records ...record) error {
	var b []byte
	for i := range records {
		b = records[i].append(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		if err := l.compact(); err != nil {
			return fmt.Errorf("%w: ledger: %w", ErrState, err)
		}
		l.broken = false
	}
	_, err := l.file.WriteAt(b, l.size)
	if err == nil {
		err = unix.Fdatasync(int(l.file.Fd()))
	}
	if err != nil {
		if terr := l.file.Truncate(l.size); terr != nil {
			l.broken = true // the next use writes the file anew
		}
		return fmt.Errorf("%w: ledger: %w", ErrState, err)
	}
	l.size += int64(len(b))
	for i := range records {
		l.apply(&records[i])
	}
	if l.size > 2*l.least+int64(recordSize*(8*l.limit+4096)) {
		if err := l.compact(); err != nil {
			// A disk that is full must not keep windows from being worked off, which
			// makes room: the file goes on growing, if it is still the one by that name.
			l.broken, l.least = !l.inPlace(), l.size
		}
	}
	return nil
}

// inPlace reports whether the open file is the one that the next start will read.
func (l *ledger) inPlace() bool {
	named, err := os.Stat(l.path)
	if err != nil {
		return false
	}
	mine, err := l.file.Stat()
	return err == nil && os.SameFile(named, mine)
}

// compact writes the ledger anew and opens it for appending.
func (l *ledger) compact() error {
	var b []byte
	keys := make([]seriesKey, 0, len(l.series))
	for k := range l.series {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b seriesKey) int {
		if c := bytes.Compare(a.series[:], b.series[:]); c != 0 {
			return c
		}
		if a.boot < b.boot {
			return -1
		}
		return 1
	})
	for _, k := range keys {
		for _, v := range l.series[k] {
			r := record{kind: recInterval, series: k.series, boot: k.boot, number: v.lo}
			binary.BigEndian.PutUint64(r.id[:], v.hi)
			b = r.append(b)
		}
	}
	b = l.latest.append(b)
	for kind, set := range map[byte]*idSet{recTaken: &l.taken, recMade: &l.made} {
		for _, id := range set.order {
			r := record{kind: kind, id: id}
			if kind == recTaken {
				r = record{kind: recTaken, id: id, series: noSeries}
			}
			b = r.append(b)
		}
	}
	if err := transport.WriteFile(l.path, b); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if l.file != nil {
		l.file.Close()
	}
	size, err := f.Seek(0, io.SeekEnd)
	l.file, l.size, l.least = f, size, size
	return err
}

// noSeries is the series of ids whose numbers are in intervals.
var noSeries = [8]byte{}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
