package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"
)

// With TimescaleDB the results are a hypertable: chunks of results whose windows begin in the same
// span of time, which are removed as files instead of row by row. A unique constraint of a
// hypertable must include the time, and that of a result is not part of its identity: so the
// identities are in a plain table, ledger, which also gives results their numbers. A row of
// results comes and goes with its row there.

// timescaleSQL makes the ledger and the hypertable: chunks have the length %[1]d in nanoseconds, and
// the extension its functions in the schema %[2]s. docs/results.md has it for databases with results.
//
//go:embed timescale.sql
var timescaleSQL string

// span is a part of the results that can be removed at once: those of windows that begin from
// From to before To, in Unix nanoseconds.
type span struct{ from, to int64 }

// chunkLength returns how long the spans of results are that are kept for a time: few enough for
// queries that look into all, and short beside what is kept.
func chunkLength(keep time.Duration) time.Duration {
	for _, d := range []time.Duration{30 * day, 7 * day, day, 6 * time.Hour} {
		if d <= keep/50 {
			return d
		}
	}
	return time.Hour
}

// extend makes the results a hypertable if the database has the extension and there are no results
// yet, and finds out how results are kept.
func (p *postgresBase) extend(ctx context.Context, db *sql.DB) error {
	var functions sql.NullString
	if err := db.QueryRowContext(ctx, `SELECT to_regclass($1 || '.ledger') IS NOT NULL, (SELECT quote_ident(nspname)
		FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'timescaledb')`, p.cfg.Schema).
		Scan(&p.ledger, &functions); err != nil {
		return err
	}
	p.functions = ""
	if !functions.Valid || p.readOnly {
		return nil
	}
	length := chunkLength(p.keep)
	if !p.ledger {
		var some bool
		if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM results)").Scan(&some); err != nil || some {
			return err
		}
		if _, err := db.ExecContext(ctx, fmt.Sprintf(timescaleSQL, int64(length), functions.String)); err != nil {
			return fmt.Errorf("make the results a hypertable of TimescaleDB: %w", err)
		}
		p.ledger = true
	}
	var is bool
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM timescaledb_information.hypertables
		WHERE hypertable_schema = $1 AND hypertable_name = 'results')`, p.cfg.Schema).Scan(&is); err != nil || !is {
		return err
	}
	_, err := db.ExecContext(ctx, "SELECT "+functions.String+".set_chunk_time_interval('results', $1::bigint)",
		int64(length))
	if err == nil {
		p.functions = functions.String
	}
	return err
}

// ledgerSQL stores a result whose identity is new to the ledger.
var ledgerSQL = func() string {
	var values []string
	start := 0
	for i, c := range columns {
		values = append(values, fmt.Sprintf("$%d", i+1))
		if c == "start_ns" {
			start = i + 1
		}
	}
	return fmt.Sprintf(`WITH new AS (INSERT INTO ledger (identity, start_ns) VALUES ($1, $%d)
		ON CONFLICT DO NOTHING RETURNING id)
		INSERT INTO results (id, %s) SELECT id, %s FROM new`, start, strings.Join(columns, ", "),
		strings.Join(values, ", "))
}()

// insert returns the statement that stores a result unless it is there, and the condition that
// finds it by its identity and its start.
func (p *postgresBase) insert() (text, where string) {
	if p.ledger {
		return ledgerSQL, "id = (SELECT id FROM ledger WHERE identity = ?) AND start_ns = ?"
	}
	return insertSQL, byIdentity
}

// spans returns the chunks of results, the oldest first; none without TimescaleDB.
func (p *postgresBase) spans(ctx context.Context, db *sql.DB) (out []span, err error) {
	if p.functions == "" {
		return nil, nil
	}
	rows, err := db.QueryContext(ctx, `SELECT range_start_integer, range_end_integer FROM timescaledb_information.chunks
		WHERE hypertable_schema = $1 AND hypertable_name = 'results' ORDER BY range_end_integer`, p.cfg.Schema)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c span
		if err := rows.Scan(&c.from, &c.to); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// chunkPatience bounds the wait for those who read a chunk that is to go.
const chunkPatience = 2 * time.Second

// drop removes a chunk. Where others read it for long, it fails and is tried again.
func (p *postgresBase) drop(ctx context.Context, tx transaction, c span) error {
	_, err := tx.tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", chunkPatience.Milliseconds()))
	if err == nil {
		_, err = tx.tx.ExecContext(ctx, "SELECT "+p.functions+
			".drop_chunks('results', older_than => $1::bigint, newer_than => $2::bigint)", c.to, c.from)
	}
	return err
}

// shrink takes out of the ledger what is not in the results any more. The room of other rows that
// were removed is for the server's autovacuum to use again.
func (p *postgresBase) shrink(ctx context.Context, db *sql.DB) error {
	if !p.ledger {
		return nil
	}
	var removed int64
	err := db.QueryRowContext(ctx, "SELECT position FROM marks WHERE name = $1", removedMark).Scan(&removed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	for n := int64(most); err == nil && n == most; {
		var done sql.Result
		if done, err = db.ExecContext(ctx, settleSQL, removed, most); err == nil {
			n, err = done.RowsAffected()
		}
	}
	return err
}

// settleSQL removes rows of the ledger without a result, up to the latest start of those removed.
const settleSQL = `DELETE FROM ledger WHERE id IN (SELECT id FROM ledger AS l WHERE start_ns <= $1 AND NOT EXISTS
	(SELECT FROM results AS r WHERE r.id = l.id AND r.start_ns = l.start_ns AND r.start_ns <= $1) LIMIT $2)`
