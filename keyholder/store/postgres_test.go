package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store/postgres"
)

// kept returns a history in a database of a server, of which edit changes the block.
func kept(t *testing.T, s *postgres.Server, database string, edit ...func(*config.Postgres)) config.History {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(postgres.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := config.KeyHolder{History: &config.History{Postgres: &config.Postgres{URL: s.URL(database),
		Password: config.Secret("file:" + file)}}}
	for _, f := range edit {
		f(k.History.Postgres)
	}
	return k.Kept()
}

// A PostgreSQL database does what a SQLite database does.
func TestPostgres(t *testing.T) {
	server := postgres.Start(t, "")
	for name, test := range map[string]func(*testing.T, config.History){
		"same again": testSameAgain, "identity": testIdentity, "query": testQuery, "by age": testKeepByAge,
		"points": testPoints, "tiers": testTiersOutliveResults, "pages": testPages, "by bytes": testBytes,
	} {
		t.Run(name, func(t *testing.T) { test(t, kept(t, server, server.Database(t))) })
	}
	t.Run("refused", func(t *testing.T) { testPostgresRefused(t, server) })
	t.Run("TLS", func(t *testing.T) { testPostgresTLS(t, server) })
	t.Run("lost session", func(t *testing.T) { testLostSession(t, server) })
	t.Run("cut commit", func(t *testing.T) { testCutCommit(t, server) })
	t.Run("full disk", func(t *testing.T) { testPostgresFull(t, server) })
	t.Run("away", func(t *testing.T) { testAway(t, server) })
}

// The oldest results make room.
func testBytes(t *testing.T, h config.History) {
	h.KeepBytes = config.MiB
	s := open(t, h, false)
	const count = 1500
	for n := range count {
		add(t, s, result("mean", n, func(r *keyholder.Result) {
			r.Values = make([]float64, 200)
			for i := range r.Values {
				r.Values[i] = rand.Float64()
			}
		}))
	}
	tidy(t, s)
	var rows, first int
	if err := s.db.QueryRow("SELECT count(*), min(sequence) FROM results").Scan(&rows, &first); err != nil {
		t.Fatal(err)
	}
	size := s.size.Load()
	if size > int64(config.MiB) || size < int64(config.MiB)/2 || rows < 100 || rows+first != count {
		t.Errorf("%d bytes, %d results are left, the first is %d", size, rows, first)
	}
}

func testPostgresRefused(t *testing.T, server *postgres.Server) {
	database := server.Database(t)
	refused := func(h config.History, readOnly bool, want string) {
		t.Helper()
		s, err := Open(testrig.Context(t), Options{History: h, ReadOnly: readOnly, Logger: testrig.Quiet()})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), postgres.Password) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	good := kept(t, server, database)
	wrong := func(f func(*config.Postgres)) config.History { return kept(t, server, database, f) }
	file := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(file, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(good, true, `"results serve" makes the tables`)
	refused(wrong(func(p *config.Postgres) { p.Password = config.Secret("file:" + file) }), false,
		"history.postgres.password")
	refused(wrong(func(p *config.Postgres) { p.Password = config.Secret("file:" + file + "2") }), false, file)
	refused(kept(t, server, "nothing"), false, "CREATE DATABASE")
	refused(kept(t, server, server.Database(t, "ENCODING 'SQL_ASCII' TEMPLATE template0")), false, "not UTF8")
	server.Exec(t, database, "CREATE SCHEMA other", "CREATE TABLE other.results (x int)",
		"CREATE ROLE small LOGIN PASSWORD '"+postgres.Password+"'")
	refused(wrong(func(p *config.Postgres) { p.Schema = "other" }), false, "something else")
	refused(wrong(func(p *config.Postgres) { p.URL = strings.Replace(p.URL, postgres.User+"@", "small@", 1) }), false,
		"CREATE SCHEMA")

	s := open(t, good, false)
	first := lockPatience
	lockPatience = 100 * time.Millisecond
	t.Cleanup(func() { lockPatience = first })
	refused(good, false, durable.ErrLocked.Error())
	open(t, wrong(func(p *config.Postgres) { p.Schema = "another" }), false) // has a lock of its own
	reader := open(t, good, true)
	if err := reader.Add(t.Context(), result("mean", 1)); err == nil {
		t.Error("a reader writes")
	}
	if _, err := s.exec(t.Context(), markSQL, versionMark, len(postgresMigrations)+1); err != nil {
		t.Fatal(err)
	}
	refused(good, true, ErrVersion.Error())
	s.Close()
	refused(good, false, ErrVersion.Error())

	server.Exec(t, database, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
	unsafe := kept(t, server, server.Database(t))
	testrig.Eventually(t, "a server that does not flush", func() bool {
		s, err := Open(t.Context(), Options{History: unsafe, Logger: testrig.Quiet()})
		if err == nil {
			s.Close()
		}
		return err != nil && strings.Contains(err.Error(), "fsync")
	})
	server.Exec(t, database, "ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
}

// Modes of TLS are what they say; a server that is not the right one is refused.
func testPostgresTLS(t *testing.T, server *postgres.Server) {
	database := server.Database(t)
	for _, c := range []struct {
		mode, ca string
		tls      bool
		want     string // in the error
	}{
		{"", "", true, ""}, {"disable", "", false, ""}, {"require", "", true, ""},
		{"verify-full", server.CA, true, ""}, {"verify-ca", server.CA, true, ""},
		{"verify-full", "", false, "history.postgres.ca"},
	} {
		h := kept(t, server, database, func(p *config.Postgres) {
			if p.CA = c.ca; c.mode != "" {
				p.URL += "?sslmode=" + c.mode
			}
		})
		s, err := Open(testrig.Context(t), Options{History: h, Logger: testrig.Quiet()})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var used bool
		if err := s.db.QueryRow("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&used); err != nil ||
			used != c.tls {
			t.Errorf("%+v: TLS %v, %v", c, used, err)
		}
		s.Close()
	}
	elsewhere := newPostgresOf("postgres://u@db.example.org/d")
	if u, err := url.Parse(elsewhere.address()); err != nil || u.Query().Get("sslmode") != "verify-full" {
		t.Error(u, err)
	}
}

func newPostgresOf(address string) *postgresBase {
	return newPostgres(&config.Postgres{URL: address}, time.Hour, false)
}

// A session that the server has not noticed to be lost does not hold its successor up.
func testLostSession(t *testing.T, server *postgres.Server) {
	s := open(t, kept(t, server, server.Database(t)), false)
	s.db.SetMaxOpenConns(2)
	lost, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, result("mean", 1))
	if err := lost.PingContext(t.Context()); err == nil {
		t.Error("the earlier session goes on")
	}
	_ = lost.Close()
}

// A connection that is lost before or after a commit neither loses nor doubles a result.
func testCutCommit(t *testing.T, server *postgres.Server) {
	var mode atomic.Int32 // of the next commit: 1: it does not arrive, 2: its answer does not
	var cuts atomic.Int32
	watch := func(client io.Writer) (func(io.Writer, io.Reader), io.Writer) {
		down := &muted{to: client}
		return func(to io.Writer, from io.Reader) {
			buf := make([]byte, 1<<16)
			for {
				n, err := from.Read(buf)
				if err != nil {
					return
				}
				if bytes.Contains(buf[:n], []byte("commit")) {
					switch mode.Swap(0) {
					case 1:
						cuts.Add(1)
						return
					case 2:
						cuts.Add(1)
						down.muted.Store(true)
						_, _ = to.Write(buf[:n])
						for down.seen.Load() == 0 { // until the server has answered
							time.Sleep(time.Millisecond)
						}
						return
					}
				}
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}, down
	}
	proxy := testrig.NewProxy(t, server.Address, watch)
	h := kept(t, server, server.Database(t), func(p *config.Postgres) {
		p.URL = strings.Replace(p.URL, server.Address, proxy.Addr(), 1) + "?sslmode=disable"
	})
	s := open(t, h, false)
	const count = 30
	for n := range count {
		mode.Store(int32(n % 3))
		if err := s.Keep(testrig.Context(t), result("mean", n)); err != nil {
			t.Fatal(err)
		}
	}
	got := found(t, s, Query{})
	if len(got) != count || cuts.Load() != count*2/3 || len(s.Health()) > 0 {
		t.Errorf("%d results after %d cuts: %v", len(got), cuts.Load(), s.Health())
	}
	if n := s.stored.Load(); n > count || n < count/3 {
		t.Errorf("%d results were new", n)
	}
}

// muted is a way to a client on which nothing comes through any more.
type muted struct {
	to    io.Writer
	muted atomic.Bool
	seen  atomic.Int64
}

func (m *muted) Write(b []byte) (int, error) {
	if m.muted.Load() {
		m.seen.Add(1)
		return len(b), nil
	}
	return m.to.Write(b)
}

// While the disk of the database is full, results wait.
func testPostgresFull(t *testing.T, server *postgres.Server) {
	disk := testenv.Disk(t, "4m")
	server.Give(t, disk)
	for dir := filepath.Dir(disk); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the server's user has to come through
			t.Fatal(err)
		}
	}
	server.Exec(t, "postgres", fmt.Sprintf("CREATE TABLESPACE small LOCATION '%s'", disk))
	database := server.Database(t)
	server.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %s SET default_tablespace = small", database))
	defer server.Exec(t, "postgres", "DROP DATABASE "+database+" (FORCE)", "DROP TABLESPACE small")
	s := open(t, kept(t, server, database), false)
	ballast := filepath.Join(disk, "ballast")
	testenv.Fill(t, ballast)
	ended := make(chan error, 1)
	const count = 100
	go func() {
		for n := range count {
			if err := s.Keep(t.Context(), result("mean", n, func(r *keyholder.Result) {
				r.Inputs = [][32]byte{{byte(n)}, [32]byte(testrig.Pattern(32))}
				r.Values = make([]float64, 100)
				for i := range r.Values {
					r.Values[i] = float64(n) / float64(i+1)
				}
			})); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	testrig.Eventually(t, "results that wait", func() bool { return len(s.Health()) > 0 })
	if why := s.Health()[0]; !strings.Contains(why, "53100") {
		t.Error(why)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := testrig.Receive(t, "room", ended); err != nil {
		t.Fatal(err)
	}
	if got := found(t, s, Query{}); len(got) != count || len(s.Health()) > 0 {
		t.Errorf("%d results, %v", len(got), s.Health())
	}
	s.Close()
}

// A server that is away at the start, or goes later, is waited for.
func testAway(t *testing.T, server *postgres.Server) {
	h := kept(t, server, server.Database(t))
	server.Kill()
	if _, err := Open(testrig.Context(t), Options{History: h, ReadOnly: true, Logger: testrig.Quiet()}); err == nil {
		t.Error("a reader does without the server")
	}
	s := open(t, h, false)
	for n := range 3 {
		ended := make(chan error, 1)
		go func() { ended <- s.Keep(t.Context(), result("mean", n)) }()
		testrig.Eventually(t, "a result that waits", func() bool { return len(s.Health()) > 0 })
		if err := s.Tidy(t.Context()); err == nil {
			t.Error("a server that is away is tidied")
		}
		server.Start(t)
		if err := testrig.Receive(t, "the server", ended); err != nil {
			t.Fatal(err)
		}
		server.Kill()
	}
	server.Start(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Keep(stopped, result("mean", 9)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	tidy(t, s)
	if got := found(t, s, Query{}); len(got) != 3 {
		t.Error(got)
	}
}

// A key holder that is killed at any moment neither loses nor doubles a result, and neither
// does one whose server is killed, with it or alone.
func TestKillPostgres(t *testing.T) {
	server := postgres.Start(t, "")
	dir := testenv.QuickDir(t)
	c := newChain(t, dir, filepath.Join(dir, "state"), kept(t, server, server.Database(t)))
	killed := 0
	kills(t, c, rounds(t, 16), func(goesOn bool) bool {
		if rand.N(3) == 0 {
			return true
		}
		killed++
		server.Kill()
		server.Start(t)
		return !goesOn || rand.N(2) == 0
	})
	t.Logf("the server was killed %d times", killed)
	if killed == 0 {
		t.Error("the server was never killed")
	}
}
