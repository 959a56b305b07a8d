package store

import (
	"context"
	"fmt"
	"time"
)

// older selects rows in the order of their windows, but none of the newest object: those may
// come up again, and would then be stored a second time. Nor any that no summary has yet.
const older = `SELECT id FROM results WHERE object <> (SELECT object FROM results ORDER BY id DESC LIMIT 1) AND id <= ?`

// most rows are removed by one statement, so that no result waits long for it.
const most = 1000

// summaryBytes is what a summary takes in a database, with its indexes.
const summaryBytes = 150

// Tidy brings the summaries up to date. Then it removes what is older than History.Keep and
// the Keep of its tier, other than results that a sink waits for, and after that the oldest
// results until the database is within History.KeepBytes; summaries may take half of that. It
// stops when ctx ends.
func (s *Store) Tidy(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	folded, err := s.summarise(ctx)
	if err != nil {
		return err
	}
	sent, err := s.sent(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	end := now.Add(-s.o.History.Keep).UnixNano()
	for n := int64(most); n == most; {
		if n, err = s.remove(ctx, older+" AND end_ns < ? ORDER BY start_ns LIMIT ?", min(folded, sent), end,
			most); err != nil {
			return err
		}
	}
	for _, t := range s.o.History.Tiers {
		before := now.Add(-t.Keep - t.Every).UnixNano()
		for n := int64(most); n == most; {
			if n, err = s.exec(ctx, removeSummaries+" AND start_ns < ? ORDER BY start_ns LIMIT ?)", int64(t.Every),
				before, most); err != nil {
				return err
			}
		}
	}
	if err := s.fit(ctx, folded); err != nil {
		return err
	}
	return s.base.shrink(ctx, s.db)
}

const removeSummaries = "DELETE FROM summaries WHERE id IN (SELECT id FROM summaries WHERE every_ns = ?"

// fit removes the oldest until the database is within its bytes.
func (s *Store) fit(ctx context.Context, folded int64) error {
	for {
		size, err := s.base.size(ctx, s.db)
		if err != nil {
			return err
		}
		s.size.Store(size)
		excess := size - int64(s.o.History.KeepBytes)
		if excess <= 0 {
			return nil
		}
		summaries, err := s.between(ctx, "summaries")
		if err != nil {
			return err
		}
		if half := int64(s.o.History.KeepBytes) / 2; summaries*summaryBytes > half {
			n, err := s.removeOldest(ctx, min(excess, summaries*summaryBytes-half)/summaryBytes+1)
			if err != nil {
				return err
			}
			if n > 0 {
				continue
			}
		}
		rows, err := s.between(ctx, "results")
		if err != nil {
			return err
		}
		share := float64(rows) * float64(excess) / float64(size)
		n, err := s.remove(ctx, older+" ORDER BY start_ns LIMIT ?", folded, int64(min(share+1, most)))
		if err != nil || n == 0 {
			return err
		}
	}
}

// between returns about how many rows a table has.
func (s *Store) between(ctx context.Context, table string) (rows int64, err error) {
	err = s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT coalesce(max(id) - min(id) + 1, 0) FROM %s", table)).Scan(&rows)
	return rows, err
}

// remove deletes the results that a query selects.
func (s *Store) remove(ctx context.Context, ids string, args ...any) (n int64, err error) {
	err = s.inTx(ctx, func(tx transaction) error {
		rows, err := tx.tx.QueryContext(ctx, tx.bind("DELETE FROM results WHERE id IN ("+ids+") RETURNING start_ns"),
			args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		latest := int64(0)
		for rows.Next() {
			var start int64
			if err := rows.Scan(&start); err != nil {
				return err
			}
			latest = max(latest, start)
			n++
		}
		if err := rows.Err(); err != nil || n == 0 {
			return err
		}
		_, err = tx.exec(ctx, markSQL+" WHERE excluded.position > marks.position", removedMark, latest)
		return err
	})
	return n, err
}

// removeOldest deletes up to n of the oldest summaries, of the tier that reaches back farthest.
func (s *Store) removeOldest(ctx context.Context, n int64) (int64, error) {
	oldest, every := int64(0), int64(0)
	for _, t := range s.o.History.Tiers {
		var first *int64
		if err := s.db.QueryRowContext(ctx, s.base.bind("SELECT min(start_ns) FROM summaries WHERE every_ns = ?"),
			int64(t.Every)).Scan(&first); err != nil {
			return 0, err
		}
		if first != nil && (every == 0 || *first < oldest) {
			oldest, every = *first, int64(t.Every)
		}
	}
	if every == 0 {
		return 0, nil
	}
	return s.exec(ctx, removeSummaries+" ORDER BY start_ns LIMIT ?)", every, min(n, most))
}
