package encrypted_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/evaluator/model/encrypted"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/steps"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

func unpack(t testing.TB, name string) string {
	return strings.TrimSpace(string(testenv.Unpack(t, "../testdata/"+name)))
}

// grids returns the grids of the machine of ../testdata/make.py.
func grids(t testing.TB) []model.Grid {
	t.Helper()
	var out []model.Grid
	for _, g := range [][3]float64{
		{-40, 0.0625, 2600}, {0, 0.001, 60000}, {300, 0.02, 40000}, {-20, 0.001, 40000}, {0, 0.1, 1000}, {0, 1, 6000},
		{30, 0.05, 2000}, {180, 0.01, 8000},
	} {
		out = append(out, must(model.NewGrid(g[0], g[1], int(g[2])))(t))
	}
	return out
}

// machine reads a model of that machine, quantised, with its held-out rows and the library's
// predictions.
func machine(t testing.TB, name string) (m *model.Model, f *model.Forest, rows [][]int, said []string) {
	t.Helper()
	m = must(model.Read(strings.NewReader(unpack(t, name+".json.gz"))))(t)
	f = must(m.Quantise(grids(t), 1<<16))(t)
	for _, line := range strings.Split(unpack(t, "rows.csv.gz"), "\n")[1:] {
		var row []int
		for _, word := range strings.Split(line, ",") {
			row = append(row, must(strconv.Atoi(word))(t))
		}
		rows = append(rows, row)
	}
	for _, line := range strings.Split(unpack(t, name+".answers.csv.gz"), "\n") {
		word, _, _ := strings.Cut(line, ",")
		said = append(said, word)
	}
	return m, f, rows, said
}

// toy is an insecure set with N = 2^10, as strong in noise as bfv13.
func toy(t testing.TB) bfv.Parameters {
	t.Helper()
	base := must(henc.NewParameters(henc.ParametersLiteral{
		Name: "bfv-toy", LogN: 10, LogScale: 10, Mode: henc.ModeSingle, Depth: 5, Alpha: 2, Insecure: true,
		Integers: true, P: []uint32{1073692673, 1073668097},
		Q: []uint32{1073651713, 1073643521, 1073479681, 1073430529, 1073184769, 1073053697},
	}))(t)
	return must(bfv.NewParameters(base, 0))(t)
}

// rig is a device, an evaluator's keys and a key holder.
type rig struct {
	ctx  *bfv.Context
	enc  *bfv.Encryptor
	dec  *secret.IntegerDecryptor
	keys *henc.EvaluationKeys
}

func newRig(t testing.TB, p bfv.Parameters, code *steps.Code) *rig {
	t.Helper()
	r := &rig{ctx: must(bfv.NewContext(p, henc.WithBackend(backendtest.New(t)), henc.WithN2(1)))(t)}
	key := must(secret.Generate(r.ctx.Base(), nil))(t)
	r.enc = must(bfv.NewEncryptor(r.ctx, must(key.PublicKey())(t)))(t)
	r.dec = secret.NewIntegerDecryptor(r.ctx, key)
	r.keys = must(key.EvaluationKeys(nil, false))(t)
	for g, k := range must(key.GaloisKeys(steps.Elements(p, code)))(t) {
		r.keys.Galois[g] = k
	}
	return r
}

// plan lays a forest out for parameters.
func plan(t testing.TB, f *model.Forest, p bfv.Parameters) *rangecover.Plan {
	t.Helper()
	return must(rangecover.NewPlan(f, p.N(), uint64(p.T())))(t)
}

func (r *rig) encrypt(t testing.TB, code *steps.Code, row []int) *bfv.Ciphertext {
	t.Helper()
	return must(r.enc.Encrypt(must(steps.Encode(r.ctx, code, row))(t), nil))(t)
}

