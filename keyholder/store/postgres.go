package store

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/role"
)

// postgresBase is a database of a PostgreSQL server. The one connection that writes holds an
// advisory lock, so that there is one writer, whose rows are committed in the order of their
// numbers.
type postgresBase struct {
	cfg      *config.Postgres
	readOnly bool
	keep     time.Duration // results
	name     string        // of this process among the sessions of the server

	mu        sync.Mutex
	prepared  bool   // the tables are there, in the newest version
	ledger    bool   // identities have a table of their own
	functions string // schema of TimescaleDB's functions, if it keeps the results; else ""
}

var _ base = (*postgresBase)(nil)

// errServer: the server is one that results must not be kept on.
var errServer = errors.New("not a usable server")

// lockPatience bounds the wait for the lock of a process that has just ended.
var lockPatience = 10 * time.Second

func newPostgres(cfg *config.Postgres, keep time.Duration, readOnly bool) *postgresBase {
	token := make([]byte, 8)
	_, _ = rand.Read(token)
	return &postgresBase{cfg: cfg, keep: keep, readOnly: readOnly, name: "hencedge " + hex.EncodeToString(token)}
}

func (p *postgresBase) open(ctx context.Context) (*sql.DB, error) {
	c, err := pgx.ParseConfig(p.address())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errServer, err)
	}
	c.ConnectTimeout = connectTimeout
	c.RuntimeParams["application_name"] = p.name
	c.RuntimeParams["search_path"] = p.cfg.Schema
	c.RuntimeParams["client_encoding"] = "UTF8"
	o := []stdlib.OptionOpenDB{stdlib.OptionBeforeConnect(p.credentials)}
	if p.readOnly {
		c.RuntimeParams["default_transaction_read_only"] = "on"
	} else {
		c.RuntimeParams["synchronous_commit"] = "on"
		// A server that has lost this process gives its lock free within a minute.
		c.RuntimeParams["tcp_keepalives_idle"] = "30"
		c.RuntimeParams["tcp_keepalives_interval"] = "10"
		c.RuntimeParams["tcp_keepalives_count"] = "3"
		o = append(o, stdlib.OptionAfterConnect(p.lock))
	}
	db := stdlib.OpenDB(*c, o...)
	db.SetMaxOpenConns(readers)
	if !p.readOnly {
		db.SetMaxOpenConns(1)
	}
	err = p.sound(ctx, db)
	if err != nil && (p.readOnly || p.final(err)) {
		return nil, errors.Join(explain(err), db.Close())
	}
	return db, nil // a server that is away may come
}

const (
	connectTimeout = 10 * time.Second
	readers        = 4 // connections of a process that only reads
)

// address returns the URL with all that TLS needs.
func (p *postgresBase) address() string {
	u, err := url.Parse(p.cfg.URL)
	if err != nil {
		return p.cfg.URL // its parser says what is wrong
	}
	q := u.Query()
	if !q.Has("sslmode") {
		q.Set("sslmode", "verify-full")
		if p.cfg.Local() {
			q.Set("sslmode", "prefer")
		}
	}
	for key, file := range map[string]string{"sslrootcert": p.cfg.CA, "sslcert": p.cfg.Cert, "sslkey": p.cfg.Key} {
		if file != "" {
			q.Set(key, file)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// credentials reads the password again for each connection.
func (p *postgresBase) credentials(_ context.Context, c *pgx.ConnConfig) error {
	password, err := p.cfg.Password.Resolve()
	if password != nil {
		c.Password = string(password)
		clear(password)
	}
	return err
}

// lockClass is the first half of the key of the lock; the second comes from the schema.
const lockClass = 0x68656e63

// lock takes the lock for a new connection. An earlier connection of this process that the
// server still has is ended.
func (p *postgresBase) lock(ctx context.Context, c *pgx.Conn) error {
	for end := time.Now().Add(lockPatience); ; {
		var got bool
		if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, hashtext($2))", int32(lockClass), p.cfg.Schema).
			Scan(&got); got || err != nil {
			return err
		}
		var pid int32
		var name, from string
		err := c.QueryRow(ctx, `SELECT pid, coalesce(application_name, ''), coalesce(host(client_addr), 'its socket')
			FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted
			AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND classid = $1::bigint::oid AND objid = (hashtext($2)::bigint & 4294967295)::oid`,
			int64(lockClass), p.cfg.Schema).Scan(&pid, &name, &from)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			// It has just been given back.
		case err != nil:
			return err
		case name == p.name:
			if _, err := c.Exec(ctx, "SELECT pg_terminate_backend($1)", pid); err != nil {
				return err
			}
		case time.Now().After(end):
			return fmt.Errorf("%w: schema %s, by server process %d for a client at %s", durable.ErrLocked, p.cfg.Schema,
				pid, from)
		}
		if err := role.Sleep(ctx, lockRetry); err != nil {
			return err
		}
	}
}

const lockRetry = 50 * time.Millisecond

// sound makes sure, once, that the tables are there.
func (p *postgresBase) sound(ctx context.Context, db *sql.DB) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prepared {
		return nil
	}
	err := p.prepare(ctx, db)
	p.prepared = err == nil
	return err
}

