package store

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/keyholder"
)

// hour is the beginning of the current hour, less n of them.
func hour(n int) time.Time {
	return time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(n) * time.Hour)
}

// at gives a result its window and its value.
func at(start time.Time, value float64) func(*keyholder.Result) {
	return func(r *keyholder.Result) {
		r.Start, r.End, r.Values = start, start.Add(10*time.Second), []float64{value}
	}
}

// oracle summarises results as Points should, slowly.
func oracle(results []*keyholder.Result, q Span, width time.Duration) (out []Point) {
	byStart := map[int64][]*keyholder.Result{}
	for _, r := range results {
		if r.Program == q.Program && r.Device == q.Device && !r.Start.Before(q.From) && r.Start.Before(q.To) {
			b := r.Start.UnixNano() / int64(width) * int64(width)
			byStart[b] = append(byStart[b], r)
		}
	}
	for b, list := range byStart {
		p := Point{Start: time.Unix(0, b).UTC(), End: time.Unix(0, b).UTC().Add(width), Min: math.Inf(1),
			Max: math.Inf(-1)}
		sum := 0.0
		for _, r := range list {
			v := r.Values[0]
			sum += v
			p.Count, p.Min, p.Max, p.Bound = p.Count+1, min(p.Min, v), max(p.Max, v), max(p.Bound, r.Bound)
		}
		p.Mean = sum / float64(p.Count)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Point) int { return a.Start.Compare(b.Start) })
	return out
}

func samePoints(a, b []Point) bool {
	return slices.EqualFunc(a, b, func(x, y Point) bool {
		near := math.Abs(x.Mean-y.Mean) <= 1e-9*max(1, math.Abs(y.Mean))
		x.Mean, y.Mean = 0, 0
		return near && x == y
	})
}

