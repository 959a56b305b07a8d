package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// result is the n-th result of a program: one a minute.
func result(program string, n int, edit ...func(*keyholder.Result)) *keyholder.Result {
	start := noon.Add(time.Duration(n) * time.Minute)
	r := &keyholder.Result{Program: program, Evaluator: "cloud", Unit: "K", KeyID: [16]byte{7}, Epoch: 2, BootEpoch: 3,
		Sequence: uint64(n), Start: start, End: start.Add(time.Minute), Samples: 60, Values: []float64{float64(n)},
		Bound: 1e-3, ID: [32]byte{1, byte(n), byte(n >> 8)}, Bytes: 1234,
		Inputs: [][32]byte{{9, byte(n), byte(n >> 8)}}}
	for _, f := range edit {
		f(r)
	}
	return r
}

// open opens a store that ends with the test.
func open(t *testing.T, h config.History, readOnly bool) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{History: h, ReadOnly: readOnly, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func history(dir string) config.History {
	k := config.KeyHolder{History: &config.History{File: filepath.Join(dir, "a #?% b.db")}}
	return k.Kept()
}

func add(t *testing.T, s *Store, results ...*keyholder.Result) {
	t.Helper()
	for _, r := range results {
		if err := s.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// found returns what a query finds, as NDJSON lines.
func found(t *testing.T, s *Store, q Query) (out []string) {
	t.Helper()
	if err := s.Each(t.Context(), q, func(r *keyholder.Result) error {
		out = append(out, line(t, r))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func line(t *testing.T, r *keyholder.Result) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What comes out is what went in, to the last bit, while another process writes and after a
// restart.
func TestSameAgain(t *testing.T) {
	h := history(t.TempDir())
	testSameAgain(t, h)
	open(t, h, false)
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(h.File + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", suffix, info, err)
		}
	}
}

func testSameAgain(t *testing.T, h config.History) {
	s := open(t, h, false)
	all := []*keyholder.Result{
		result("mean", 1),
		result("mean", 2, func(r *keyholder.Result) {
			r.Values, r.Start = []float64{1. / 3, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0}, r.Start.Add(1)
			r.BootEpoch, r.Sequence, r.Packed, r.Device = math.MaxUint64, 1<<63, 256, "board'; DROP TABLE results"
		}),
		result("fleet", 3, func(r *keyholder.Result) {
			r.Inputs, r.Samples = nil, 0
			r.Fleet = &transport.Fleet{Devices: 5, Windows: 7, Samples: 1 << 40, Digest: [32]byte{4}}
		}),
		result("none", 4, func(r *keyholder.Result) { r.Inputs, r.Unit = nil, "" }),
	}
	var want []string
	for _, r := range all {
		add(t, s, r)
		want = append(want, line(t, r))
	}
	reader := open(t, h, true)
	for range 2 {
		if got := found(t, reader, Query{}); !slices.Equal(got, want) {
			t.Errorf("got\n%q\nwant\n%q", got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, h, false)
		add(t, s, all...) // changes nothing
	}
	if n := s.stored.Load(); n != 0 {
		t.Errorf("%d results were new", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Results are one if they were computed from the same windows, or have the same number where
// windows are not named.
func TestIdentity(t *testing.T) { testIdentity(t, history(t.TempDir())) }

func testIdentity(t *testing.T, h config.History) {
	s := open(t, h, false)
	unnamed := func(r *keyholder.Result) { r.Inputs = nil }
	again := func(r *keyholder.Result) { r.Sequence, r.ID = r.Sequence+100, [32]byte{8} }
	add(t, s, result("mean", 1), result("mean", 1, again), result("var", 1), result("mean", 2),
		result("long", 1, unnamed), result("long", 1, unnamed), result("long", 1, unnamed, again))
	if got := found(t, s, Query{}); len(got) != 5 {
		t.Errorf("%d results: %q", len(got), got)
	}
}

func TestQuery(t *testing.T) { testQuery(t, history(t.TempDir())) }

func testQuery(t *testing.T, h config.History) {
	s := open(t, h, false)
	for n := range 10 {
		for _, device := range []string{"", "a", "b"} {
			add(t, s, result("p"+device, 9-n, func(r *keyholder.Result) { r.Device = device }))
		}
	}
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for name, c := range map[string]struct {
		q    Query
		want []int // values
	}{
		"program":  {Query{Programs: []string{"pa", "none"}}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"devices":  {Query{Devices: []string{"a", "b"}, From: at(8)}, []int{8, 8, 9, 9}},
		"no class": {Query{Devices: []string{""}, From: at(8)}, []int{8, 9}},
		"from, to": {Query{Programs: []string{"p"}, From: at(3), To: at(5)}, []int{3, 4}},
		"newest":   {Query{Programs: []string{"p"}, To: at(7), Limit: 3}, []int{4, 5, 6}},
		"nothing":  {Query{Programs: []string{"none"}}, nil},
	} {
		var got []int
		if err := s.Each(t.Context(), c.q, func(r *keyholder.Result) error {
			got = append(got, int(r.Values[0]))
			return nil
		}); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	stop := errors.New("stop")
	if err := s.Each(t.Context(), Query{}, func(*keyholder.Result) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// Results that are too old go, but none of the newest object.
func TestKeepByAge(t *testing.T) { testKeepByAge(t, history(t.TempDir())) }

func testKeepByAge(t *testing.T, h config.History) {
	h.Keep = time.Hour
	s := open(t, h, false)
	old := func(d time.Duration) func(*keyholder.Result) {
		return func(r *keyholder.Result) { r.Start, r.End = time.Now().Add(-d-time.Minute), time.Now().Add(-d) }
	}
	pack := func(r *keyholder.Result) { r.ID = [32]byte{0xaa} }
	add(t, s, result("a", 1, old(2*time.Hour)), result("b", 2, old(59*time.Minute)),
		result("c", 3, pack, old(3*time.Hour)), result("d", 4, pack, old(4*time.Hour)))
	for range 2 {
		if err := s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := programs(t, s); !slices.Equal(got, []string{"d", "c", "b"}) {
			t.Errorf("left: %v", got)
		}
	}
	add(t, s, result("e", 5, old(0)))
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := programs(t, s); !slices.Equal(got, []string{"b", "e"}) {
		t.Errorf("left: %v", got)
	}
}

func programs(t *testing.T, s *Store) (out []string) {
	t.Helper()
	if err := s.Each(t.Context(), Query{}, func(r *keyholder.Result) error {
		out = append(out, r.Program)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// A database that is too large loses its oldest results, and the file shrinks.
func TestKeepByBytes(t *testing.T) {
	h := history(testenv.QuickDir(t))
	s := open(t, h, false)
	const count, values = 300, 1000
	for n := range count {
		add(t, s, result("mean", n, func(r *keyholder.Result) {
			r.Values = make([]float64, values)
			for i := range r.Values {
				r.Values[i] = 1 / float64(n*values+i+1)
			}
		}))
	}
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := s.size.Load()
	if got := len(programs(t, s)); got != count || before < 4<<20 {
		t.Fatalf("%d results, %d bytes", got, before)
	}
	s.o.History.KeepBytes = config.MiB
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	size, err := s.base.size(t.Context(), s.db)
	if err != nil || size > int64(config.MiB) {
		t.Errorf("%d bytes, %v", size, err)
	}
	if _, err := s.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(h.File); err != nil || info.Size() > before/2 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	var first, left int
	if err := s.Each(t.Context(), Query{}, func(r *keyholder.Result) error {
		if left == 0 {
			first = int(r.Sequence)
		}
		left++
		return nil
	}); err != nil || first+left != count || left < 20 {
		t.Errorf("%d results are left, the first is %d: %v", left, first, err)
	}
}

// Two processes do not write; files of others, of later versions, open to others or damaged
// are refused.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	refused := func(name string, h config.History, readOnly bool, want error) {
		t.Helper()
		s, err := Open(t.Context(), Options{History: h, ReadOnly: readOnly, Logger: testrig.Quiet()})
		if err == nil {
			s.Close()
		}
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	h := history(dir)
	refused("no state", config.History{}, false, nil)
	refused("does not exist", h, true, nil)
	s := open(t, h, false)
	refused("two writers", h, false, durable.ErrLocked)
	if _, err := s.db.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(migrations)+1)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	refused("later", h, false, ErrVersion)
	refused("later, for reading", h, true, ErrVersion)
	if err := os.Chmod(h.File, 0o644); err != nil {
		t.Fatal(err)
	}
	refused("open to others", h, false, keyholder.ErrPermissions)

	h.File = filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", h.File)
	if err == nil {
		_, err = db.Exec("CREATE TABLE x (y)")
	}
	if err = errors.Join(err, db.Close(), os.Chmod(h.File, 0o600)); err != nil {
		t.Fatal(err)
	}
	refused("something else", h, false, nil)
	if err := os.WriteFile(h.File, testrig.Pattern(1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("no database", h, false, nil)
}

// A database whose file is gone or damaged takes nothing, and that is told rather than waited
// for.
func TestMovedAndDamaged(t *testing.T) {
	h := history(t.TempDir())
	s := open(t, h, false)
	add(t, s, result("mean", 1))
	if err := os.Rename(h.File, h.File+".old"); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(t.Context(), result("mean", 2)); !errors.Is(err, ErrMoved) {
		t.Error(err)
	}
	if err := os.WriteFile(h.File, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(t.Context(), result("mean", 2)); !errors.Is(err, ErrMoved) {
		t.Error(err)
	}
	s.Close()

	h.File += ".2"
	s = open(t, h, false)
	for n := range 100 {
		add(t, s, result("mean", n))
	}
	s.Close()
	info, err := os.Stat(h.File)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(h.File, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(testrig.Pattern(int(info.Size())-4096), 4096)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), Options{History: h, Logger: testrig.Quiet()})
	if err == nil {
		defer s.Close()
		ctx, stop := context.WithTimeout(t.Context(), testrig.Patience)
		defer stop()
		err = s.Keep(ctx, result("mean", 1000))
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a damaged database: %v", err)
	}
}
