package store

import (
	"context"
	"database/sql"
	"errors"
)

// transaction is an open transaction, in which statements have ? for arguments.
type transaction struct {
	tx   *sql.Tx
	bind func(string) string
}

// inTx calls f in a transaction, which is committed unless f fails.
func (s *Store) inTx(ctx context.Context, f func(transaction) error) error {
	return s.withTx(ctx, nil, f)
}

// snapshot calls f in a transaction that only reads: all its statements see the same rows.
func (s *Store) snapshot(ctx context.Context, f func(transaction) error) error {
	return s.withTx(ctx, s.base.snapshot(), f)
}

func (s *Store) withTx(ctx context.Context, o *sql.TxOptions, f func(transaction) error) error {
	tx, err := s.db.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	if err := f(transaction{tx, s.base.bind}); err != nil {
		return errors.Join(err, rollback(tx))
	}
	return tx.Commit()
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// exec runs one statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, text string, args ...any) (int64, error) {
	done, err := s.db.ExecContext(ctx, s.base.bind(text), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (tx transaction) exec(ctx context.Context, text string, args ...any) (int64, error) {
	done, err := tx.tx.ExecContext(ctx, tx.bind(text), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (tx transaction) row(ctx context.Context, text string, args ...any) *sql.Row {
	return tx.tx.QueryRowContext(ctx, tx.bind(text), args...)
}

// mark returns the position of a mark; 0 if there is none.
func (tx transaction) mark(ctx context.Context, name string) (position int64, err error) {
	err = tx.row(ctx, "SELECT position FROM marks WHERE name = ?", name).Scan(&position)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return position, err
}