// TestForests evaluates models of every kind on encrypted rows. The sums are those of walking through the trees, which
// package model compares with the libraries; noise stays within its bound.
func TestForests(t *testing.T) {
	p := toy(t)
	var r *rig
	for _, name := range []string{"sklearn-life-tree", "sklearn-forest", "sklearn-boosted-two", "xgboost-state"} {
		_, f, rows, _ := machine(t, name)
		f.Trees = f.Trees[:min(len(f.Trees), 3)] // trees are alike
		pl := plan(t, f, p)
		if r == nil {
			r = newRig(t, p, pl.Code)
		}
		e := must(encrypted.New(r.ctx, r.keys, pl, encrypted.Options{Workers: 2, Cache: 1 << 24}))(t)
		for _, row := range rows[:2] {
			results := must(e.Run(r.encrypt(t, pl.Code, row), rand.Reader))(t)
			got := must(encrypted.Open(pl.Shape(), results, r.dec.Slots))(t)
			if want := must(f.Whole(row))(t); !slices.Equal(got, want) {
				t.Fatalf("%s: %v, walking says %v", name, got, want)
			}
			for _, res := range results {
				down := p.Base().MaxLevel()
				said := p.Noise().Largest(p.Noise().ModSwitch(encrypted.Noise(p, pl), down))
				if got := p.Noise().Largest(res.Test.Noise); res.Test.Down != down || got > said*(1+1e-9) {
					t.Errorf("%s: %d levels down, noise up to %g, predicted was %g", name, res.Test.Down, got, said)
				}
				bounded(t, r, res.Test)
				bounded(t, r, res.Values[0])
			}
		}
	}
}

func bounded(t *testing.T, r *rig, ct *bfv.Ciphertext) {
	t.Helper()
	noise := must(r.dec.Noise(ct))(t)
	if limit := r.ctx.Parameters().Noise().Largest(ct.Noise); noise > limit {
		t.Errorf("noise of %g, above the bound %g", noise, limit)
	}
}

// TestCategories evaluates trees of LightGBM that split by sets of categories.
func TestCategories(t *testing.T) {
	var counts []model.Grid
	for _, top := range []int{10, 11, 1, 21, 5, 100, 100, 230, 27000} {
		counts = append(counts, must(model.NewGrid(0, 1, top))(t))
	}
	m := must(model.Read(strings.NewReader(unpack(t, "lightgbm-frequency.txt.gz"))))(t)
	f := must(m.Quantise(counts, 1<<20))(t)
	f.Trees = f.Trees[:2]
	p := toy(t)
	pl := plan(t, f, p)
	r := newRig(t, p, pl.Code)
	e := must(encrypted.New(r.ctx, r.keys, pl, encrypted.Options{Workers: 2, Cache: 1 << 30}))(t)
	for _, line := range strings.Split(unpack(t, "lightgbm-frequency.rows.tsv.gz"), "\n")[:3] {
		var row []int
		for _, word := range strings.Fields(line) {
			row = append(row, must(strconv.Atoi(word))(t))
		}
		results := must(e.Run(r.encrypt(t, pl.Code, row), rand.Reader))(t)
		got := must(encrypted.Open(pl.Shape(), results, r.dec.Slots))(t)
		if want := must(f.Whole(row))(t); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, walking says %v", row, got, want)
		}
	}
}

// TestLargeTree evaluates the tree of 1,080 splits under parameters of 128 bits. The class is what scikit-learn says.
func TestLargeTree(t *testing.T) {
	if testing.Short() {
		testenv.Missing(t, "deep", "-short: a minute on a slow machine")
	}
	m, _, rows, said := machine(t, "sklearn-tree")
	f := must(must(m.Decided())(t).Quantise(grids(t), 1))(t)
	p := must(bfv.Named("bfv13", 0))(t)
	pl := plan(t, f, p)
	r := newRig(t, p, pl.Code)
	e := must(encrypted.New(r.ctx, r.keys, pl, encrypted.Options{Workers: 2}))(t)
	t.Logf("%v\nbudget of noise: %.1f bits", pl.Count(), encrypted.Budget(p, pl))
	for i := range 2 {
		row := r.encrypt(t, pl.Code, rows[i])
		got := must(encrypted.Open(pl.Shape(), must(e.Run(row, rand.Reader))(t), r.dec.Slots))(t)
		if class := m.Classes[got[0]]; class != said[i] {
			t.Errorf("row %d: class %s, scikit-learn says %s", i, class, said[i])
		}
	}
}

