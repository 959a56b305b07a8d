package store

import (
	"context"
	"time"
)

// older selects rows in the order of their windows, but none of the newest object: those may
// come up again, and would then be stored a second time.
const older = `SELECT id FROM results WHERE object <> (SELECT object FROM results ORDER BY id DESC LIMIT 1)`

// most rows are removed by one statement, so that no result waits long for it.
const most = 1000

// Tidy removes results that are older than History.Keep, and then the oldest ones until the
// database is within History.KeepBytes. It stops when ctx ends.
func (s *Store) Tidy(ctx context.Context) error {
	end := time.Now().Add(-s.o.History.Keep).UnixNano()
	for {
		n, err := s.remove(ctx, older+" AND end_ns < ? ORDER BY start_ns LIMIT ?", end, most)
		if err != nil {
			return err
		}
		if n < most {
			break
		}
	}
	for {
		size, err := s.base.size(ctx, s.db)
		if err != nil {
			return err
		}
		s.size.Store(size)
		excess := size - int64(s.o.History.KeepBytes)
		if excess <= 0 {
			break
		}
		var rows int64
		if err := s.db.QueryRowContext(ctx, "SELECT coalesce(max(id) - min(id), 0) + 1 FROM results").
			Scan(&rows); err != nil {
			return err
		}
		share := float64(rows) * float64(excess) / float64(size)
		n, err := s.remove(ctx, older+" ORDER BY start_ns LIMIT ?", int64(min(share+1, most)))
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	return s.base.shrink(ctx, s.db)
}

// remove deletes the rows that a query selects.
func (s *Store) remove(ctx context.Context, ids string, args ...any) (int64, error) {
	done, err := s.db.ExecContext(ctx, "DELETE FROM results WHERE id IN ("+ids+")", args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