func points(t *testing.T, s *Store, q Span) []Point {
	t.Helper()
	out, err := s.Points(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tidy(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Points are the results themselves, or what an oracle makes of them: from the results, from
// summaries, and from those together with results that no summary has yet.
func TestPoints(t *testing.T) { testPoints(t, history(testenv.QuickDir(t))) }

func testPoints(t *testing.T, h config.History) {
	h.Tiers = []config.Tier{{Every: time.Minute, Keep: 24 * time.Hour}, {Every: time.Hour, Keep: 1000 * time.Hour}}
	s := open(t, h, false)
	reader := open(t, h, true)
	var all []*keyholder.Result
	random := rand.New(rand.NewPCG(1, 2))
	grow := func(n int) {
		for range n {
			r := result("mean", len(all), at(hour(8).Add(time.Duration(random.IntN(7*3600))*time.Second),
				random.NormFloat64()*100))
			r.Device, r.Bound = []string{"a", "b"}[random.IntN(2)], random.Float64()
			all = append(all, r)
			add(t, s, r)
		}
	}
	check := func(when string) {
		t.Helper()
		for name, c := range map[string]struct {
			q     Span
			width time.Duration
		}{
			"from results": {Span{"mean", "a", hour(8), hour(7), 150}, 30 * time.Second},
			"of minutes":   {Span{"mean", "a", hour(8), hour(0), 120}, 5 * time.Minute},
			"of hours":     {Span{"mean", "b", hour(9), hour(0), 9}, time.Hour},
			"of two hours": {Span{"mean", "b", hour(9), hour(0), 5}, 2 * time.Hour},
			"part":         {Span{"mean", "b", hour(5), hour(4), 1}, time.Hour},
			"no results":   {Span{"mean", "c", hour(9), hour(0), 5}, time.Hour},
		} {
			want := oracle(all, c.q, c.width)
			if got := points(t, reader, c.q); !samePoints(got, want) {
				t.Errorf("%s, %s: got %d points, want %d; got %.3v", when, name, len(got), len(want), got)
			}
		}
	}
	grow(4000)
	check("before the first summary")
	tidy(t, s)
	check("summarised")
	grow(50)
	check("with new results")
	tidy(t, s)
	tidy(t, s)
	check("summarised again")

	reader.many = 150
	of := Span{"mean", "a", hour(8), hour(7), 150}
	if got, want := points(t, reader, of), oracle(all, of, time.Minute); !samePoints(got, want) {
		t.Errorf("of many results: got %d points, want %d", len(got), len(want))
	}
	reader.many = manyResults

	few := Span{"mean", "a", hour(8), hour(0), MostPoints}
	got := points(t, reader, few)
	if n := len(oracle(all, few, 1)); len(got) < n || !slices.IsSortedFunc(got, func(a, b Point) int {
		return a.Start.Compare(b.Start)
	}) || got[0].Count != 1 || got[0].End.Sub(got[0].Start) != 10*time.Second {
		t.Errorf("%d points for %d windows: %+v", len(got), n, got[0])
	}
	for _, q := range []Span{{From: hour(1), To: hour(0)}, {From: hour(0), To: hour(0), Most: 1},
		{From: hour(1), To: hour(0), Most: MostPoints + 1}} {
		if _, err := reader.Points(t.Context(), q); !errors.Is(err, ErrSpan) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// Summaries stay when their results are gone, for as long as their tier says; what was not
// summarised yet is not removed.
func TestTiersOutliveResults(t *testing.T) { testTiersOutliveResults(t, history(t.TempDir())) }

func testTiersOutliveResults(t *testing.T, h config.History) {
	h.Keep = time.Hour
	h.Tiers = []config.Tier{{Every: time.Minute, Keep: 24 * time.Hour}, {Every: time.Hour, Keep: 1000 * time.Hour}}
	s := open(t, h, false)
	var all []*keyholder.Result
	for n := range 200 {
		all = append(all, result("mean", n, at(hour(50-n/4).Add(time.Duration(n%4)*time.Second), float64(n))))
	}
	add(t, s, all...)
	tidy(t, s)
	if n := len(programs(t, s)); n > 8 {
		t.Errorf("%d results are left", n)
	}
	long := Span{"mean", "", hour(60), hour(0), 60}
	if got, want := points(t, s, long), oracle(all, long, time.Hour); !samePoints(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	short := Span{"mean", "", hour(10), hour(9), 1000}
	if got, want := points(t, s, short), oracle(all, short, time.Minute); !samePoints(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	count := func(every time.Duration) (n int) {
		if err := s.db.QueryRow(s.base.bind("SELECT count(*) FROM summaries WHERE every_ns = ?"), int64(every)).
			Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if m, o := count(time.Minute), count(time.Hour); m < 20 || m > 26 || o != 50 {
		t.Errorf("%d minutes, %d hours", m, o)
	}

	// A tier that goes takes its summaries along; one that comes gets the results that are left.
	s.o.History.Tiers = []config.Tier{{Every: 2 * time.Minute, Keep: day * 300}, {Every: time.Hour, Keep: day * 300}}
	left := len(programs(t, s))
	tidy(t, s)
	m, two, o := count(time.Minute), count(2*time.Minute), count(time.Hour)
	if m != 0 || two == 0 || two > left || o != 50 {
		t.Errorf("%d, %d of two minutes, %d hours, %d results", m, two, o, left)
	}
}

// Summaries take half of the room at most.
func TestSummariesByBytes(t *testing.T) {
	h := history(testenv.QuickDir(t))
	h.KeepBytes = config.MiB
	h.Tiers = []config.Tier{{Every: time.Second, Keep: 10000 * time.Hour}}
	s := open(t, h, false)
	for n := range 4000 {
		add(t, s, result("mean", n, at(hour(2000-n/4).Add(time.Duration(n%4)*time.Second), 1)))
	}
	tidy(t, s)
	size, err := s.base.size(t.Context(), s.db)
	summaries, err2 := s.between(t.Context(), "summaries")
	results, err3 := s.between(t.Context(), "results")
	if err = errors.Join(err, err2, err3); err != nil || size > int64(config.MiB) || results < 500 ||
		summaries < 2000 || summaries*summaryBytes > int64(config.MiB)*6/10 {
		t.Errorf("%d bytes, %d results, %d summaries: %v", size, results, summaries, err)
	}
	t.Logf("%d results and %d summaries in %d bytes", results, summaries, size)
}

// Series have the newest window of each program and device, also of a database of the first
// version, and after results are gone.
func TestSeries(t *testing.T) {
	h := history(t.TempDir())
	newest := migrations
	migrations = newest[:1]
	t.Cleanup(func() { migrations = newest })
	first := &sqlite{path: h.File}
	db, err := first.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, v := range []int{1, 3, 2} {
		r := result("mean", v, func(r *keyholder.Result) { r.Device, r.Unit = "a", []string{"x", "K", "y"}[n] })
		if _, err := db.Exec(insertSQL, encode(r)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.close(db); err != nil {
		t.Fatal(err)
	}
	migrations = newest
	s := open(t, h, false)
	none := func(r *keyholder.Result) { r.Values, r.Bound = []float64{math.NaN()}, math.NaN() }
	add(t, s, result("max", 5, none), result("mean", 9), result("mean", 8))
	got, err := s.Series(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if v := got[0]; v.Program != "max" || !math.IsNaN(v.Value) || !math.IsNaN(v.Bound) {
		t.Errorf("%+v", v)
	}
	want := Series{"mean", "a", "cloud", "K", noon.Add(3 * time.Minute), noon.Add(4 * time.Minute), 60, 3, 1e-3, 2}
	if got[2] != want {
		t.Errorf("%+v, want %+v", got[2], want)
	}
	if v := got[1]; v.Device != "" || v.Value != 9 {
		t.Errorf("%+v", v)
	}
}

// Pages hold each result of a query once, in both directions; arrivals come in their order.
func TestPages(t *testing.T) { testPages(t, history(t.TempDir())) }

func testPages(t *testing.T, h config.History) {
	s := open(t, h, false)
	for n := range 25 {
		add(t, s, result("mean", n, func(r *keyholder.Result) {
			r.Start = noon.Add(time.Duration(n*7%5) * time.Minute)
		}))
	}
	read := func(q Query) (out []Row) {
		t.Helper()
		if err := s.Rows(t.Context(), q, func(r Row) error { out = append(out, r); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := read(Query{})
	for _, forward := range []bool{true, false} {
		var got []Row
		q := Query{Programs: []string{"mean"}, Limit: 7}
		if forward {
			q.After = &Position{}
		}
		for page := read(q); len(page) > 0; page = read(q) {
			if forward {
				got, q.After = append(got, page...), page[len(page)-1].Position()
			} else {
				got, q.Before = append(page, got...), page[0].Position()
			}
		}
		if !slices.EqualFunc(got, all, func(a, b Row) bool { return a.ID == b.ID }) || len(all) != 25 {
			t.Errorf("forward %v: %v of %v", forward, got, all)
		}
	}
	var ids []int64
	if err := s.Arrived(t.Context(), 3, 4, func(r Row) error { ids = append(ids, r.ID); return nil }); err != nil ||
		!slices.Equal(ids, []int64{4, 5, 6, 7}) {
		t.Error(ids, err)
	}
}
