//go:build !evaluatoronly

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// writeHeights is "heights N FILE FILE": N readings of two boards in millimetres, 5 s apart. Some are equal, some a
// millimetre apart, some less than that, and some at the ends of the range or beyond.
func writeHeights(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	pairs := [][2]float64{{1, 2}, {2, 1}, {3, 3}, {0, 4}, {4, 0}, {1.999, 2}, {2, 1.999}, {1.0004, 0.9996}, {0, 0},
		{4, 4}, {5, 4}, {-1, 0}, {2.047, 2.048}, {0.255, 0.256}, {3.9994, 3.9996}}
	var out [2]strings.Builder
	for i := range out {
		out[i].WriteString("t,height\n")
	}
	for i := range n {
		at := time.Unix(1_767_225_600+5*int64(i), 0).UTC().Format(time.RFC3339)
		for k := range out {
			fmt.Fprintf(&out[k], "%s,%g\n", at, pairs[i*7%len(pairs)][k])
		}
	}
	for k := range out {
		ts.Check(os.WriteFile(ts.MkAbs(args[1+k]), []byte(out[k].String()), 0o644))
	}
}

// heights reads a file of writeHeights as whole millimetres from 0 to 4000.
func heights(ts *testscript.TestScript, name string) (out []int) {
	for _, line := range strings.Split(strings.TrimSpace(readFile(ts, name)), "\n")[1:] {
		_, word, _ := strings.Cut(line, ",")
		x, err := strconv.ParseFloat(word, 64)
		ts.Check(err)
		out = append(out, int(math.Round(min(max(x, 0), 4)*1000)))
	}
	return out
}

// lowerAgrees is "lower OUTPUT PROGRAM FILE FILE N": the values of N results, in the order of their windows, say for
// each reading whether that of the first file is below that of the second.
func lowerAgrees(ts *testscript.TestScript, _ bool, args []string) {
	type result struct {
		Program string    `json:"program"`
		Start   time.Time `json:"start"`
		Samples int       `json:"samples"`
		Values  []float64 `json:"values"`
		Bound   float64   `json:"bound"`
	}
	var got []result
	for lines := bufio.NewScanner(strings.NewReader(readFile(ts, args[0]))); lines.Scan(); {
		var r result
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Program == args[1] {
			got = append(got, r)
		}
	}
	if fmt.Sprint(len(got)) != args[4] {
		ts.Fatalf("%d results, want %s", len(got), args[4])
	}
	slices.SortFunc(got, func(a, b result) int { return a.Start.Compare(b.Start) })
	one, two := heights(ts, args[2]), heights(ts, args[3])
	var values []float64
	for i, r := range got {
		if r.Bound != 0 || r.Samples != len(r.Values) {
			ts.Fatalf("result %d: %+v", i, r)
		}
		values = append(values, r.Values...)
	}
	if len(values) != len(one) {
		ts.Fatalf("%d values, want %d", len(values), len(one))
	}
	for i, v := range values {
		if want := one[i] < two[i]; v != 0 && v != 1 || (v == 1) != want {
			ts.Fatalf("reading %d: %d mm < %d mm is %v", i, one[i], two[i], v)
		}
	}
}
