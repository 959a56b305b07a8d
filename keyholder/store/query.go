package store

import (
	"context"
	"strings"
	"time"

	"github.com/hencedge/hencedge/keyholder"
)

// Query says which results are wanted. The zero value wants all.
type Query struct {
	Programs []string
	Devices  []string  // that results are about; those of programs without a class have ""
	From, To time.Time // of windows: the first start that counts, and the first that does not
	Limit    int       // the newest ones; 0: all
}

// Each calls f for each result of a query, in the order of their windows. It ends with the
// first error of f.
func (s *Store) Each(ctx context.Context, q Query, f func(*keyholder.Result) error) error {
	text, args := q.sql()
	rows, err := s.db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		_, r, err := decode(rows)
		if err == nil {
			err = f(r)
		}
		if err != nil {
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
	text := selectSQL
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	if q.Limit > 0 {
		text = "SELECT * FROM (" + text + " ORDER BY start_ns DESC, id DESC LIMIT ?) AS newest"
		args = append(args, q.Limit)
	}
	return text + " ORDER BY start_ns, id", args
}
