package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testenv"
)

func openTestLedger(t testing.TB, path string, limit int) *ledger {
	t.Helper()
	l, err := openLedger(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	return l
}

type ident [32]byte

func id(n uint64) ident {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
}

// Numbers are exactly those that were used, across restarts and compactions,
// whatever their order; ids are at least the newest.
func TestLedgerRemembers(t *testing.T) {
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		path := filepath.Join(root, id(uint64(runs)).name())
		const limit = 8
		l, err := openLedger(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { l.close() }()
		used := map[seriesKey]map[uint64]bool{}
		var order []uint64
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			k := seriesKey{[8]byte{byte(rapid.IntRange(1, 2).Draw(t, "series"))},
				rapid.Uint64Range(1, 2).Draw(t, "boot")}
			n := rapid.Uint64Range(0, 30).Draw(t, "number")
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				l.close()
				if l, err = openLedger(path, limit); err != nil {
					t.Fatal(err)
				}
			}
			if used[k] == nil {
				used[k] = map[uint64]bool{}
			}
			used[k][n] = true
			name := uint64(len(order))
			order = append(order, name)
			if err := l.add(record{kind: recTaken, id: id(name), series: k.series, boot: k.boot,
				number: n}); err != nil {
				t.Fatal(err)
			}
		}
		l.close()
		if l, err = openLedger(path, limit); err != nil {
			t.Fatal(err)
		}
		for s := byte(1); s <= 2; s++ {
			for boot := uint64(1); boot <= 2; boot++ {
				k := seriesKey{[8]byte{s}, boot}
				for n := range uint64(32) {
					if l.used(k, n) != used[k][n] {
						t.Fatalf("series %d, boot %d, number %d: %v", s, boot, n, l.used(k, n))
					}
				}
			}
		}
		for i, name := range order {
			if i >= len(order)-limit && !l.hasTaken(id(name)) {
				t.Fatalf("id %d of %d is forgotten", i, len(order))
			}
		}
	})
}

func (i ident) name() string {
	return string('a'+i[0]%26) + string('a'+i[1]%26) + string('a'+i[2]%26) + string('a'+i[3]%26)
}

// What arrives in order takes one interval, and a bound holds for what does not.
func TestLedgerIntervals(t *testing.T) {
	l := openTestLedger(t, filepath.Join(t.TempDir(), "ledger"), 100)
	k := seriesKey{[8]byte{1}, 1}
	l.mu.Lock()
	for n := range uint64(1000) {
		l.use(k, n, n)
	}
	if got := l.series[k.series].epochs; len(got) != 1 || !slices.Equal(got[0].used, []interval{{0, 999}}) {
		t.Errorf("%v", got)
	}
	for n := uint64(2000); n < 2000+3*mostIntervals; n += 2 {
		l.use(k, n, n)
	}
	if n := l.series[k.series]; n.count != mostIntervals || len(n.epochs[0].used) != mostIntervals {
		t.Errorf("%d intervals", n.count)
	}
	l.mu.Unlock()
	if !l.used(k, 1500) || l.used(k, 2000+3*mostIntervals-1) {
		t.Error("the oldest gap closes, not another")
	}
	if l.use(k, 0, ^uint64(0)); !l.used(k, ^uint64(0)) {
		t.Error("the last number")
	}
}

