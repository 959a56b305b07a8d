package store

import (
	"context"
	"fmt"
	"math"
	"time"
)

// older selects rows in the order of their windows, but none of the newest object: those may
// come up again, and would then be stored a second time. Nor any that no summary has yet.
const older = `SELECT id FROM results WHERE object <> (SELECT object FROM results ORDER BY id DESC LIMIT 1) AND id <= ?`

// most rows are removed by one statement, so that no result waits long for it.
const most = 1000

// summaryBytes is what a summary takes in a database, with its indexes.
const summaryBytes = 150

// Tidy brings the summaries up to date. Then it removes what is older than History.Keep (with
// spans, when all of the span is) and the Keep of its tier, other than results that a sink waits
// for, and after that the oldest results until the database is within History.KeepBytes;
// summaries may take half of that. It stops when ctx ends.
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
	if err := s.removeOld(ctx, min(folded, sent), now.Add(-s.o.History.Keep).UnixNano()); err != nil {
		return err
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

// removeOld removes what ended before a time, up to the result with a number. A base with spans
// keeps results until all of their span are that old.
func (s *Store) removeOld(ctx context.Context, upto, end int64) error {
	spans, err := s.base.spans(ctx, s.db)
	if err != nil {
		return err
	}
	for _, c := range spans {
		if c.to > end {
			return nil
		}
		if _, err := s.dropSpan(ctx, c, upto, end, math.MaxInt64); err != nil {
			return err
		}
	}
	for n := int64(most); n == most && len(spans) == 0; {
		if n, err = s.remove(ctx, older+" AND end_ns < ? ORDER BY start_ns LIMIT ?", upto, end, most); err != nil {
			return err
		}
	}
	return nil
}

// dropSpan removes a span if none of its results ends after a time or has a
// number above upto, it has no more of them than rows, and none of the newest object.
func (s *Store) dropSpan(ctx context.Context, c span, upto, end, rows int64) (dropped bool, err error) {
	err = s.inTx(ctx, func(tx transaction) error {
		var count, start, last, id int64
		var newest bool
		if err := tx.row(ctx, `SELECT count(*), coalesce(max(start_ns), 0), coalesce(max(end_ns), 0),
			coalesce(max(id), 0),
			coalesce(bool_or(object = (SELECT object FROM results ORDER BY id DESC LIMIT 1)), false)
			FROM results WHERE start_ns >= ? AND start_ns < ?`, c.from, c.to).Scan(&count, &start, &last, &id,
			&newest); err != nil {
			return err
		}
		if newest || last > end || id > upto || count > rows {
			return nil
		}
		dropped = true
		if count > 0 {
			if _, err := tx.exec(ctx, removedSQL, removedMark, start); err != nil {
				return err
			}
		}
		return s.base.drop(ctx, tx, c)
	})
	return dropped && err == nil, err
}

const removedSQL = markSQL + " WHERE excluded.position > marks.position"

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
		spans, err := s.base.spans(ctx, s.db)
		if err != nil {
			return err
		}
		if len(spans) > 1 {
			if dropped, err := s.dropSpan(ctx, spans[0], folded, math.MaxInt64, int64(share)); err != nil {
				return err
			} else if dropped {
				continue
			}
		}
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
		_, err = tx.exec(ctx, removedSQL, removedMark, latest)
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
