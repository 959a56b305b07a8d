//go:build !evaluatoronly

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// modelData are the models of evaluator/model, with held-out rows and what the libraries said of them.
const modelData = "../../evaluator/model/testdata"

// modelGrids are the sensors of evaluator/model/testdata/make.py: their lowest reading and their resolution.
var modelGrids = [][2]float64{
	{-40, 0.0625}, {0, 0.001}, {300, 0.02}, {-20, 0.001}, {0, 0.1}, {0, 1}, {30, 0.05}, {180, 0.01},
}

// modelFile returns an unpacked file of modelData, without spaces at its ends: of the names that with the first ending
// that there is.
func modelFile(name string, endings ...string) (string, error) {
	var b []byte
	err := os.ErrNotExist
	for _, ending := range endings {
		if b, err = os.ReadFile(filepath.Join(modelData, name+ending+".gz")); err == nil {
			break
		}
	}
	if err != nil {
		return "", err
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	b, err = io.ReadAll(r)
	return strings.TrimSpace(string(b)), err
}

// unpackModel is "trees NAME FILE": an exported model.
func unpackModel(ts *testscript.TestScript, _ bool, args []string) {
	text, err := modelFile(args[0], ".json", ".txt")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

// modelRows is "rows N FILE": the first held-out rows as readings, a second apart.
func modelRows(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	text, err := modelFile("rows", ".csv")
	ts.Check(err)
	lines := strings.Split(text, "\n")
	out := "t," + lines[0] + "\n"
	for i, line := range lines[1 : n+1] {
		out += time.Unix(1_767_225_600+int64(i), 0).UTC().Format(time.RFC3339)
		for k, word := range strings.Split(line, ",") {
			step, err := strconv.Atoi(word)
			ts.Check(err)
			g := modelGrids[k]
			out += "," + strconv.FormatFloat(math.Round((g[0]+g[1]*float64(step))*1e4)/1e4, 'f', -1, 64)
		}
		out += "\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out), 0o644))
}

// countRows is "counts N FILE NAME COLUMN...": the first held-out rows of a model of counts, a second apart, under
// these names of columns.
func countRows(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	text, err := modelFile(args[2], ".rows.tsv")
	ts.Check(err)
	out := "t," + strings.Join(args[3:], ",") + "\n"
	for i, line := range strings.Split(text, "\n")[:n] {
		out += time.Unix(1_767_225_600+int64(i), 0).UTC().Format(time.RFC3339) + "," +
			strings.Join(strings.Fields(line), ",") + "\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out), 0o644))
}

// modelAgrees is "agrees OUTPUT PROGRAM NAME COLUMN WITHIN": the values of a program's results, in the order of their
// windows, are those of the model's answers from a column on, each within a distance.
func modelAgrees(ts *testscript.TestScript, _ bool, args []string) {
	text, err := modelFile(args[2], ".answers.csv", ".answers.tsv")
	ts.Check(err)
	answers := strings.Split(text, "\n")
	column, err := strconv.Atoi(args[3])
	ts.Check(err)
	within, err := strconv.ParseFloat(args[4], 64)
	ts.Check(err)
	type result struct {
		Program string    `json:"program"`
		Start   time.Time `json:"start"`
		Values  []float64 `json:"values"`
	}
	var got []result
	for lines := bufio.NewScanner(strings.NewReader(readFile(ts, args[0]))); lines.Scan(); {
		var r result
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Program == args[1] {
			got = append(got, r)
		}
	}
	slices.SortFunc(got, func(a, b result) int { return a.Start.Compare(b.Start) })
	if len(got) == 0 {
		ts.Fatalf("%s has no result in %s", args[1], args[0])
	}
	for i, r := range got {
		words := strings.Split(answers[i], ",")[column:]
		if len(r.Values) == 0 {
			ts.Fatalf("%s, row %d: the result has no values", args[1], i)
		}
		for k, v := range r.Values {
			want, err := strconv.ParseFloat(words[k], 64)
			ts.Check(err)
			if math.Abs(v-want) > within {
				ts.Fatalf("%s, row %d: value %d is %v, the library says %v", args[1], i, k, v, want)
			}
		}
	}
	ts.Logf("%s", fmt.Sprintf("%d results of %s agree", len(got), args[1]))
}

// TestModels runs models of scikit-learn, XGBoost and LightGBM, and a private comparison, through all roles.
// CUTRANTT_TEST_BACKEND=cuda evaluates them on a GPU.
func TestModels(t *testing.T) {
	s := &services{all: map[string]*service{}}
	cmds := s.commands()
	cmds["trees"], cmds["rows"], cmds["counts"], cmds["agrees"] = unpackModel, modelRows, countRows, modelAgrees
	cmds["heights"], cmds["lower"] = writeHeights, lowerAgrees
	testscript.Run(t, testscript.Params{Dir: filepath.Join("testdata", "model"), RequireExplicitExec: true, Cmds: cmds,
		Setup: func(e *testscript.Env) error {
			e.Setenv("BACKEND", cmp.Or(os.Getenv("CUTRANTT_TEST_BACKEND"), "cpu"))
			return nil
		}})
}
