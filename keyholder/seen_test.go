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

// What was read is known by what it was made of, in whatever order, over restarts, torn
// ends and damaged records, up to a bound.
func TestSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.results")
	const limit = 8
	open := func() *seen {
		t.Helper()
		s, err := openSeen(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.close)
		return s
	}
	add := func(s *seen, r *transport.Meta) {
		t.Helper()
		if err := s.add(r); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	add(s, madeOf("a", 1, 2))
	add(s, madeOf("a", 3))
	add(s, madeOf("none"))
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
	check("after a restart", open())
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) != 2*seenRecord {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for cut := range seenRecord {
		if err := os.WriteFile(path, append(whole[:len(whole):len(whole)], make([]byte, cut)...), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open()
		check(fmt.Sprintf("%d bytes too many", cut), s)
		add(s, madeOf("later", 9))
		if again := open(); !again.has(madeOf("later", 9)) {
			t.Fatalf("%d bytes too many: what came after is forgotten", cut)
		}
	}
	bad := append([]byte(nil), whole...)
	bad[3] ^= 1
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := open(); s.has(madeOf("a", 1, 2)) || !s.has(madeOf("a", 3)) {
		t.Error("a damaged record")
	}
	for i := range byte(40) {
		add(open(), madeOf("many", i))
	}
	s = open()
	if info, err := os.Stat(path); err != nil || info.Size() > 2*limit*seenRecord+seenRecord || len(s.set) != limit ||
		!s.has(madeOf("many", 39)) || s.has(madeOf("many", 39-limit)) {
		t.Errorf("%d bytes, %d remembered, %v", info.Size(), len(s.set), err)
	}
	// One process that runs for long, and what a restart reads of a long file.
	for i := range byte(200) {
		add(s, madeOf("long", i))
		if info, err := os.Stat(path); err != nil || info.Size() > 5*limit*seenRecord {
			t.Fatalf("%d results: a file of %d bytes, %v", i+1, info.Size(), err)
		}
	}
	newest := func(when string, s *seen) {
		t.Helper()
		for i := range byte(200) {
			if got := s.has(madeOf("long", i)); got != (i >= 200-limit) {
				t.Errorf("%s: result %d of 200: %v", when, i, got)
			}
		}
	}
	newest("in one process", s)
	newest("the next one", open())
	long := []byte(nil)
	for i := range byte(200) {
		key, _ := seenKey(madeOf("long", i))
		long = appendSeen(long, key)
	}
	if err := os.WriteFile(path, long, 0o600); err != nil {
		t.Fatal(err)
	}
	newest("a long file", open())
	if s, err := openSeen("", limit); err != nil || s.add(madeOf("a", 1)) != nil || !s.has(madeOf("a", 1)) {
		t.Errorf("without a file: %v", err)
	}
	if _, err := openSeen(filepath.Join(t.TempDir(), "none", "x"), limit); err == nil {
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
