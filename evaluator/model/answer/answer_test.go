package answer_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/internal/testenv"
)

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

func unpack(t testing.TB, name string) []byte { return testenv.Unpack(t, "../testdata/"+name) }

var sensors = []string{"temperature", "vibration", "pressure", "current", "humidity", "speed", "acoustic", "voltage"}

// options are for the machine of ../testdata/make.py with its channels in the other order, behind one that no model
// reads.
func options(t testing.TB) answer.Options {
	t.Helper()
	o := answer.Options{File: "trees.json", Scale: 1 << 16, Slots: 8192, T: 65537, Columns: map[string]int{}}
	grid := func(low, step float64, top int) {
		o.Grids = append(o.Grids, must(model.NewGrid(low, step, top))(t))
	}
	grids := [][3]float64{{-40, 0.0625, 2600}, {0, 0.001, 60000}, {300, 0.02, 40000}, {-20, 0.001, 40000}, {0, 0.1,
		1000},
		{0, 1, 6000}, {30, 0.05, 2000}, {180, 0.01, 8000}}
	o.Channels = []string{"idle"}
	grid(0, 1, 7)
	for i := len(sensors) - 1; i >= 0; i-- {
		o.Columns[sensors[i]] = len(o.Channels)
		o.Channels = append(o.Channels, sensors[i])
		grid(grids[i][0], grids[i][1], int(grids[i][2]))
	}
	return o
}

// row returns a held-out row in the order of options.
func row(t testing.TB, line string) []int {
	t.Helper()
	out := []int{3}
	for _, word := range strings.Split(line, ",") {
		out = append(out, must(strconv.Atoi(word))(t))
	}
	slices.Reverse(out[1:])
	return out
}

// TestValues: the values of every held-out row are what the library says. Sums come from walking through the trees.
func TestValues(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(string(unpack(t, "rows.csv.gz"))), "\n")[1:]
	for _, c := range []struct {
		name, answer string
		column       int // of the library's answers; -1: the class of the largest
	}{
		{"sklearn-tree", "", 0}, {"sklearn-tree", answer.Score, 1}, {"sklearn-forest", answer.Class, 0},
		{"sklearn-forest", answer.Score, 1}, {"sklearn-life", "", 0}, {"xgboost-alarm", answer.Score, 0},
		{"xgboost-state", "", 0}, {"xgboost-counts", "", 0},
	} {
		o := options(t)
		o.Answer = c.answer
		content := unpack(t, c.name+".json.gz")
		m, plan := read(t, content, o)
		whole := forest(t, content, o, m)
		lines := strings.Split(strings.TrimSpace(string(unpack(t, c.name+".answers.csv.gz"))), "\n")
		if m.Shape() != plan.Shape() || m.Count() > m.Outputs {
			t.Errorf("%s: %+v is not of the plan", c.name, m)
		}
		for i := range rows {
			got := m.Of(must(whole.Whole(row(t, rows[i])))(t))
			words := strings.Split(lines[i], ",")[c.column:]
			for k, v := range got {
				want := must(strconv.ParseFloat(words[k], 64))(t)
				near := m.Promise() + 1e-5*math.Abs(want) // the library adds 32-bit floats
				if low, high := m.Range(); math.Abs(v-want) > near || v < low-near || v > high+near {
					t.Fatalf("%s, row %d: %v of %g to %g, the library says %v", c.name, i, v, low, high, want)
				}
			}
		}
	}
}

func read(t testing.TB, content []byte, o answer.Options) (*answer.Model, *rangecover.Plan) {
	t.Helper()
	m, plan, err := answer.Read(content, o)
	if err != nil {
		t.Fatal(err)
	}
	return m, plan
}

// forest is what the plan of a description is made of.
func forest(t testing.TB, content []byte, o answer.Options, m *answer.Model) *model.Forest {
	t.Helper()
	trees := must(model.Read(bytes.NewReader(content)))(t)
	scale := float64(o.Scale)
	if m.Decided {
		trees, scale = must(trees.Decided())(t), 1
	}
	var of []int
	for _, name := range m.Features {
		of = append(of, o.Columns[name])
	}
	return must(trees.On(o.Channels, of).Quantise(o.Grids, scale))(t)
}

