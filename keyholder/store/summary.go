package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
)

// Summaries follow the results: each is folded into the summaries of its intervals once, in
// the order of arrival. A mark holds the number of the newest result that was folded, and
// changes in the same transaction. Results that were not folded yet are not removed.

// foldRows is how many results one transaction folds.
const foldRows = 5000

// Names of marks.
const (
	summaryMark = "summary " // and the length of an interval in nanoseconds
	removedMark = "removed"  // the latest start of a result that was removed
)

// doomed is the mark of a tier that the configuration has no more, while it is removed.
const doomed = -1

// Sums of squares of larger values are no numbers, which a database may refuse to compute.
const largest = 1e140

var foldSQL = fmt.Sprintf(`INSERT INTO summaries (every_ns, series, start_ns, count, mean, low, high, bound)
	SELECT ?, s.id, r.start_ns / ? * ?, count(*), avg(r.value), min(r.value), max(r.value), max(r.bound)
	FROM results r JOIN series s ON s.program = r.program AND s.device = r.device
	WHERE r.id > ? AND r.id <= ? AND r.value BETWEEN -%[1]g AND %[1]g GROUP BY s.id, 3
	ON CONFLICT (every_ns, series, start_ns) DO UPDATE SET
		mean = summaries.mean + (excluded.mean - summaries.mean) * excluded.count / (summaries.count + excluded.count),
		low = CASE WHEN excluded.low < summaries.low THEN excluded.low ELSE summaries.low END,
		high = CASE WHEN excluded.high > summaries.high THEN excluded.high ELSE summaries.high END,
		bound = CASE WHEN excluded.bound > summaries.bound OR summaries.bound IS NULL THEN excluded.bound
			ELSE summaries.bound END,
		count = summaries.count + excluded.count`, largest)

const markSQL = `INSERT INTO marks (name, position) VALUES (?, ?)
	ON CONFLICT (name) DO UPDATE SET position = excluded.position`

func markOf(every time.Duration) string { return summaryMark + strconv.FormatInt(int64(every), 10) }

// summarise brings the summaries up to date. It returns the number of the newest result that
// all of them have.
func (s *Store) summarise(ctx context.Context) (folded int64, err error) {
	if err := s.dropTiers(ctx); err != nil {
		return 0, err
	}
	folded = math.MaxInt64
	for _, t := range s.o.History.Tiers {
		for {
			to, more, err := s.fold(ctx, t.Every)
			if err != nil {
				return 0, err
			}
			if !more {
				folded = min(folded, to)
				break
			}
		}
	}
	return folded, nil
}

// fold takes the next results into the summaries of a tier, and returns how far those are then.
func (s *Store) fold(ctx context.Context, every time.Duration) (to int64, more bool, err error) {
	err = s.inTx(ctx, func(tx transaction) error {
		from, err := tx.mark(ctx, markOf(every))
		if err != nil {
			return err
		}
		var count int
		if err := tx.row(ctx, "SELECT coalesce(max(id), 0), count(*) FROM (SELECT id FROM results WHERE id > ? "+
			"ORDER BY id LIMIT ?) AS next", from, foldRows).Scan(&to, &count); err != nil {
			return err
		}
		if count == 0 {
			to = from
			return nil
		}
		more = count == foldRows
		n := int64(every)
		if _, err := tx.exec(ctx, foldSQL, n, n, n, from, to); err != nil {
			return err
		}
		_, err = tx.exec(ctx, markSQL, markOf(every), to)
		return err
	})
	return to, more, err
}

// dropTiers removes the summaries of tiers that the configuration has no more. A tier that
// comes back begins anew, with the results that there are.
func (s *Store) dropTiers(ctx context.Context) error {
	marks := map[string]int64{}
	err := s.scan(ctx, func(rows *sql.Rows) error {
		var name string
		var position int64
		err := rows.Scan(&name, &position)
		marks[name] = position
		return err
	}, "SELECT name, position FROM marks")
	if err != nil {
		return err
	}
	for name, position := range marks {
		text, ok := strings.CutPrefix(name, summaryMark)
		every, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil || position != doomed && slices.ContainsFunc(s.o.History.Tiers,
			func(t config.Tier) bool { return int64(t.Every) == every }) {
			continue
		}
		if _, err := s.exec(ctx, markSQL, name, doomed); err != nil {
			return err
		}
		for n := int64(most); n == most; {
			if n, err = s.exec(ctx, "DELETE FROM summaries WHERE id IN (SELECT id FROM summaries WHERE every_ns = ? "+
				"LIMIT ?)", every, most); err != nil {
				return err
			}
		}
		if _, err := s.exec(ctx, "DELETE FROM marks WHERE name = ?", name); err != nil {
			return err
		}
	}
	return nil
}

// Span says of what Points are wanted.
type Span struct {
	Program, Device string
	From, To        time.Time // of windows: the first start that counts, and the first that does not
	Most            int       // points, from 1 to MostPoints
}

// manyResults are too many to be added up while somebody waits: that takes 1.4 us each.
const manyResults = 100_000

// MostPoints is how many points can be wanted at once.
const MostPoints = 100_000

// Point is a result, or the summary of those that begin in an interval.
type Point struct {
	Start, End     time.Time // of the window, or the interval
	Count          int64     // results, 1 or more
	Mean, Min, Max float64   // of their first values
	Bound          float64   // the largest promised error of them; NaN: unknown
}

// ErrSpan: no points can be had for this Span.
var ErrSpan = errors.New("no span of time: from must be before to, and 1 to 100000 points be wanted")

