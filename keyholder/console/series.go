package console

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store"
)

// Points of a chart.
const (
	mostPoints  = 4000
	usualPoints = 1000
)

// lines are a series as charts want it: lists of the same length. A point is one result, or
// the summary of those that begin in an interval.
type lines struct {
	T       []float64  `json:"t"` // begin of the window or the interval, Unix seconds
	Mid     []*float64 `json:"mid"`
	Low     []*float64 `json:"low"` // without the promised error
	High    []*float64 `json:"high"`
	Bound   []*float64 `json:"bound"`
	Results int64      `json:"results"` // that the points stand for
	First   float64    `json:"first"`   // of the whole series, Unix seconds
	Last    float64    `json:"last"`    // both are 0 if it is empty
}

// series answers the points of a series between two times, Unix milliseconds; without them the
// whole of it.
func (c *Console) series(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	span := store.Span{Program: q.Get("program"), Device: q.Get("device")}
	first, last, err := c.span(r, span)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	from, to, ok := between(q, first, last)
	points, ok2 := number(q, "points", 1, mostPoints, usualPoints)
	if !ok || !ok2 || !from.Before(to) {
		refuse(w, http.StatusBadRequest, "from, to or points is no number that it can be")
		return
	}
	out := lines{T: []float64{}}
	if !first.IsZero() {
		out.First, out.Last = seconds(first), seconds(last)
		span.From, span.To, span.Most = from, to, int(points)
		list, err := c.o.History.Points(r.Context(), span)
		if err != nil && !errors.Is(err, store.ErrSpan) {
			c.fail(w, r, err)
			return
		}
		out.add(list)
	}
	answer(w, out)
}

// span returns when the first and the last window of a series begin; both are zero if it has
// none.
func (c *Console) span(r *http.Request, of store.Span) (first, last time.Time, err error) {
	ask := store.Query{Programs: []string{of.Program}, Devices: []string{of.Device}, Limit: 1}
	err = c.o.History.Each(r.Context(), ask, func(res *keyholder.Result) error { last = res.Start; return nil })
	if err == nil && !last.IsZero() {
		ask.After = &store.Position{Start: time.Unix(0, math.MinInt64)}
		err = c.o.History.Each(r.Context(), ask, func(res *keyholder.Result) error { first = res.Start; return nil })
	}
	return first, last, err
}

func (l *lines) add(list []store.Point) {
	for _, p := range list {
		l.T = append(l.T, seconds(p.Start))
		l.Mid, l.Bound = append(l.Mid, finite(p.Mean)), append(l.Bound, finite(p.Bound))
		l.Low, l.High = append(l.Low, finite(p.Min)), append(l.High, finite(p.Max))
		l.Results += p.Count
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// between reads "from" and "to" of a query; without them everything from first to last counts.
func between(q url.Values, first, last time.Time) (from, to time.Time, ok bool) {
	const least, most = -1 << 43, 1 << 43 // milliseconds that fit into nanoseconds
	if first.IsZero() {
		first, last = time.Unix(0, 0), time.Unix(0, 0)
	}
	a, ok1 := number(q, "from", least, most, first.UnixMilli())
	b, ok2 := number(q, "to", least, most, last.UnixMilli()+1)
	return time.UnixMilli(a), time.UnixMilli(b), ok1 && ok2
}

// maxRows bounds a list of results.
const maxRows = 500

// results answers the newest results, of one series or of all.
func (c *Console) results(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, ok := number(q, "limit", 1, maxRows, 50)
	if !ok {
		refuse(w, http.StatusBadRequest, "limit is no number that it can be")
		return
	}
	ask := store.Query{Limit: int(limit)}
	if q.Has("program") {
		ask.Programs, ask.Devices = []string{q.Get("program")}, []string{q.Get("device")}
	}
	if ns, ok := number(q, "before_ns", math.MinInt64, math.MaxInt64, 0); ok && q.Has("before_ns") {
		ask.To = time.Unix(0, ns)
	} else if !ok {
		refuse(w, http.StatusBadRequest, "before_ns is no point in time")
		return
	}
	list := []liveResult{}
	if err := c.o.History.Each(r.Context(), ask, func(res *keyholder.Result) error {
		list = append(list, newLive(res))
		return nil
	}); err != nil {
		c.fail(w, r, err)
		return
	}
	answer(w, map[string]any{"results": list, "now": millis(c.now())})
}
