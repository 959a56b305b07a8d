package evaluator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
)

// joinRig is a joiner for one program on stream time of two devices.
func joinRig(t *testing.T, expr string, depth int, lost func(*window)) *joiner {
	t.Helper()
	plan, err := Check(testConfig(t, config.Program{Name: "p", Expr: expr,
		Inputs: map[string]string{"x": "d1/time/temp", "y": "d2/time/temp"}}))
	if err != nil {
		t.Fatal(err)
	}
	return newJoiner(depth, time.Minute, []*runnable{{served: &served{planned: &plan.Programs[0]}}}, lost)
}

func at(device string, n int64, arrived time.Time) *window {
	return &window{stream: streamID{device, "time"}, place: place{n: n}, at: arrived}
}

// TestJoinAnyOrder: each place is given out exactly once, as soon as all its
// windows are there, in whatever order they come.
func TestJoinAnyOrder(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		j := joinRig(t, "mean(x) + mean(prev(x)) - mean(lag(y, 2))", 64, nil)
		var all []*window
		for n := range int64(12) {
			all = append(all, at("d1", n, epoch), at("d2", n, epoch))
		}
		rng.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		got := map[int64]int{}
		for _, w := range all {
			jobs, err := j.add(w)
			if err != nil {
				t.Fatal(err)
			}
			for _, jb := range jobs {
				got[jb.place.n]++
				for in, w := range jb.inputs {
					if w.place.n != jb.place.n-int64(in.Lag) || w.stream.device != in.Device {
						t.Fatalf("place %d: input %s is window %d of %s", jb.place.n, in, w.place.n, w.stream.device)
					}
				}
			}
		}
		for n := range int64(14) {
			want := 0
			if n >= 2 && n <= 11 { // 12 and 13 would need x at 12
				want = 1
			}
			if got[n] != want {
				t.Fatalf("seed %d: place %d came %d times, want %d (%v)", seed, n, got[n], want, got)
			}
		}
	}
}

