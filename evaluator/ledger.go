package evaluator

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
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
//     as intervals: what arrives in order takes one interval (spent.go);
//   - which results were made, by program and content ids of the inputs, as long
//     as an input may come up again.
//
// It is a file of records of 64 bytes, each with a CRC-32C, which grows at its
// end and is written anew when it has become long. A record counts once it is
// flushed. A torn record at the end, from a crash, is cut off.
//
//	0  kind   1: taken, 2: made, 3: interval, 4: among the newest of its stream,
//	          5: boot epochs of the series below this one are closed
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
	series map[[8]byte]*spentNumbers
}

type seriesKey struct {
	series [8]byte
	boot   uint64
}

const (
	recordSize  = 64
	recTaken    = 1
	recMade     = 2
	recInterval = 3
	recLatest   = 4
	recFloor    = 5
)

// maxSeries bounds the series that are remembered. It is a variable for tests.
var maxSeries = 1 << 16

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
		b[0] < recTaken || b[0] > recFloor {
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
	l := &ledger{path: path, limit: limit, taken: idSet{limit: limit}, made: idSet{limit: limit}, series: map[[8]byte]*spentNumbers{}, latest: newLatest()}
	transport.SweepTemporary(path)
	good, err := l.read()
	if err != nil {
		return nil, err
	}
	if err := l.compact(); err != nil {
		// A disk that is full must not keep the evaluator from starting: without
		// its torn end the old file will do.
		if aerr := l.adopt(good); aerr != nil {
			return nil, fmt.Errorf("%w: ledger: %w", ErrState, errors.Join(err, aerr))
		}
	}
	return l, nil
}

// read takes the records of the file, if there is one, and returns their length
// without a torn end.
func (l *ledger) read() (good int64, err error) {
	f, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%w: ledger: %w", ErrState, err)
	}
	defer f.Close()
	in, b := bufio.NewReaderSize(f, 1<<18), make([]byte, recordSize)
	for {
		n, err := io.ReadFull(in, b)
		if n == 0 && errors.Is(err, io.EOF) {
			return good, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, fmt.Errorf("%w: ledger: %w", ErrState, err)
		}
		r, err := parseRecord(b[:n])
		if err != nil {
			torn, err := isTorn(b[:n], in)
			if err != nil {
				return 0, fmt.Errorf("%w: ledger: %w", ErrState, err)
			}
			if torn {
				return good, nil
			}
			return 0, fmt.Errorf("%w: %s is damaged at byte %d; restore it, or move it away and accept that windows that come again are computed again", ErrState, l.path, good)
		}
		l.apply(&r)
		good += recordSize
	}
}

// isTorn reports whether a record that cannot be read, and what follows it, was left by
// a crash and never counted: it is the last one, or all of it is zeros.
func isTorn(record []byte, rest io.Reader) (bool, error) {
	zeros := bytes.Count(record, []byte{0}) == len(record)
	b, more := make([]byte, 1<<12), false
	for {
		n, err := rest.Read(b)
		more = more || n > 0
		zeros = zeros && bytes.Count(b[:n], []byte{0}) == n
		switch {
		case errors.Is(err, io.EOF):
			return zeros || !more, nil
		case err != nil:
			return false, err
		case more && !zeros:
			return false, nil
		}
	}
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
	case recFloor:
		if l.series[r.series] == nil {
			l.series[r.series] = &spentNumbers{}
		}
		l.series[r.series].raise(r.boot)
	}
}

// use marks lo to hi as used.
func (l *ledger) use(k seriesKey, lo, hi uint64) {
	n := l.series[k.series]
	if n == nil {
		n = &spentNumbers{}
		l.series[k.series] = n
	}
	n.use(k.boot, lo, hi, intervalShare(len(l.series)))
}

// reserve makes room for a series, or fails when too many are remembered: a window
// whose number cannot be remembered must not be taken.
func (l *ledger) reserve(series [8]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.series[series] != nil {
		return nil
	}
	if len(l.series) >= maxSeries {
		return fmt.Errorf("the ledger remembers %d numbered streams, the most that it may", len(l.series))
	}
	l.series[series] = &spentNumbers{}
	return nil
}

// full reports whether no further stream can be remembered.
func (l *ledger) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.series) >= maxSeries
}

// used reports whether a number was, or may have been.
func (l *ledger) used(k seriesKey, n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.series[k.series].used(k.boot, n)
}

// course returns where a stream stood: its newest boot epoch and the highest number of it.
func (l *ledger) course(series [8]byte) (boot, high uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.series[series]
	if n == nil || len(n.epochs) == 0 {
		return 0, 0, false
	}
	newest := n.epochs[len(n.epochs)-1]
	return newest.boot, newest.used[len(newest.used)-1].hi, true
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
	for _, k := range slices.SortedFunc(maps.Keys(l.series), func(a, b [8]byte) int { return bytes.Compare(a[:], b[:]) }) {
		b = l.series[k].append(b, k)
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
