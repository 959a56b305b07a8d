//go:build !evaluatoronly

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/keyholder/alert"
)

// The readings of testdata/alerts.txtar: a temperature once a second, from this time on, in
// windows of four.
var readingsFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const readingsWindow = 4

// makeReadings is "readings FILE WINDOWS": a CSV of temperatures. The mean of each window is a
// multiple of 2.5, and so sometimes the very threshold 80 or 75, which no encrypted mean can
// be told from.
func makeReadings(ts *testscript.TestScript, _ bool, args []string) {
	windows, err := strconv.Atoi(args[1])
	ts.Check(err)
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("t,v\n")
	mean := 77.5
	for i := range windows {
		mean = min(max(mean+2.5*float64(rng.IntN(3)-1), 70), 87.5)
		for k, off := range []float64{-3, 1, 3.5, -1.5} {
			at := readingsFrom.Add(time.Duration(readingsWindow*i+k) * time.Second)
			fmt.Fprintf(&b, "%s,%g\n", at.Format(time.RFC3339), mean+off)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o644))
}

// plainMeans returns the means of the windows of a CSV of readings.
func plainMeans(ts *testscript.TestScript, name string) (out []float64) {
	lines := strings.Fields(readFile(ts, name))[1:]
	for window := range slices.Chunk(lines, readingsWindow) {
		sum := 0.0
		for _, line := range window {
			_, text, _ := strings.Cut(line, ",")
			v, err := strconv.ParseFloat(text, 64)
			ts.Check(err)
			sum += v
		}
		out = append(out, sum/readingsWindow)
	}
	return out
}

// plainAlarms returns the events of the rules of testdata/alerts.txtar, computed from plain
// means, as "hot firing 12" for window 12, and how many windows are undecided for each: those
// no further than bound from the threshold.
func plainAlarms(means []float64, bound float64) (events []string, undecided map[string]int) {
	undecided = map[string]int{}
	near := func(m, threshold float64) bool { return math.Abs(m-threshold) <= bound }
	var hot, cold bool
	var above, below int
	for i, m := range means {
		switch { // value > 80 for 3, clear: value < 75
		case !hot && near(m, 80), hot && near(m, 75):
			undecided["hot"]++
		case !hot && m > 80:
			if above++; above == 3 {
				hot, above = true, 0
				events = append(events, fmt.Sprintf("hot firing %d", i))
			}
		case hot && m < 75:
			hot = false
			events = append(events, fmt.Sprintf("hot resolved %d", i))
		case !hot:
			above = 0
		}
		if near(m, 75) { // value < 75, clear_for: 2, and what is undecided raises
			undecided["cold"]++
		}
		switch {
		case !cold && (m < 75 || near(m, 75)):
			cold, below = true, 0
			events = append(events, fmt.Sprintf("cold firing %d", i))
		case cold && (m < 75 || near(m, 75)):
			below = 0
		case cold:
			if below++; below == 2 {
				cold = false
				events = append(events, fmt.Sprintf("cold resolved %d", i))
			}
		}
	}
	return events, undecided
}

// compareAlarms is "alarms READINGS EVENTS REPORT": the events that a receiver got, one JSON
// object a line, are those of the plain readings; those that came again count once. REPORT is
// what "results alerts list --json" says in the end.
func compareAlarms(ts *testscript.TestScript, _ bool, args []string) {
	means := plainMeans(ts, args[0])
	got, numbers := []string(nil), map[string]uint64{}
	ids, bound := map[string]bool{}, 0.0
	for line := range strings.Lines(readFile(ts, args[1])) {
		var e alert.Event
		ts.Check(json.Unmarshal([]byte(line), &e))
		if ids[e.ID] {
			continue
		}
		ids[e.ID] = true
		if numbers[e.Alert]++; e.Number != numbers[e.Alert] {
			ts.Fatalf("event %d of %s comes in place of %d", e.Number, e.Alert, numbers[e.Alert])
		}
		window := int(e.End.Sub(readingsFrom)/time.Second) / readingsWindow
		if rest := e.End.Sub(readingsFrom) % (readingsWindow * time.Second); rest == 0 {
			window-- // the end is the next window's begin
		}
		if d := *e.Value - means[window]; d > e.Bound || d < -e.Bound || e.Bound > 0.5 {
			ts.Fatalf("%s in window %d: %g +/- %g, the mean is %g", e.Alert, window, *e.Value, e.Bound, means[window])
		}
		bound = e.Bound
		got = append(got, fmt.Sprintf("%s %s %d", e.Alert, e.State, window))
	}
	want, undecided := plainAlarms(means, bound)
	var report alert.Report
	ts.Check(json.Unmarshal([]byte(readFile(ts, args[2])), &report))
	listed := map[string]int{}
	for _, s := range report.Alerts {
		listed[s.Alert] = s.Unclear
	}
	for _, rule := range []string{"hot", "cold"} {
		only := func(list []string) []string {
			return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.HasPrefix(s, rule+" ") })
		}
		if a, b := only(got), only(want); !slices.Equal(a, b) || len(b) < 4 {
			ts.Fatalf("%s: got %q, the plain readings give %q", rule, a, b)
		}
		if undecided[rule] < 2 || listed[rule] != undecided[rule] {
			ts.Fatalf("%s: %d windows are listed as undecided, want %d", rule, listed[rule], undecided[rule])
		}
	}
	ts.Logf("%d events, bound %g, undecided %v", len(got), bound, undecided)
}
