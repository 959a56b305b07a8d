package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store/postgres"
)

// timescale makes an empty database that has the extension in its schema public.
func timescale(t *testing.T, s *postgres.Server) string {
	t.Helper()
	database := s.Database(t)
	s.Exec(t, database, "CREATE EXTENSION timescaledb")
	return database
}

// A database with TimescaleDB does what a PostgreSQL database does.
func TestTimescale(t *testing.T) {
	server := postgres.StartTimescale(t, "")
	for name, test := range map[string]func(*testing.T, config.History){
		"same again": testSameAgain, "identity": testIdentity, "query": testQuery, "by age": testKeepByAge,
		"points": testPoints, "tiers": testTiersOutliveResults, "pages": testPages, "by bytes": testBytes,
		"chunks by age": testChunksByAge, "chunks by bytes": testChunksByBytes,
	} {
		t.Run(name, func(t *testing.T) {
			h := kept(t, server, timescale(t, server))
			t.Run("as without", func(t *testing.T) { test(t, h) }) // which closes its stores
			s := open(t, h, false)
			if s.base.(*postgresBase).functions == "" {
				t.Error("the results are no hypertable")
			}
			testLedger(t, s)
		})
	}
	t.Run("without the extension", func(t *testing.T) {
		s := open(t, kept(t, server, server.Database(t)), false)
		if p := s.base.(*postgresBase); p.ledger || p.functions != "" {
			t.Errorf("ledger %v, functions %q", p.ledger, p.functions)
		}
	})
	t.Run("later", func(t *testing.T) { testTimescaleLater(t, server) })
}

// testLedger checks that the ledger has the identities of the results that there are, and no others.
func testLedger(t *testing.T, s *Store) {
	t.Helper()
	tidy(t, s)
	var results, both, ledger int
	if err := s.db.QueryRow(`SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM results
		JOIN ledger USING (id, identity, start_ns)), (SELECT count(*) FROM ledger)`).Scan(&results, &both,
		&ledger); err != nil {
		t.Fatal(err)
	}
	if results != both || results != ledger {
		t.Errorf("%d results, of which the ledger has %d; it has %d", results, both, ledger)
	}
}

// spread stores n results of windows that begin every time, the last of them so long ago.
func spread(t *testing.T, s *Store, n int, every, ago time.Duration) {
	t.Helper()
	last := time.Now().Add(-ago)
	for i := range n {
		add(t, s, result("mean", i, func(r *keyholder.Result) {
			r.Start = last.Add(-time.Duration(n-1-i) * every)
			r.End = r.Start.Add(time.Minute)
		}))
	}
}