// prepare checks the server, and brings the tables to the newest version.
func (p *postgresBase) prepare(ctx context.Context, db *sql.DB) error {
	var encoding, flushed string
	var standby, schema, marks, results bool
	err := db.QueryRowContext(ctx, `SELECT current_setting('server_encoding'), current_setting('fsync'),
		pg_is_in_recovery(), to_regnamespace($1) IS NOT NULL, to_regclass($1 || '.marks') IS NOT NULL,
		to_regclass($1 || '.results') IS NOT NULL`, p.cfg.Schema).Scan(&encoding, &flushed, &standby, &schema, &marks,
		&results)
	switch {
	case err != nil:
		return err
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database has the encoding %s, not UTF8", errServer, encoding)
	case !p.readOnly && flushed != "on":
		return fmt.Errorf("%w: with fsync = %s it would lose results in a crash", errServer, flushed)
	case !p.readOnly && standby:
		return errors.New("the server is a standby, which takes nothing")
	case results && !marks:
		return fmt.Errorf("%w: schema %s has tables of something else; name another in history.postgres.schema",
			errServer, p.cfg.Schema)
	case p.readOnly && !marks:
		return fmt.Errorf("%w: there are no results in schema %s yet: \"results serve\" makes the tables", errServer,
			p.cfg.Schema)
	}
	version := 0
	if marks {
		if err := db.QueryRowContext(ctx, "SELECT position FROM marks WHERE name = $1", versionMark).
			Scan(&version); err != nil {
			return err
		}
	}
	if err := checkVersion(version, len(postgresMigrations), p.readOnly); err != nil {
		return err
	}
	if !schema {
		if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+p.cfg.Schema); err != nil {
			return err
		}
	}
	if err := migrate(ctx, db, version, postgresMigrations, func(v int) string {
		return fmt.Sprintf(`INSERT INTO marks (name, position) VALUES ('%s', %d)
			ON CONFLICT (name) DO UPDATE SET position = excluded.position`, versionMark, v)
	}); err != nil {
		return err
	}
	return p.extend(ctx, db)
}

const versionMark = "version"

