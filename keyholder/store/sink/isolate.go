package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/keyholder/store"
)

// poster tells a web server of results.
type poster interface {
	// post sends results in one request, or none if there is nothing to send of them.
	post(ctx context.Context, rows []store.Row) error
	// probe sends a request without results, which a receiver that works takes.
	probe(ctx context.Context) error
}

// sendSome sends results in one request. If it is refused, and one without results is not, some of
// the results are at fault: they are left out alone, one error in refused for each.
func sendSome(ctx context.Context, p poster, rows []store.Row) (done int, refused []error, err error) {
	err = p.post(ctx, rows)
	switch {
	case err == nil:
		return len(rows), nil, nil
	case !unfit(err):
		return 0, nil, err
	}
	if err := p.probe(ctx); err != nil {
		return 0, nil, fmt.Errorf("a request without results: %w", err)
	}
	return halve(ctx, p, rows, err)
}

// halve sends results that were refused together until it knows those that are at fault: one
// sample that is out of order makes Prometheus refuse the whole request, and some versions of
// InfluxDB one point that they do not take. Others have taken the rest; it is the same a second
// time.
func halve(ctx context.Context, p poster, rows []store.Row, why error) (done int, refused []error, err error) {
	if len(rows) == 1 {
		return 1, []error{why}, nil
	}
	half := len(rows) / 2
	for _, part := range [][]store.Row{rows[:half], rows[half:]} {
		var n int
		var others []error
		switch err = p.post(ctx, part); {
		case err == nil:
			n = len(part)
		case unfit(err):
			n, others, err = halve(ctx, p, part, err)
		}
		done, refused = done+n, append(refused, others...)
		if err != nil {
			break
		}
	}
	return done, refused, err
}

// unfit reports whether a receiver may refuse what it was sent. It does not where the way to it is
// surely at fault: a redirect, an address or a login that is wrong, a Prometheus that is no
// receiver, an InfluxDB without the database.
func unfit(err error) bool {
	var status *outlet.StatusError
	if !errors.As(err, &status) || !errors.Is(err, outlet.ErrRefused) {
		return false
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired:
		return false
	}
	return status.Code >= 400
}