// TestRefused covers what does not belong together.
func TestRefused(t *testing.T) {
	_, f, rows, _ := machine(t, "sklearn-life-tree")
	p := toy(t)
	pl := plan(t, f, p)
	r := newRig(t, p, pl.Code)
	if _, err := encrypted.New(r.ctx, nil, pl, encrypted.Options{}); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("no keys: %v", err)
	}
	other := must(rangecover.NewPlan(f, 2*p.N(), uint64(p.T())))(t)
	if _, err := encrypted.New(r.ctx, r.keys, other, encrypted.Options{}); !errors.Is(err, rangecover.ErrPlan) {
		t.Errorf("other slots: %v", err)
	}
	for g, k := range r.keys.Galois {
		delete(r.keys.Galois, g)
		if _, err := encrypted.New(r.ctx, r.keys, pl, encrypted.Options{}); !errors.Is(err, henc.ErrNoKey) {
			t.Errorf("without element %d: %v", g, err)
		}
		r.keys.Galois[g] = k
		break
	}
	if _, err := steps.Encode(r.ctx, pl.Code, rows[0][1:]); !errors.Is(err, steps.ErrRow) {
		t.Errorf("short row: %v", err)
	}
	base := must(henc.NewParameters(henc.ParametersLiteral{
		Name: "bfv-small", LogN: 10, LogScale: 10, Mode: henc.ModeSingle, Alpha: 2, Insecure: true,
		P: []uint32{1073692673, 1073668097}, Q: []uint32{1073651713, 1073643521, 1073479681},
	}))(t)
	small := must(bfv.NewParameters(base, 0))(t)
	ctx := must(bfv.NewContext(small, henc.WithBackend(cpu.New())))(t)
	if _, err := encrypted.New(ctx, r.keys, pl, encrypted.Options{}); !errors.Is(err, bfv.ErrNoise) {
		t.Errorf("too few primes: %v", err)
	}
}

// BenchmarkLargeTree times one row of the tree of 1,080 splits, and checks each answer. HENCEDGE_BENCH_WORKERS is the
// number of workers, 2 without it. cpu-s/op is the processor time of all of them.
func BenchmarkLargeTree(b *testing.B) {
	workers := 2
	if w := os.Getenv("HENCEDGE_BENCH_WORKERS"); w != "" {
		workers = must(strconv.Atoi(w))(b)
	}
	m, _, rows, said := machine(b, "sklearn-tree")
	f := must(must(m.Decided())(b).Quantise(grids(b), 1))(b)
	p := must(bfv.Named("bfv13", 0))(b)
	pl := plan(b, f, p)
	r := newRig(b, p, pl.Code)
	e := must(encrypted.New(r.ctx, r.keys, pl, encrypted.Options{Workers: workers, Cache: 1 << 30}))(b)
	row := r.encrypt(b, pl.Code, rows[0])
	costs := must(e.Measure(row))(b)
	b.Logf("%v\none each: %+v; estimate %v", pl.Count(), costs, pl.Count().Time(costs, workers))
	spent := 0.0
	for b.Loop() {
		before := processor(b)
		results := must(e.Run(row, rand.Reader))(b)
		b.StopTimer()
		spent += processor(b) - before
		got := must(encrypted.Open(pl.Shape(), results, r.dec.Slots))(b)
		if class := m.Classes[got[0]]; class != said[0] {
			b.Fatalf("class %s, scikit-learn says %s", class, said[0])
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(pl.Count().Splits), "splits")
	b.ReportMetric(spent/float64(b.N), "cpu-s/op")
}

// BenchmarkForest times one row of 20 boosted trees with 140 splits, and checks each sum. bytes/op are those of the
// result.
func BenchmarkForest(b *testing.B) {
	_, f, rows, _ := machine(b, "sklearn-boosted-two")
	p := must(bfv.Named("bfv13", 0))(b)
	pl := plan(b, f, p)
	r := newRig(b, p, pl.Code)
	e := must(encrypted.New(r.ctx, r.keys, pl, encrypted.Options{Workers: 2, Cache: 1 << 28}))(b)
	row, want := r.encrypt(b, pl.Code, rows[0]), must(f.Whole(rows[0]))(b)
	b.Logf("%v", pl.Count())
	spent, size := 0.0, 0
	for b.Loop() {
		before := processor(b)
		results := must(e.Run(row, rand.Reader))(b)
		b.StopTimer()
		spent += processor(b) - before
		if got := must(encrypted.Open(pl.Shape(), results, r.dec.Slots))(b); !slices.Equal(got, want) {
			b.Fatalf("%v, walking says %v", got, want)
		}
		size = 0
		for _, res := range results {
			for _, ct := range append(res.Values, res.Test) {
				size += len(must(r.ctx.Marshal(ct))(b))
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(size), "bytes/op")
	b.ReportMetric(spent/float64(b.N), "cpu-s/op")
}

// processor returns the processor time of this process in seconds, from its counter in /proc, in steps of 10 ms.
func processor(b *testing.B) float64 {
	b.Helper()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		b.Skip(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return (must(strconv.ParseFloat(fields[11], 64))(b) + must(strconv.ParseFloat(fields[12], 64))(b)) / 100
}