// TestBody: a plan's results, cut out of a body, give the library's class, and nothing else is taken for one.
func TestBody(t *testing.T) {
	o := options(t)
	m, plan := read(t, unpack(t, "sklearn-tree.json.gz"), o)
	line := strings.Split(string(unpack(t, "rows.csv.gz")), "\n")[1]
	plain := must(plan.NewPlain(must(plan.Code.Bits(row(t, line)))(t)))(t)
	results := must(rangecover.Run(plan, plain, rand.Reader, 2))(t)
	want, _, _ := strings.Cut(string(unpack(t, "sklearn-tree.answers.csv.gz")), ",")
	if got := m.Values(results); len(got) != 1 || strconv.FormatFloat(got[0], 'g', -1, 64) != want {
		t.Errorf("class %v, scikit-learn says %s", got, want)
	}
	at := slices.IndexFunc(results, func(r rangecover.Result[[]uint64]) bool { return slices.Contains(r.Test, 0) })
	others := slices.Delete(slices.Clone(results), at, at+1) // without the row's leaf
	for _, bad := range [][]rangecover.Result[[]uint64]{nil, others, append(results[at:at+1:at+1], results...)} {
		if got := m.Values(bad); len(got) != 1 || got[0] != math.MaxFloat64 {
			t.Errorf("%d of %d blocks give %v", len(bad), len(results), got)
		}
	}
	body := append(answer.Begin(nil, 6), "AaaBbbCccDddEeeFff"...)
	cut := must(m.Cut(body))(t)
	if len(cut) != 3 || string(cut[0].Test) != "Aaa" || string(cut[2].Values[0]) != "Fff" {
		t.Errorf("cut into %q", cut)
	}
	for _, bad := range [][]byte{nil, body[:4], body[:11], append(answer.Begin(nil, 0), "x"...),
		append(answer.Begin(nil, 5), "12345"...), append(answer.Begin(nil, 6), "12345"...),
		append(answer.Begin(nil, math.MaxUint32), "1234"...)} {
		if _, err := m.Cut(bad); !errors.Is(err, answer.ErrModel) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestRefused: files and inputs that do not go together name what to do.
func TestRefused(t *testing.T) {
	tree := unpack(t, "sklearn-tree.json.gz")
	for what, c := range map[string]struct {
		content []byte
		change  func(*answer.Options)
		want    string
	}{
		"no model": {[]byte("{}"), func(*answer.Options) {}, "export the model"},
		"a missing input": {tree, func(o *answer.Options) { delete(o.Columns, "speed") },
			`"speed" is none of the inputs`},
		"one too many": {tree, func(o *answer.Options) { o.Columns["more"] = 0 },
			`"more" is none of its features`},
		"too few names": {tree, func(o *answer.Options) { o.Features = sensors[1:] },
			"names 7 columns, the model has 8"},
		"a name twice": {tree, func(o *answer.Options) { o.Features = slices.Repeat(sensors[:1], 8) },
			`two of its features`},
		"a class of none": {unpack(t, "sklearn-life.json.gz"), func(o *answer.Options) { o.Answer = answer.Class },
			"write answer: score"},
		"too few slots": {tree, func(o *answer.Options) { o.Slots = 256 }, "coarser grids"},
		"a scale of fevers": {unpack(t, "sklearn-life.json.gz"), func(o *answer.Options) { o.Scale = 1 << 62 },
			"smaller scale"},
	} {
		o := options(t)
		c.change(&o)
		if _, _, err := answer.Read(c.content, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAppend: each field of a description, and the file, are in what a program's hash covers.
func TestAppend(t *testing.T) {
	o := options(t)
	tree := unpack(t, "sklearn-tree.json.gz")
	m, _ := read(t, tree, o)
	same, _ := read(t, tree, o)
	if !bytes.Equal(m.Append(nil), same.Append(nil)) {
		t.Error("the same file has two forms")
	}
	space, _ := read(t, append(tree, ' '), o)
	if space.SHA256 == m.SHA256 || bytes.Equal(m.Append(nil), space.Append(nil)) {
		t.Error("another file has the same form")
	}
	seen := map[string]bool{string(m.Append(nil)): true}
	for _, change := range []func(*answer.Model){
		func(m *answer.Model) { m.File = "x" }, func(m *answer.Model) { m.Source = "x" },
		func(m *answer.Model) { m.Answer = answer.Score }, func(m *answer.Model) { m.Features = m.Features[1:] },
		func(m *answer.Model) { m.Classes = nil }, func(m *answer.Model) { m.Link = "exp" },
		func(m *answer.Model) { m.Decided = false }, func(m *answer.Model) { m.Splits++ },
		func(m *answer.Model) { m.Trees++ }, func(m *answer.Model) { m.Outputs++ }, func(m *answer.Model) { m.Words++ },
		func(m *answer.Model) { m.Bits++ }, func(m *answer.Model) { m.Divisor++ }, func(m *answer.Model) { m.Error++ },
		func(m *answer.Model) { m.Bound++ },
	} {
		other := *m
		change(&other)
		if text := string(other.Append(nil)); seen[text] {
			t.Errorf("%+v has the form of another", other)
		} else {
			seen[text] = true
		}
	}
}

// FuzzModel: no description and no body panics, and what Check accepts has finite values.
func FuzzModel(f *testing.F) {
	for _, name := range []string{"sklearn-tree", "xgboost-counts", "xgboost-state", "sklearn-life-tree"} {
		m, _ := read(f, unpack(f, name+".json.gz"), options(f))
		f.Add(must(json.Marshal(m))(f), append(answer.Begin(nil, 6), "AaaBbbCccDddEeeFff"...), int64(3), uint64(0))
		f.Add(must(json.Marshal(m))(f), answer.Begin(nil, math.MaxUint32), int64(math.MinInt64), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text, body []byte, sum int64, slot uint64) {
		var m answer.Model
		if json.Unmarshal(text, &m) != nil || m.Check() != nil {
			return
		}
		_, _ = m.Append(nil), m.Legend()+m.Learned()+m.Text()
		low, high := m.Range()
		values := m.Of(slices.Repeat([]int64{sum}, m.Outputs))
		blocks, err := m.Cut(body)
		if err == nil {
			n := 0
			for _, b := range blocks {
				n += len(b.Test)
				for _, v := range b.Values {
					n += len(v)
				}
			}
			if n != len(body)-answer.BodyRoom {
				t.Fatalf("%d of %d bytes", n, len(body))
			}
			opened := make([]rangecover.Result[[]uint64], len(blocks))
			for i := range opened {
				opened[i].Test = []uint64{slot}
				for range blocks[i].Values {
					opened[i].Values = append(opened[i].Values, []uint64{slot})
				}
			}
			values = append(values, m.Values(opened)...)
		}
		for _, v := range append(values, low, high, m.Promise()) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%v of %+v", v, m)
			}
		}
	})
}
