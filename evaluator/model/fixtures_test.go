package model_test

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/internal/testenv"
)

// fixture is a model of a real library, with rows that it was not fitted on and what the library says of them.
type fixture struct {
	name    string
	model   *model.Model
	rows    [][]float64
	scores  [][]float64 // nil where only predictions are known
	predict []string    // the class, or the number that is predicted
}

// sensors returns the grids of the machine that testdata/make.py describes.
func sensors(t testing.TB) []model.Grid {
	t.Helper()
	var out []model.Grid
	for _, s := range []struct {
		low, step float64
		top       int
	}{
		{-40, 0.0625, 2600}, {0, 0.001, 60000}, {300, 0.02, 40000}, {-20, 0.001, 40000},
		{0, 0.1, 1000}, {0, 1, 6000}, {30, 0.05, 2000}, {180, 0.01, 8000},
	} {
		out = append(out, grid(t, s.low, s.step, s.top))
	}
	return out
}

func grid(t testing.TB, low, step float64, top int) model.Grid {
	t.Helper()
	g, err := model.NewGrid(low, step, top)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func unpack(t testing.TB, name string) []byte { return testenv.Unpack(t, "testdata/"+name) }

func read(t testing.TB, name string) *model.Model {
	t.Helper()
	m, err := model.Read(bytes.NewReader(unpack(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// table splits the lines of a file.
func table(t testing.TB, name, separator string) [][]string {
	t.Helper()
	var out [][]string
	for _, line := range strings.Split(strings.TrimSpace(string(unpack(t, name))), "\n") {
		out = append(out, strings.Split(line, separator))
	}
	return out
}

func floats(t testing.TB, words []string) []float64 {
	t.Helper()
	out := make([]float64, len(words))
	for i, w := range words {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = v
	}
	return out
}

// machineRows returns the readings of the 1,000 held-out rows of make.py.
func machineRows(t testing.TB) [][]float64 {
	t.Helper()
	grids := sensors(t)
	var rows [][]float64
	for _, words := range table(t, "rows.csv.gz", ",")[1:] {
		row := floats(t, words)
		for i, g := range grids {
			row[i] = g.Value(int(row[i]))
		}
		rows = append(rows, row)
	}
	return rows
}

var machineModels = []string{
	"sklearn-tree", "sklearn-life-tree", "sklearn-forest", "sklearn-life", "sklearn-boosted", "sklearn-boosted-two",
	"xgboost-alarm", "xgboost-state", "xgboost-life", "xgboost-counts",
}

func machine(t testing.TB, name string) fixture {
	t.Helper()
	f := fixture{name: name, model: read(t, name+".json.gz"), rows: machineRows(t)}
	for _, words := range table(t, name+".answers.csv.gz", ",") {
		f.predict = append(f.predict, words[0])
		f.scores = append(f.scores, floats(t, words[1:]))
	}
	return f
}

// lightgbm returns models that LightGBM made, from the test data of github.com/dmitryikh/leaves.
func lightgbm(t testing.TB) []fixture {
	t.Helper()
	frequency := fixture{name: "lightgbm-frequency", model: read(t, "lightgbm-frequency.txt.gz")}
	for _, words := range table(t, "lightgbm-frequency.rows.tsv.gz", "\t") {
		frequency.rows = append(frequency.rows, floats(t, words))
	}
	for _, words := range table(t, "lightgbm-frequency.answers.tsv.gz", "\t") {
		frequency.predict = append(frequency.predict, words[0])
	}
	multi := fixture{name: "lightgbm-multiclass", model: read(t, "lightgbm-multiclass.txt.gz")}
	for _, words := range table(t, "lightgbm-multiclass.rows.tsv.gz", "\t") {
		multi.rows = append(multi.rows, floats(t, words[1:])) // the first is the label
	}
	for _, words := range table(t, "lightgbm-multiclass.answers.tsv.gz", "\t") {
		scores := floats(t, words)
		multi.scores = append(multi.scores, scores)
		multi.predict = append(multi.predict, strconv.Itoa(model.Class(scores)))
	}
	return []fixture{frequency, multi}
}

// TestLibraries holds the answers to every held-out row against the library's own: scores bit for bit, predictions to
// the last digits of an exponential function.
func TestLibraries(t *testing.T) {
	fixtures := lightgbm(t)
	for _, name := range machineModels {
		fixtures = append(fixtures, machine(t, name))
	}
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			if len(f.rows) < 500 || len(f.predict) != len(f.rows) {
				t.Fatalf("%d rows, %d answers", len(f.rows), len(f.predict))
			}
			distinct := map[string]bool{}
			for i, row := range f.rows {
				scores, err := f.model.Scores(row)
				if err != nil {
					t.Fatal(err)
				}
				if f.scores != nil {
					for o, want := range f.scores[i] {
						if got := scores[o]; got != want && !(f.model.Single && float32(got) == float32(want)) {
							t.Fatalf("row %d: score %d is %.17g, the library says %.17g", i, o, got, want)
						}
					}
				}
				checkPrediction(t, f, i, scores)
				distinct[f.predict[i]] = true
			}
			if len(distinct) < 2 {
				t.Fatal("every row has one answer")
			}
		})
	}
}

func checkPrediction(t *testing.T, f fixture, i int, scores []float64) {
	t.Helper()
	if f.model.Classes != nil && (f.model.Outputs > 1 || strings.HasPrefix(f.model.Source, "scikit")) {
		if got := f.model.Classes[model.Class(scores)]; got != f.predict[i] {
			t.Fatalf("row %d: class %s, the library says %s", i, got, f.predict[i])
		}
		return
	}
	want, err := strconv.ParseFloat(f.predict[i], 64)
	if err != nil {
		t.Fatal(err)
	}
	bound := 1e-14
	if f.model.Single {
		bound = 2e-7
	}
	if got := f.model.Predict(scores)[0]; math.Abs(got-want) > bound*math.Abs(want) {
		t.Fatalf("row %d: %.17g, the library says %.17g", i, got, want)
	}
}