// postgresMigrations are the steps from each version of a PostgreSQL database to the next, as
// migrations are for SQLite.
var postgresMigrations = [][]string{
	{`CREATE TABLE results (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order of arrival
		identity bytea NOT NULL UNIQUE,
		program text NOT NULL, device text NOT NULL, evaluator text NOT NULL, unit text NOT NULL,
		key_id bytea NOT NULL, epoch bigint NOT NULL, boot_epoch bigint NOT NULL, sequence bigint NOT NULL,
		start_ns bigint NOT NULL, end_ns bigint NOT NULL, samples bigint NOT NULL,
		value double precision, more text, bound double precision,
		object bytea NOT NULL, inputs bytea NOT NULL, bytes bigint NOT NULL, packed bigint NOT NULL,
		fleet_devices bigint, fleet_windows bigint, fleet_samples bigint, fleet_digest bytea
	)`,
		`CREATE INDEX results_time ON results (start_ns)`,
		`CREATE INDEX results_series ON results (program, device, start_ns)`,
		`CREATE TABLE series ( -- the newest window of each program and device
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		program text NOT NULL, device text NOT NULL, evaluator text NOT NULL, unit text NOT NULL,
		start_ns bigint NOT NULL, end_ns bigint NOT NULL, samples bigint NOT NULL,
		value double precision, bound double precision, result bigint NOT NULL,
		UNIQUE (program, device)
	)`,
		`CREATE TABLE summaries ( -- of the results that begin in an interval
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		every_ns bigint NOT NULL, series bigint NOT NULL, start_ns bigint NOT NULL,
		count bigint NOT NULL, mean double precision NOT NULL, low double precision NOT NULL,
		high double precision NOT NULL, bound double precision,
		UNIQUE (every_ns, series, start_ns)
	)`,
		`CREATE INDEX summaries_time ON summaries (every_ns, start_ns)`,
		`CREATE TABLE marks ( -- how far something has come
		name text PRIMARY KEY, position bigint NOT NULL
	)`},
}

// resultBytes is what a result takes in a table and its indexes besides its texts, and ledgerBytes
// what it takes more with a ledger.
const (
	resultBytes = 400
	ledgerBytes = 100
)

// size estimates the bytes of the rows that there are: the server keeps the room of others
// for new ones.
func (p *postgresBase) size(ctx context.Context, db *sql.DB) (bytes int64, err error) {
	each := resultBytes
	if p.ledger {
		each += ledgerBytes
	}
	err = db.QueryRowContext(ctx, `SELECT CAST((SELECT coalesce(max(id) - min(id) + 1, 0) FROM results) *
		(SELECT coalesce(avg($1 + coalesce(pg_column_size(more), 0) + pg_column_size(inputs)), 0)
			FROM (SELECT more, inputs FROM results ORDER BY id DESC LIMIT 200) AS newest) +
		(SELECT coalesce(max(id) - min(id) + 1, 0) FROM summaries) * $2 AS bigint)`, each, summaryBytes).
		Scan(&bytes)
	return bytes, err
}

func (p *postgresBase) patience() time.Duration { return 30 * time.Second }

func (p *postgresBase) snapshot() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

func (p *postgresBase) bind(text string) string {
	parts := strings.Split(text, "?")
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

// close says nothing of a connection that was lost: what was committed is on the server.
func (p *postgresBase) close(db *sql.DB) error {
	_ = db.Close()
	return nil
}

// lasting reports whether an error stays. One of the way to the server, of a server that
// starts, stops or is full, or of another writer does not.
func (p *postgresBase) lasting(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch e.Code[:2] {
		case "0A", "22", "23", "42":
			return true
		}
		return e.Code == "XX001" || e.Code == "XX002" // damage
	}
	return errors.Is(err, errServer) || errors.Is(err, ErrVersion)
}

// final reports whether an error ends a start: those that stay, and what is probably a mistake
// in the configuration.
func (p *postgresBase) final(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) && (e.Code[:2] == "28" || e.Code == "3D000") {
		return true
	}
	return p.lasting(err) || untrusted(err) || errors.Is(err, config.ErrSecret) || errors.Is(err, durable.ErrLocked)
}

// untrusted reports whether a server's certificate was refused.
func untrusted(err error) bool {
	var e *tls.CertificateVerificationError
	var host x509.HostnameError
	return errors.As(err, &e) || errors.As(err, &host)
}

// explain says what to do about an error.
func explain(err error) error {
	var e *pgconn.PgError
	var remedy string
	switch {
	case untrusted(err):
		remedy = "name the file with its authority in history.postgres.ca, and the host as its certificate does"
	case errors.Is(err, durable.ErrLocked):
		remedy = "let one process write, or name another schema in history.postgres.schema"
	case !errors.As(err, &e):
		return err
	case e.Code[:2] == "28":
		remedy = "correct the user in history.postgres.url, or history.postgres.password"
	case e.Code == "3D000":
		remedy = "make it: CREATE DATABASE"
	case e.Code == "42501":
		remedy = "let a superuser make the schema: CREATE SCHEMA ... AUTHORIZATION the user"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}
