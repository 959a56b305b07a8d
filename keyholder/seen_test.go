package keyholder

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
)

func madeOf(program string, inputs ...byte) *transport.Meta {
	r := &transport.Meta{Device: "cloud", Program: program}
	for _, i := range inputs {
		r.Inputs = append(r.Inputs, [32]byte{i})
	}
	return r
}

// seenFile is a file of what was read, opened again and again.
type seenFile struct {
	t     *testing.T
	path  string
	limit int
}

func newSeenFile(t *testing.T) *seenFile {
	t.Helper()
	return &seenFile{t, filepath.Join(t.TempDir(), "state.results"), 8}
}

func (f *seenFile) open() *seen {
	f.t.Helper()
	s, err := openSeen(f.path, f.limit)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(s.close)
	return s
}

func (f *seenFile) add(s *seen, results ...*transport.Meta) {
	f.t.Helper()
	for _, r := range results {
		if err := s.add(r); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *seenFile) write(b []byte) {
	f.t.Helper()
	if err := os.WriteFile(f.path, b, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// atMost checks the size of the file.
func (f *seenFile) atMost(records int) {
	f.t.Helper()
	if info, err := os.Stat(f.path); err != nil || info.Size() > int64(records*seenRecord) {
		f.t.Fatalf("a file of %d bytes, want at most %d records; %v", info.Size(), records, err)
	}
}

// What was read is known by what it was made of, in whatever order, over restarts, torn
// ends and damaged records.
func TestSeen(t *testing.T) {
	f := newSeenFile(t)
	s := f.open()
	f.add(s, madeOf("a", 1, 2), madeOf("a", 3), madeOf("none"))
	other := madeOf("a", 3)
	other.Device = "cloud2"
	check := func(when string, s *seen) {
		t.Helper()
		for _, c := range []struct {
			r    *transport.Meta
			want bool
		}{{madeOf("a", 1, 2), true}, {madeOf("a", 2, 1), true}, {madeOf("a", 3), true}, {madeOf("a", 1), false},
			{madeOf("b", 3), false}, {other, false}, {madeOf("none"), false}} {
			if got := s.has(c.r); got != c.want {
				t.Errorf("%s: %s of %d inputs by %s: %v", when, c.r.Program, len(c.r.Inputs), c.r.Device, got)
			}
		}
	}
	check("at once", s)
	check("after a restart", f.open())
	whole, err := os.ReadFile(f.path)
	if err != nil || len(whole) != 2*seenRecord {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for cut := range seenRecord {
		f.write(append(whole[:len(whole):len(whole)], make([]byte, cut)...))
		s := f.open()
		check(fmt.Sprintf("%d bytes too many", cut), s)
		f.add(s, madeOf("later", 9))
		if again := f.open(); !again.has(madeOf("later", 9)) {
			t.Fatalf("%d bytes too many: what came after is forgotten", cut)
		}
	}
	bad := append([]byte(nil), whole...)
	bad[3] ^= 1
	f.write(bad)
	if s := f.open(); s.has(madeOf("a", 1, 2)) || !s.has(madeOf("a", 3)) {
		t.Error("a damaged record")
	}
}

// The newest results are remembered, up to a bound that the file keeps too: over many
// restarts, in one process that runs for long, and when a restart reads a long file.
func TestSeenIsBounded(t *testing.T) {
	f := newSeenFile(t)
	for i := range byte(40) {
		f.add(f.open(), madeOf("many", i))
	}
	s := f.open()
	f.atMost(2*f.limit + 1)
	if len(s.set) != f.limit || !s.has(madeOf("many", 39)) || s.has(madeOf("many", 39-byte(f.limit))) {
		t.Errorf("%d are remembered", len(s.set))
	}
	const results = 200
	newest := func(when string, s *seen) {
		t.Helper()
		for i := range byte(results) {
			if got := s.has(madeOf("long", i)); got != (int(i) >= results-f.limit) {
				t.Errorf("%s: result %d of %d: %v", when, i, results, got)
			}
		}
	}
	long := []byte(nil)
	for i := range byte(results) {
		f.add(s, madeOf("long", i))
		f.atMost(5 * f.limit)
		key, _ := seenKey(madeOf("long", i))
		long = appendSeen(long, key)
	}
	newest("in one process", s)
	newest("the next one", f.open())
	f.write(long)
	newest("a long file", f.open())
}

// Without a file results are remembered as long as the process runs.
func TestSeenWithoutFile(t *testing.T) {
	if s, err := openSeen("", 8); err != nil || s.add(madeOf("a", 1)) != nil || !s.has(madeOf("a", 1)) {
		t.Errorf("without a file: %v", err)
	}
	if _, err := openSeen(filepath.Join(t.TempDir(), "none", "x"), 8); err == nil {
		t.Error("a directory that does not exist")
	}
}

// FuzzSeen: whatever the file holds, it opens, and the newest sound records count, over
// another start too.
func FuzzSeen(f *testing.F) {
	const limit = 4
	f.Add([]byte("the file is damaged, and torn at the end"), uint8(0))
	f.Add(make([]byte, 16*40), uint8(9))
	path := filepath.Join(testenv.QuickDir(f), "seen")
	f.Fuzz(func(t *testing.T, b []byte, sound uint8) {
		var file []byte
		for part := range slices.Chunk(b, 16) {
			if sound = sound<<1 | sound>>7; len(part) == 16 && sound&1 == 1 {
				file = appendSeen(file, [16]byte(part))
			} else {
				file = append(file, part...)
			}
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSeen(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		if len(s.order) > limit || len(s.set) != len(s.order) {
			t.Fatalf("%d of %d", len(s.set), len(s.order))
		}
		if err := s.add(madeOf("a", 1)); err != nil {
			t.Fatal(err)
		}
		again, err := openSeen(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		defer again.close()
		if !again.has(madeOf("a", 1)) {
			t.Fatal("what was read last is forgotten")
		}
		if shared := min(len(again.order), len(s.order)); !slices.Equal(again.order[len(again.order)-shared:],
			s.order[len(s.order)-shared:]) {
			t.Fatalf("%x after %x", again.order, s.order)
		}
	})
}
