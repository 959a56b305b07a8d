package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrVersion: the database was made by a later version of the program.
var ErrVersion = errors.New("the database is of a later version")

// migrations are the steps from each version of the SQLite database to the next. Steps that
// were released never change.
var migrations = [][]string{
	{`CREATE TABLE results (
		id INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of arrival
		identity BLOB NOT NULL UNIQUE,
		program TEXT NOT NULL, device TEXT NOT NULL, evaluator TEXT NOT NULL, unit TEXT NOT NULL,
		key_id BLOB NOT NULL, epoch INTEGER NOT NULL, boot_epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,
		start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, samples INTEGER NOT NULL,
		value REAL, more TEXT, bound REAL,
		object BLOB NOT NULL, inputs BLOB NOT NULL, bytes INTEGER NOT NULL, packed INTEGER NOT NULL,
		fleet_devices INTEGER, fleet_windows INTEGER, fleet_samples INTEGER, fleet_digest BLOB
	) STRICT`,
		`CREATE INDEX results_time ON results (start_ns)`,
		`CREATE INDEX results_series ON results (program, device, start_ns)`},
	{`CREATE TABLE series ( -- the newest window of each program and device
		id INTEGER PRIMARY KEY,
		program TEXT NOT NULL, device TEXT NOT NULL, evaluator TEXT NOT NULL, unit TEXT NOT NULL,
		start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, samples INTEGER NOT NULL,
		value REAL, bound REAL, result INTEGER NOT NULL,
		UNIQUE (program, device)
	) STRICT`,
		`INSERT INTO series (program, device, evaluator, unit, start_ns, end_ns, samples, value, bound, result)
		SELECT program, device, evaluator, unit, max(start_ns), end_ns, samples, value, bound, id FROM results
		GROUP BY program, device`, // with max SQLite takes the other columns from the same row
		`CREATE TABLE summaries ( -- of the results that begin in an interval
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		every_ns INTEGER NOT NULL, series INTEGER NOT NULL, start_ns INTEGER NOT NULL,
		count INTEGER NOT NULL, mean REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, bound REAL,
		UNIQUE (every_ns, series, start_ns)
	) STRICT`,
		`CREATE INDEX summaries_time ON summaries (every_ns, start_ns)`,
		`CREATE TABLE marks ( -- how far something has come
		name TEXT PRIMARY KEY, position INTEGER NOT NULL
	) STRICT`},
}

// migrate brings a database of version to the newest one. Each step is one transaction, with
// the new version in it.
func migrate(ctx context.Context, db *sql.DB, version int, steps [][]string, mark func(version int) string) error {
	for ; version < len(steps); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for _, text := range append(steps[version][:len(steps[version]):len(steps[version])], mark(version+1)) {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("migration to version %d: %w", version+1, errors.Join(err, tx.Rollback()))
			}
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("migration to version %d: %w", version+1, err)
		}
	}
	return nil
}

// checkVersion refuses versions that this program does not know, and for reading also those
// that have to be migrated first.
func checkVersion(version, newest int, readOnly bool) error {
	switch {
	case version > newest:
		return fmt.Errorf("%w: %d, this program knows %d; install a newer hencedge", ErrVersion, version, newest)
	case readOnly && version < newest:
		return fmt.Errorf("it is of version %d; start \"results serve\" once, which brings it to version %d",
			version, newest)
	}
	return nil
}
