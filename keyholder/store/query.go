package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/hencedge/hencedge/keyholder"
)

// Query says which results are wanted. The zero value wants all.
type Query struct {
	Programs []string
	Devices  []string  // that results are about; those of programs without a class have ""
	From, To time.Time // of windows: the first start that counts, and the first that does not
	// After and Before want results that come after one and before another in the order of
	// their windows; nil: no such bound.
	After, Before *Position
	// Limit is how many results are wanted at most: the newest ones, or with After the first
	// ones; 0: all.
	Limit int
}

// Position is the place of a result in the order of windows. The next page of a query begins
// After the last position of the page before.
type Position struct {
	Start time.Time
	ID    int64 // of the result, see Row
}

// Row is a result with its number, which counts up in the order of arrival.
type Row struct {
	ID int64 // 1 or more
	*keyholder.Result
}

// Position returns where the result is in the order of windows.
func (r *Row) Position() *Position { return &Position{r.Start, r.ID} }

// Each calls f for each result of a query, in the order of their windows. It ends with the
// first error of f.
func (s *Store) Each(ctx context.Context, q Query, f func(*keyholder.Result) error) error {
	return s.Rows(ctx, q, func(r Row) error { return f(r.Result) })
}

// Rows is Each with the numbers of results.
func (s *Store) Rows(ctx context.Context, q Query, f func(Row) error) error {
	text, args := q.sql()
	return s.rows(ctx, f, text, args...)
}

// Arrived calls f for the first results, at most limit, whose number is larger than after, in
// the order of arrival. It ends with the first error of f.
func (s *Store) Arrived(ctx context.Context, after int64, limit int, f func(Row) error) error {
	return s.rows(ctx, f, selectSQL+" WHERE id > ? ORDER BY id LIMIT ?", after, limit)
}

// rows calls f for each row of a statement that begins with selectSQL.
func (s *Store) rows(ctx context.Context, f func(Row) error, text string, args ...any) error {
	return s.scan(ctx, func(rows *sql.Rows) error {
		id, r, err := decode(rows)
		if err != nil {
			return err
		}
		return f(Row{id, r})
	}, text, args...)
}

// scan calls f for each row of a query.
func (s *Store) scan(ctx context.Context, f func(*sql.Rows) error, text string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, s.base.bind(text), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sql returns the statement and its arguments.
func (q *Query) sql() (string, []any) {
	var where []string
	var args []any
	among := func(column string, names []string) {
		if len(names) == 0 {
			return
		}
		where = append(where, column+" IN (?"+strings.Repeat(", ?", len(names)-1)+")")
		for _, name := range names {
			args = append(args, name)
		}
	}
	among("program", q.Programs)
	among("device", q.Devices)
	if !q.From.IsZero() {
		where, args = append(where, "start_ns >= ?"), append(args, q.From.UnixNano())
	}
	if !q.To.IsZero() {
		where, args = append(where, "start_ns < ?"), append(args, q.To.UnixNano())
	}
	if p := q.After; p != nil {
		where, args = append(where, "(start_ns, id) > (?, ?)"), append(args, p.Start.UnixNano(), p.ID)
	}
	if p := q.Before; p != nil {
		where, args = append(where, "(start_ns, id) < (?, ?)"), append(args, p.Start.UnixNano(), p.ID)
	}
	text := selectSQL
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	order := " ORDER BY start_ns, id"
	if q.Limit > 0 {
		args = append(args, q.Limit)
		if q.After != nil {
			return text + order + " LIMIT ?", args
		}
		text = "SELECT * FROM (" + text + " ORDER BY start_ns DESC, id DESC LIMIT ?) AS newest"
	}
	return text + order, args
}

// Series is what is known of the results of one program about one device: its newest window.
type Series struct {
	Program, Device string // Device is empty for a program without a class
	Evaluator, Unit string
	Start, End      time.Time // of the window
	Samples         uint32
	Value, Bound    float64 // its first value, NaN if that is no number, and the promised error
	ID              int64   // of the result; it may have been removed since
}

// Series returns what there are results of, in the order of programs and devices. A series
// outlives its results.
func (s *Store) Series(ctx context.Context) (out []Series, err error) {
	err = s.scan(ctx, func(rows *sql.Rows) error {
		var v Series
		var start, end, samples int64
		var value, bound sql.NullFloat64
		if err := rows.Scan(&v.Program, &v.Device, &v.Evaluator, &v.Unit, &start, &end, &samples, &value, &bound,
			&v.ID); err != nil {
			return err
		}
		v.Start, v.End, v.Samples = time.Unix(0, start).UTC(), time.Unix(0, end).UTC(), uint32(samples)
		v.Value, v.Bound = float(value), float(bound)
		out = append(out, v)
		return nil
	}, "SELECT program, device, evaluator, unit, start_ns, end_ns, samples, value, bound, result FROM series "+
		"ORDER BY program, device")
	return out, err
}