func chunks(t *testing.T, s *Store) []span {
	t.Helper()
	out, err := s.base.spans(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Chunks go when all of their results are old, told, and in the summaries; a result that comes late
// for a chunk that has gone is stored, and goes with its own.
func testChunksByAge(t *testing.T, h config.History) {
	h.Keep = 24 * time.Hour // chunks of an hour
	h.Sinks = []config.Sink{{Name: "away"}}
	s := open(t, h, false)
	spread(t, s, 60, time.Hour, 0)
	before := len(chunks(t, s))
	tidy(t, s)
	if n := len(chunks(t, s)); n != before || n < 60 {
		t.Errorf("%d chunks of %d are left while a sink waits", n, before)
	}
	if err := s.SetSent(t.Context(), "away", 60); err != nil {
		t.Fatal(err)
	}
	tidy(t, s)
	left := chunks(t, s)
	end := time.Now().Add(-h.Keep).UnixNano()
	if len(left) < 24 || len(left) > 27 || left[0].to < end-int64(2*time.Minute) {
		t.Errorf("%d chunks are left, the first to %v", len(left), time.Unix(0, left[0].to))
	}
	rows := found(t, s, Query{})
	if len(rows) != len(left) {
		t.Errorf("%d results in %d chunks", len(rows), len(left))
	}
	if points, err := s.Points(t.Context(), Span{Program: "mean", From: time.Now().Add(-70 * time.Hour), To: time.Now(),
		Most: 1000}); err != nil || len(points) < 60 {
		t.Errorf("%d points, %v", len(points), err)
	}
	testLedger(t, s)

	late := result("mean", 1000, func(r *keyholder.Result) {
		r.Start = time.Now().Add(-50 * time.Hour)
		r.End = r.Start.Add(time.Minute)
	})
	add(t, s, late, late)
	tidy(t, s)
	add(t, s, late) // it is of the newest object, and still there
	if got := found(t, s, Query{}); len(got) != len(rows)+1 {
		t.Errorf("%d results with the late one, want %d", len(got), len(rows)+1)
	}
	add(t, s, result("mean", 1001, func(r *keyholder.Result) { r.Start, r.End = time.Now(), time.Now() }))
	if err := s.SetSent(t.Context(), "away", 1<<40); err != nil {
		t.Fatal(err)
	}
	tidy(t, s)
	if got := found(t, s, Query{}); len(got) != len(rows)+1 || slices.Contains(got, line(t, late)) {
		t.Errorf("%d results after the late one, want %d", len(got), len(rows)+1)
	}
}

// Where bytes are short, whole chunks go before rows do.
func testChunksByBytes(t *testing.T, h config.History) {
	h.Keep, h.KeepBytes = 24*time.Hour, config.MiB
	h.Tiers = nil
	s := open(t, h, false)
	spread(t, s, 3000, 30*time.Second, 0) // 25 hours, so that one chunk is too old
	first := chunks(t, s)
	tidy(t, s)
	left := chunks(t, s)
	var rows, least, most int
	if err := s.db.QueryRow("SELECT count(*), min(sequence), max(sequence) FROM results").Scan(&rows, &least,
		&most); err != nil {
		t.Fatal(err)
	}
	if size := s.size.Load(); size > int64(config.MiB) || len(left) > len(first)-3 || rows != most-least+1 ||
		most != 2999 || rows < 1500 {
		t.Errorf("%d bytes in %d chunks of %d; %d results, from %d to %d", size, len(left), len(first), rows, least,
			most)
	}
}

// The statements of docs/results.md make a hypertable of a database that has results already.
func testTimescaleLater(t *testing.T, server *postgres.Server) {
	database := server.Database(t)
	h := kept(t, server, database)
	s := open(t, h, false)
	for n := range 50 {
		add(t, s, result("mean", n))
	}
	if _, err := s.db.Exec("DELETE FROM results WHERE id > 40"); err != nil { // their numbers must not come again
		t.Fatal(err)
	}
	if err := s.SetSent(t.Context(), "x", 50); err != nil {
		t.Fatal(err)
	}
	want := found(t, s, Query{})
	s.Close()
	server.Exec(t, database, "CREATE EXTENSION timescaledb")
	s = open(t, h, false)
	if p := s.base.(*postgresBase); p.ledger || p.functions != "" {
		t.Error("a database with results was changed")
	}
	add(t, s, result("mean", 0)) // which is there
	s.Close()

	text, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "SET search_path TO hencedge;\n")
	block, _, end := strings.Cut(block, "```")
	steps := fmt.Sprintf(timescaleSQL, int64(30*day), "public")
	if !ok || !end || strings.TrimSpace(block) != "BEGIN;\n"+steps+"COMMIT;" {
		t.Fatalf("docs/results.md has\n%s\nwant\n%s", block, steps)
	}
	server.Exec(t, database, "SET search_path TO hencedge;\n"+block)
	s = open(t, h, false)
	if s.base.(*postgresBase).functions == "" || len(chunks(t, s)) != 1 {
		t.Errorf("the results have chunks %v", chunks(t, s))
	}
	if got := found(t, s, Query{}); !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	for n := range 51 {
		add(t, s, result("mean", n))
	}
	var rows, newest int
	if err := s.db.QueryRow("SELECT count(*), max(id) FROM results").Scan(&rows, &newest); err != nil || rows != 51 ||
		newest <= 50 {
		t.Errorf("%d results, the newest %d, %v", rows, newest, err)
	}
	testLedger(t, s)
}

// A key holder that is killed at any moment, with TimescaleDB or alone, neither loses nor doubles a
// result.
func TestKillTimescale(t *testing.T) {
	server := postgres.StartTimescale(t, "")
	dir := testenv.QuickDir(t)
	h := kept(t, server, timescale(t, server))
	c := newChain(t, dir, filepath.Join(dir, "state"), h)
	kills(t, c, rounds(t, 16), func(goesOn bool) bool {
		if rand.N(3) == 0 {
			return true
		}
		server.Kill()
		server.Start(t)
		return !goesOn || rand.N(2) == 0
	})
	testLedger(t, open(t, h, false))
}

// A reader that holds a chunk does not hold results up: the chunk goes later.
func TestTimescaleReader(t *testing.T) {
	server := postgres.StartTimescale(t, "")
	database := timescale(t, server)
	h := kept(t, server, database)
	h.Keep = time.Hour
	s := open(t, h, false)
	spread(t, s, 3, 2*time.Hour, 0)
	db := server.DB(t, database)
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT count(*) FROM hencedge.results"); err != nil {
		t.Fatal(err)
	}
	if err := s.Tidy(testrig.Context(t)); err == nil || !strings.Contains(err.Error(), "55P03") {
		t.Errorf("a chunk that is read goes: %v", err)
	}
	add(t, s, result("mean", 10, func(r *keyholder.Result) { r.Start, r.End = time.Now(), time.Now() }))
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	tidy(t, s)
	if got := found(t, s, Query{}); len(got) != 2 {
		t.Errorf("%d results are left", len(got))
	}
	testLedger(t, s)
}