// A sender whose receipt was lost is answered however much others sent meanwhile, also
// after a restart and when the ledger was written anew: the newest objects of a stream
// are known for ever.
func TestLedgerKnowsTheLatest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	const limit = 8
	l := openTestLedger(t, path, limit)
	take := func(series byte, n uint64) {
		t.Helper()
		if err := l.add(record{kind: recTaken, id: id(uint64(series)<<32 | n), series: [8]byte{series}, boot: 1,
			number: n}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for n := range uint64(20) {
			if got, want := l.hasTaken(id(1<<32|n)), n >= 20-keepLatest; got != want {
				t.Errorf("%s: object %d of the quiet stream: %v", when, n, got)
			}
			if !l.used(seriesKey{[8]byte{1}, 1}, n) {
				t.Errorf("%s: number %d of the quiet stream is free", when, n)
			}
		}
		if l.hasTaken(id(2<<32)) || !l.hasTaken(id(2<<32|99)) {
			t.Errorf("%s: the busy stream", when)
		}
	}
	for n := range uint64(20) {
		take(1, n)
	}
	for n := range uint64(100) {
		take(2, n)
	}
	check("at once")
	for i := range 3 {
		l.close()
		l = openTestLedger(t, path, limit)
		check(fmt.Sprint("restart ", i))
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(recordSize * (2 + 2*keepLatest + 2*limit)); before.Size() > want {
		t.Errorf("%d bytes, want at most %d", before.Size(), want)
	}
}

// A ledger that is long because it has much to remember is not written anew for every
// record.
func TestLedgerGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := openTestLedger(t, path, 1)
	l.mu.Lock()
	for boot := range uint64(6000) { // as many boot epochs, one interval each
		l.use(seriesKey{[8]byte{1}, boot}, 0, 0)
	}
	err := l.log.Compact()
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(4) {
		if err := l.add(record{kind: recTaken, id: id(n), series: [8]byte{2}, boot: 1, number: n}); err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || after.Size() != before.Size()+4*recordSize {
		t.Errorf("%d bytes after %d, the same file: %v; %v", after.Size(), before.Size(),
			os.SameFile(before, after), err)
	}
}

// A torn end is cut off; damage before it stops the start.
func TestLedgerDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := openTestLedger(t, path, 100)
	for n := range uint64(4) {
		if err := l.add(record{kind: recMade, id: id(n)}); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) != 4*recordSize {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for cut := range recordSize {
		for _, tail := range [][]byte{whole[:3*recordSize+cut],
			append(whole[:3*recordSize:3*recordSize], make([]byte, 2*recordSize+cut)...)} {
			if err := os.WriteFile(path, tail, 0o600); err != nil {
				t.Fatal(err)
			}
			l := openTestLedger(t, path, 100)
			if !l.hasMade(id(0)) || !l.hasMade(id(2)) || l.hasMade(id(3)) {
				t.Fatalf("cut at %d: not what was whole", cut)
			}
			if err := l.add(record{kind: recMade, id: id(9)}); err != nil {
				t.Fatal(err)
			}
			l.close()
			if l = openTestLedger(t, path, 100); !l.hasMade(id(9)) || !l.hasMade(id(2)) {
				t.Fatalf("cut at %d: what came after is lost", cut)
			}
			l.close()
		}
	}
	whole[recordSize+7] ^= 1
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLedger(path, 100); !errors.Is(err, ErrState) {
		t.Errorf("damage in the middle: %v", err)
	}
}

// On a disk that is full the ledger still opens, refuses what it cannot keep,
// and goes on when there is room. A real, small file system, filled.
func TestLedgerFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "64k")
	path := filepath.Join(dir, "ledger")
	l := openTestLedger(t, path, 1000)
	for n := range uint64(3) {
		if err := l.add(record{kind: recMade, id: id(n)}); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("torn")
	f.Close()
	ballast := filepath.Join(dir, "ballast")
	testenv.Fill(t, ballast)
	l = openTestLedger(t, path, 1000)
	if !l.hasMade(id(0)) || !l.hasMade(id(2)) {
		t.Error("what was there is forgotten")
	}
	refused := 0
	for n := uint64(3); n < 200; n++ {
		if err := l.add(record{kind: recMade, id: id(n)}); err == nil {
			continue
		} else if refused++; !errors.Is(err, ErrState) || !errors.Is(err, unix.ENOSPC) || l.hasMade(id(n)) {
			t.Fatalf("record %d: %v, counted %v", n, err, l.hasMade(id(n)))
		}
	}
	if refused == 0 {
		t.Fatal("nothing was refused")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := l.add(record{kind: recMade, id: id(500)}); err != nil {
		t.Fatal(err)
	}
	l.close()
	if l = openTestLedger(t, path, 1000); !l.hasMade(id(2)) || !l.hasMade(id(500)) {
		t.Error("not all is there afterwards")
	}
}

// A ledger that has become long while there is no room to write it anew goes on as it is.
func TestLedgerLongOnAFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "1m")
	path := filepath.Join(dir, "ledger")
	const limit = 1
	l := openTestLedger(t, path, limit)
	long := int64(recordSize * (8*limit + 4096))
	for n := uint64(0); l.log.Size() <= long-recordSize; n++ {
		if err := l.add(record{kind: recMade, id: id(n)}); err != nil {
			t.Fatal(err)
		}
	}
	l.mu.Lock()
	for boot := range uint64(6000) { // much to remember: more than the room that is left
		l.use(seriesKey{[8]byte{1}, boot}, 0, 0)
	}
	l.mu.Unlock()
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 600<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := uint64(1 << 32); n < 1<<32+100; n++ {
		if err := l.add(record{kind: recMade, id: id(n)}); err != nil {
			t.Fatalf("record %d: %v", n-1<<32, err)
		}
	}
	if l.log.Size() <= long {
		t.Fatal("it is not long")
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if err := l.add(record{kind: recMade, id: id(7)}); err != nil {
		t.Fatal(err)
	}
	if l.close(); !openTestLedger(t, path, limit).hasMade(id(7)) {
		t.Error("a record is lost")
	}
}

