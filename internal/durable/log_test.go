package durable_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testenv"
)

const width = 4 + 4

// numbers is a log of numbers that remembers the newest of them.
type numbers struct {
	log   *durable.Log
	found durable.Found
	held  []uint32
}

func record(n uint32) []byte {
	return durable.AppendSum(binary.BigEndian.AppendUint32(nil, n), 0)
}

func records(from, to uint32) (b []byte) {
	for n := from; n < to; n++ {
		b = append(b, record(n)...)
	}
	return b
}

func load(t testing.TB, o durable.LogOptions) (*numbers, error) {
	t.Helper()
	l := &numbers{}
	o.Width = width
	o.Contents = func() (b []byte) {
		for _, n := range l.held {
			b = append(b, record(n)...)
		}
		return b
	}
	l.log = durable.NewLog(o)
	var err error
	l.found, err = l.log.Read(func(payload []byte) bool {
		n := binary.BigEndian.Uint32(payload)
		if n < 1000 {
			l.held = append(l.held, n)
		}
		return n < 1000
	})
	if err == nil {
		err = l.log.Open(l.found.Size)
	}
	t.Cleanup(func() { l.log.Close() })
	return l, err
}

func mustLoad(t testing.TB, o durable.LogOptions) *numbers {
	t.Helper()
	l, err := load(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *numbers) add(n uint32) error {
	err := l.log.Append(record(n))
	if err == nil {
		l.held = append(l.held, n)
	}
	return err
}

// upTo lists the numbers from one to another.
func upTo(from, to uint32) (all []uint32) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

// What was appended is read again, whatever a crash leaves at the end of the file, and
// what comes after that too.
func TestLogTornEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if l := mustLoad(t, durable.LogOptions{Path: path}); !l.found.New {
		t.Error("there was a file")
	}
	for cut := range width {
		for _, zeros := range []int{0, cut, 3*width + cut} {
			torn := append(records(0, 3), record(9)[:cut]...)
			if zeros > 0 {
				torn = append(records(0, 3), make([]byte, zeros)...)
			}
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			l := mustLoad(t, durable.LogOptions{Path: path})
			if err := l.add(3); err != nil || l.found.New {
				t.Fatal(l.found, err)
			}
			if l = mustLoad(t, durable.LogOptions{Path: path}); !slices.Equal(l.held, upTo(0, 4)) {
				t.Fatalf("%d bytes, %d zeros: %v", cut, zeros, l.held)
			}
		}
	}
}

// A flipped bit before the end is an error, or a record that is skipped and counted; so
// is a record with the right checksum that makes no sense.
func TestLogDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for bit := range 8 * width {
		b := append(records(0, 5), record(9)[:3]...)
		b[2*width+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t, durable.LogOptions{Path: path}); !errors.Is(err, durable.ErrDamaged) {
			t.Fatalf("bit %d: %v", bit, err)
		}
		l := mustLoad(t, durable.LogOptions{Path: path, Skip: true})
		if !slices.Equal(l.held, []uint32{0, 1, 3, 4}) || l.found.Damaged != 1 || l.found.Torn != 3 {
			t.Fatalf("bit %d: %v, %+v", bit, l.held, l.found)
		}
	}
	if err := os.WriteFile(path, append(record(5000), record(1)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, durable.LogOptions{Path: path}); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("a record that makes no sense: %v", err)
	}
}

// Only the newest records are read of a long file, and it can be compacted to them.
func TestLogNewest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, records(0, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustLoad(t, durable.LogOptions{Path: path, Newest: 10})
	if !slices.Equal(l.held, upTo(90, 100)) || l.log.Size() != 100*width {
		t.Fatalf("%v of %d bytes", l.held, l.log.Size())
	}
	if err := errors.Join(l.log.Compact(), l.add(100)); err != nil || l.log.Least() != 10*width {
		t.Fatal(l.log.Least(), err)
	}
	if l = mustLoad(t, durable.LogOptions{Path: path}); !slices.Equal(l.held, upTo(90, 101)) {
		t.Errorf("%v", l.held)
	}
}

// Two processes that share a log by mistake do not overwrite each other's records.
func TestLogOfTwo(t *testing.T) {
	o := durable.LogOptions{Path: filepath.Join(t.TempDir(), "log")}
	a, b := mustLoad(t, o), mustLoad(t, o)
	if err := errors.Join(a.add(1), b.add(2), a.add(3)); err != nil {
		t.Fatal(err)
	}
	if l := mustLoad(t, o); !slices.Equal(l.held, []uint32{1, 2, 3}) {
		t.Errorf("%v", l.held)
	}
}

// A compaction whose directory is not flushed may be undone by a power cut: records are
// taken again only when another one has succeeded.
func TestLogCompactionFails(t *testing.T) {
	o := durable.LogOptions{Path: filepath.Join(t.TempDir(), "log")}
	l := mustLoad(t, o)
	bad := errors.New("the disk fails")
	durable.SetSyncDir(func(string) error { return bad })
	defer durable.SetSyncDir(nil)
	if err := l.add(1); err != nil {
		t.Fatal(err)
	}
	if err := l.log.Compact(); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	if err := l.add(2); !errors.Is(err, bad) {
		t.Errorf("a record in a file that may vanish: %v", err)
	}
	durable.SetSyncDir(nil)
	if err := l.add(3); err != nil {
		t.Fatal(err)
	}
	if l = mustLoad(t, o); !slices.Equal(l.held, []uint32{1, 3}) {
		t.Errorf("%v", l.held)
	}
}

// On a full disk a record is refused and leaves nothing behind, and the log goes on when
// there is room. A real, small file system, filled.
func TestLogFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "64k")
	o := durable.LogOptions{Path: filepath.Join(dir, "log")}
	l := mustLoad(t, o)
	if err := l.add(0); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	testenv.Fill(t, ballast)
	n := uint32(1)
	for ; n < 999; n++ { // up to the end of the block
		if err := l.add(n); errors.Is(err, unix.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n == 999 {
		t.Fatal("nothing was refused")
	}
	if err := l.log.Compact(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("compaction: %v", err)
	}
	if l = mustLoad(t, o); !slices.Equal(l.held, upTo(0, n)) {
		t.Errorf("%d records of %d", len(l.held), n)
	}
	if err := errors.Join(os.Remove(ballast), l.add(n)); err != nil {
		t.Fatal(err)
	}
	if l = mustLoad(t, o); !slices.Equal(l.held, upTo(0, n+1)) {
		t.Errorf("%d records of %d", len(l.held), n+1)
	}
}

// FuzzLog: whatever a file holds, a log that opens holds its sound records, takes more,
// and holds the same after it was compacted.
func FuzzLog(f *testing.F) {
	f.Add(append(records(0, 3), "torn"...), false)
	f.Add(append(records(0, 3), make([]byte, 20)...), false)
	f.Add(slices.Concat(records(0, 2), record(9)[1:], records(3, 5)), true)
	path := filepath.Join(testenv.QuickDir(f), "log")
	f.Fuzz(func(t *testing.T, b []byte, skip bool) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		o := durable.LogOptions{Path: path, Skip: skip}
		l, err := load(t, o)
		if errors.Is(err, durable.ErrDamaged) && !skip {
			return
		}
		if err == nil {
			err = l.add(7)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			again := mustLoad(t, o)
			if !slices.Equal(again.held, l.held) {
				t.Fatalf("%v after %v", again.held, l.held)
			}
			if err := again.log.Compact(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