// Points returns the results of a span, in the order of their windows, if they are no more
// than Most. Else it returns summaries of intervals of one length, which begin at multiples of
// it since 1970, at most one more than Most; there is none of an interval without results.
// Where results were removed already, or there are more than manyResults, it returns the
// summaries that are kept, of intervals as short as those are.
func (s *Store) Points(ctx context.Context, q Span) (out []Point, err error) {
	if q.Most < 1 || q.Most > MostPoints || !q.From.Before(q.To) {
		return nil, ErrSpan
	}
	err = s.snapshot(ctx, func(tx transaction) error {
		removed, err := tx.mark(ctx, removedMark)
		if err != nil {
			return err
		}
		whole := removed == 0 || q.From.UnixNano() > removed
		if whole {
			var n int
			if err := tx.row(ctx, "SELECT count(*) FROM (SELECT id FROM results WHERE "+inSpan+" LIMIT ?) AS few",
				append(q.args(), max(q.Most, s.many)+1)...).Scan(&n); err != nil {
				return err
			}
			whole = n <= max(q.Most, s.many)
			if n <= q.Most {
				out, err = tx.points(ctx, 0, "SELECT start_ns, end_ns - start_ns, 1, value, value, value, bound FROM "+
					"results WHERE "+inSpan+" AND value IS NOT NULL ORDER BY start_ns, id", q.args()...)
				return err
			}
		}
		width := pleasant((q.To.Sub(q.From) + time.Duration(q.Most) - 1) / time.Duration(q.Most))
		tier := s.tier(width, q.From, whole)
		if tier == 0 {
			n := int64(width)
			out, err = tx.points(ctx, width, "SELECT start_ns / ? * ?, 0, count(*), avg(value), min(value), "+
				"max(value), max(bound) FROM results WHERE "+inSpan+" AND value BETWEEN "+small+" GROUP BY 1 "+
				"ORDER BY 1", append([]any{n, n}, q.args()...)...)
			return err
		}
		width = (width + tier - 1) / tier * tier
		out, err = tx.summaries(ctx, q, tier, width)
		return err
	})
	return out, err
}

const inSpan = "program = ? AND device = ? AND start_ns >= ? AND start_ns < ?"

var small = fmt.Sprintf("-%[1]g AND %[1]g", largest)

func (q *Span) args() []any {
	return []any{q.Program, q.Device, q.From.UnixNano(), q.To.UnixNano()}
}

// pleasant returns the next length of an interval that people like.
func pleasant(d time.Duration) time.Duration {
	for _, p := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
		30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day,
		28 * day} {
		if d <= p {
			return p
		}
	}
	return (d + day - 1) / day * day
}

const day = 24 * time.Hour

// tier returns the interval of the summaries that show a span best: the longest one of at most
// width that reaches back to its beginning. whole says that all its results are there and
// not too many, so that none are needed; 0 means that results are better.
func (s *Store) tier(width time.Duration, from time.Time, whole bool) time.Duration {
	tiers := slices.Clone(s.o.History.Tiers)
	slices.SortFunc(tiers, func(a, b config.Tier) int { return int(min(max(b.Every-a.Every, -1), 1)) })
	now := time.Now()
	var shortest, farthest config.Tier
	for _, t := range tiers {
		reaches := now.Add(-t.Keep).Before(from)
		if reaches && t.Every <= width {
			return t.Every
		}
		if reaches {
			shortest = t
		}
		if t.Keep > farthest.Keep {
			farthest = t
		}
	}
	switch {
	case whole:
		return 0
	case shortest.Every > 0:
		return shortest.Every
	}
	return farthest.Every
}

// summaries returns the summaries of a tier, together in intervals of width, and with them the
// newest results, which were not folded yet: at most tailRows are looked at.
func (tx transaction) summaries(ctx context.Context, q Span, tier, width time.Duration) ([]Point, error) {
	folded, err := tx.mark(ctx, markOf(tier))
	if err != nil {
		return nil, err
	}
	n, from, to := int64(width), q.From.UnixNano(), q.To.UnixNano()
	return tx.points(ctx, width, `SELECT b, 0, CAST(sum(c) AS BIGINT), sum(m * c) / sum(c), min(l), max(h), max(e)
		FROM (
		SELECT start_ns / ? * ? AS b, count AS c, mean AS m, low AS l, high AS h, bound AS e FROM summaries
		WHERE every_ns = ? AND series = (SELECT id FROM series WHERE program = ? AND device = ?)
			AND start_ns > ? AND start_ns < ?
		UNION ALL
		SELECT start_ns / ? * ?, 1, value, value, value, bound
		FROM (SELECT * FROM results WHERE id > ? ORDER BY id LIMIT ?) AS tail
		WHERE program = ? AND device = ? AND start_ns >= ? AND start_ns < ? AND value BETWEEN `+small+`
		) AS parts GROUP BY b ORDER BY b`, n, n, int64(tier), q.Program, q.Device, from-int64(tier), to, n, n, folded,
		tailRows, q.Program, q.Device, from, to)
}

const tailRows = 1 << 20

// points reads points: start, length, count, mean, least, largest, bound. The length is that
// of the row, or else width.
func (tx transaction) points(ctx context.Context, width time.Duration, text string, args ...any) ([]Point, error) {
	rows, err := tx.tx.QueryContext(ctx, tx.bind(text), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []Point{}
	for rows.Next() {
		var p Point
		var start, length int64
		var bound sql.NullFloat64
		if err := rows.Scan(&start, &length, &p.Count, &p.Mean, &p.Min, &p.Max, &bound); err != nil {
			return nil, err
		}
		if width > 0 {
			length = int64(width)
		}
		p.Start, p.End, p.Bound = time.Unix(0, start).UTC(), time.Unix(0, start+length).UTC(), float(bound)
		out = append(out, p)
	}
	return out, rows.Err()
}