func FuzzRecord(f *testing.F) {
	r := record{kind: recTaken, id: id(1), series: [8]byte{2}, boot: 3, number: 4}
	f.Add(r.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, summed(b)} {
			if len(b) != recordSize {
				continue
			}
			r, ok := parseRecord(b[:recordSize-4])
			if !ok || string(durable.AppendSum(slices.Clone(b[:recordSize-4]), 0)) != string(b) {
				continue
			}
			if again := r.append(nil); string(again) != string(b) {
				t.Errorf("%x is also %x", b, again)
			}
		}
	})
}

// summed gives a record the checksum that it needs, so that the rest is reached.
func summed(b []byte) []byte {
	return durable.AppendSum(slices.Clone(b[:min(len(b), recordSize-4)]), 0)
}

// FuzzLedger: no file makes the ledger panic, and what one that opens holds is the same
// after it was written anew.
func FuzzLedger(f *testing.F) {
	whole := func(records ...record) (b []byte) {
		for i := range records {
			b = records[i].append(b)
		}
		return b
	}
	last := id(9)
	f.Add(whole(record{kind: recTaken, id: id(1), series: [8]byte{2}, boot: 3, number: 4},
		record{kind: recMade, id: id(5)}))
	f.Add(whole(record{kind: recInterval, id: last, series: [8]byte{2}, number: 1},
		record{kind: recLatest, id: id(7), series: [8]byte{2}, number: 1<<64 - 1}))
	f.Add(append(whole(record{kind: recTaken, id: id(1)}), "torn"...))
	f.Add(whole(record{kind: recFloor, series: [8]byte{2}, boot: 5},
		record{kind: recInterval, id: last, series: [8]byte{2}, boot: 4, number: 1}))
	path := filepath.Join(testenv.QuickDir(f), "ledger")
	f.Fuzz(func(t *testing.T, b []byte) {
		var file []byte
		var records []record
		for part := range slices.Chunk(b, recordSize) {
			if len(part) == recordSize {
				part[0], part[1], part[2], part[3] = part[0]%6, 0, 0, 0
				part = summed(part)
			}
			if len(part) == recordSize {
				if r, ok := parseRecord(part[:recordSize-4]); ok {
					records = append(records, r)
				}
			}
			file = append(file, part...)
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		open := func() (*ledger, error) { return openLedger(path, 4) }
		l, err := open()
		if err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatal(err)
			}
			return
		}
		defer l.close()
		again, err := open()
		if err != nil {
			t.Fatalf("written anew: %v", err)
		}
		defer again.close()
		for _, r := range records {
			k := seriesKey{r.series, r.boot}
			if l.hasTaken(r.id) != again.hasTaken(r.id) || l.hasMade(r.id) != again.hasMade(r.id) ||
				l.used(k, r.number) != again.used(k, r.number) {
				t.Fatalf("%+v: not the same when written anew", r)
			}
			if r.kind == recFloor {
				k.boot-- // closed are the boot epochs below
				if r.boot == 0 {
					continue
				}
			}
			if r.kind != recMade && r.series != noSeries && !l.used(k, r.number) {
				t.Fatalf("%+v: its number is free", r)
			}
		}
	})
}