func TestJoinIsBounded(t *testing.T) {
	var gone []int64
	j := joinRig(t, "mean(x) - mean(prev(y))", 3, func(w *window) { gone = append(gone, w.place.n) })
	for n := range int64(10) {
		if _, err := j.add(at("d1", n, epoch)); err != nil {
			t.Fatal(err)
		}
	}
	if h := j.streams[streamID{"d1", "time"}]; h.order.Len() != 3 || len(h.byPlace) != 3 {
		t.Errorf("%d windows are kept, want 3", h.order.Len())
	}
	if !slices.Equal(gone, []int64{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("left unused: %v", gone)
	}
	for n := range int64(10) {
		if _, err := j.add(at("d2", n, epoch)); err != nil {
			t.Fatal(err)
		}
	}
	// y6..y8 were used with x7..x9 and are gone; of the others the newest 4 stay.
	if h := j.streams[streamID{"d2", "time"}]; h.order.Len() > 4 {
		t.Errorf("%d windows are kept, want at most 4", h.order.Len())
	}
}

func TestJoinExpires(t *testing.T) {
	var gone []string
	j := joinRig(t, "mean(x) - mean(prev(y))", 16, func(w *window) {
		gone = append(gone, fmt.Sprint(w.stream.device, w.place.n))
	})
	for n := range int64(3) {
		for _, d := range []string{"d1", "d2"} {
			if _, err := j.add(at(d, n, epoch)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Pairs (x1,y0) and (x2,y1) are done with; x0 waits for y-1, y2 for x3.
	if a, b := j.streams[streamID{"d1", "time"}].order.Len(), j.streams[streamID{"d2", "time"}].order.Len(); a != 1 ||
		b != 1 {
		t.Errorf("%d and %d windows are kept, want 1 and 1", a, b)
	}
	j.expire(epoch.Add(59 * time.Second))
	if len(gone) > 0 {
		t.Errorf("gone too early: %v", gone)
	}
	j.expire(epoch.Add(time.Minute))
	// x0 never had its y-1; all others were used, and y2 may still be looked back at.
	if !slices.Equal(gone, []string{"d10"}) {
		t.Errorf("left unused: %v", gone)
	}
	if jobs, _ := j.add(at("d1", 3, epoch.Add(2*time.Minute))); len(jobs) != 1 {
		t.Errorf("%d results after expiry, want the one that looks back", len(jobs))
	}
}

// TestJoinParts: windows of one interval, each with other samples, are joined part by
// part, in the order in which they come, also after the first part has left.
func TestJoinParts(t *testing.T) {
	j := joinRig(t, "mean(x) - mean(y)", 16, nil)
	add := func(device string) (w *window, jobs []*job) {
		t.Helper()
		w = at(device, 5, epoch)
		w.byTime = true
		jobs, err := j.add(w)
		if err != nil {
			t.Fatal(err)
		}
		return w, jobs
	}
	x0, _ := add("d1")
	x1, _ := add("d1")
	for i, want := range []*window{x0, x1} {
		y, jobs := add("d2")
		if len(jobs) != 1 {
			t.Fatalf("part %d: %d jobs", i, len(jobs))
		}
		for _, w := range jobs[0].inputs {
			if w != want && w != y {
				t.Errorf("part %d: joined with another part", i)
			}
		}
	}
	if _, jobs := add("d1"); len(jobs) != 0 {
		t.Errorf("a third part without a partner: %d jobs", len(jobs))
	}
	if _, jobs := add("d2"); len(jobs) != 1 {
		t.Errorf("and with one: %d jobs", len(jobs))
	}
}

func TestJoinDuplicates(t *testing.T) {
	j := joinRig(t, "mean(x) - mean(y)", 16, nil)
	first := at("d1", 5, epoch)
	if _, err := j.add(first); err != nil {
		t.Fatal(err)
	}
	if _, err := j.add(at("d1", 5, epoch)); !errors.Is(err, ErrDuplicate) {
		t.Errorf("second window for a place: %v", err)
	}
	jobs, err := j.add(at("d2", 5, epoch))
	for _, d := range []string{"d1", "d2"} { // also when the first has left
		if _, err := j.add(at(d, 5, epoch)); !errors.Is(err, ErrDuplicate) {
			t.Errorf("third window for a place: %v", err)
		}
	}
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for in, w := range jobs[0].inputs {
		if in.Device == "d1" && w != first {
			t.Error("the second window replaced the first")
		}
	}
}

// A set of places forgets the oldest, however many it holds.
func TestRecent(t *testing.T) {
	for _, limit := range []int{1, 2, fewPlaces - 1, fewPlaces, fewPlaces + 1, 5 * fewPlaces} {
		r := newRecent(limit)
		for n := range int64(3 * limit) {
			if r.has(place{1, n, 0}) {
				t.Fatalf("limit %d: has %d before it came", limit, n)
			}
			r.add(place{1, n, 0})
			for old := range n + 1 {
				if got, want := r.has(place{1, old, 0}), n-old < int64(limit); got != want {
					t.Fatalf("limit %d, %d added: has %d is %t", limit, n+1, old, got)
				}
			}
		}
		if (r.set != nil) != (limit > fewPlaces) {
			t.Errorf("limit %d: a map is %t", limit, r.set != nil)
		}
	}
}

// TestKeptWindows: the estimate counts as many windows as a joiner keeps of streams whose
// windows do not come together, for each device of a class.
func TestKeptWindows(t *testing.T) {
	cfg := placesConfig(t, 0, forPump("change", "mean(x) - mean(lag(x, 3))", map[string]string{"x": "count/temp"}),
		forPump("mean", "mean(x)", map[string]string{"x": "count/temp"}),
		prog("two", "mean(x) - mean(prev(y))", map[string]string{"x": "d1/time/temp", "y": "d1/time/load"}),
		prog("one", "mean(x)", map[string]string{"x": "d1/own/temp"}))
	cfg.Join.Windows = 2
	costs, err := Estimate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	devices := devicesOf(cfg)["pump"]
	if devices < 8 || costs.KeptStreams != int(devices)+1 {
		t.Fatalf("%d streams of %d devices", costs.KeptStreams, devices)
	}
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := served{planned: &plan.Programs[0]}
	j := newJoiner(2, time.Minute, nil, nil)
	j.class = func(string) string { return "pump" }
	j.instances = func(_, device string) []*runnable { return []*runnable{{served: &s, device: device}} }
	id := streamID{"q1", "count"}
	for n := range int64(20) { // of which none completes another
		if _, err := j.add(&window{stream: id, place: place{n: 10 * n}, at: epoch}); err != nil {
			t.Fatal(err)
		}
	}
	kept := int64(j.streams[id].order.Len())
	if want := costs.Kept / plan.Programs[3].windowBytes(); kept != 5 || want != kept*devices+3 {
		t.Errorf("%d windows are kept of a stream, the estimate has %d of all", kept, want)
	}
}
