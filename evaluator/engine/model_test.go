package engine

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/steps"
	"github.com/hencedge/hencedge/henc/secret"
)

// modelLines are the lines of an unpacked file of ../model/testdata.
func modelLines(t *testing.T, name string) []string {
	t.Helper()
	b := must(os.ReadFile(filepath.Join("..", "model", "testdata", name)))(t)
	b = must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(b)))(t)))(t)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// modelSource is a program with a model of ../model/testdata on a row of its machine.
func modelSource(t *testing.T, name string, p bfv.Parameters) program.Source {
	t.Helper()
	st := config.Stream{Name: "machine", Mode: config.ModeSteps, Params: p.Base().Name(),
		Window: config.Window{Samples: 1}}
	o := answer.Options{File: name, Scale: 1 << 16, Slots: p.N(), T: uint64(p.T()), Columns: map[string]int{}}
	src := program.Source{Name: "p", Vars: map[string]program.Var{}}
	for i, c := range []struct {
		name      string
		low, step float64
		bins      int
	}{
		{"temperature", -40, 0.0625, 2600}, {"vibration", 0, 0.001, 60000}, {"pressure", 300, 0.02, 40000},
		{"current", -20, 0.001, 40000}, {"humidity", 0, 0.1, 1000}, {"speed", 0, 1, 6000}, {"acoustic", 30, 0.05, 2000},
		{"voltage", 180, 0.01, 8000},
	} {
		st.Channels = append(st.Channels, config.Channel{Name: c.name, Unit: "1", Resolution: c.step,
			Range: [2]float64{c.low, c.low + c.step*float64(c.bins)}})
		o.Channels, o.Columns[c.name] = append(o.Channels, c.name), i
		o.Grids = append(o.Grids, must(model.NewGrid(c.low, c.step, c.bins))(t))
	}
	st.SetDefaults()
	for name, i := range o.Columns {
		src.Vars[name] = program.Var{Device: "d", Stream: st, Channel: i}
	}
	var err error
	content := strings.Join(modelLines(t, name+".json.gz"), "\n")
	if src.Model, src.Plan, err = answer.Read([]byte(content), o); err != nil {
		t.Fatal(err)
	}
	src.Expr = src.Model.Text()
	return src
}

// TestModel: the engine evaluates a tree of scikit-learn on rows as boards send them, several jobs at a time, and the
// key holder reads what the library said. On a GPU it takes more rows.
func TestModel(t *testing.T) {
	p := must(bfv.Named("bfv13", 0))(t)
	c := must(program.Compile(modelSource(t, "sklearn-life-tree", p), p.Base()))(t)
	base := must(makeContext(p.Base()))(t)
	key := must(secret.Generate(base, &henc.Seed{17}))(t)
	keys := must(key.EvaluationKeys(nil, false))(t)
	for g, k := range must(key.GaloisKeys(steps.Elements(p, c.Plan().Code)))(t) {
		keys.Galois[g] = k
	}
	e := must(New([]Keys{{Context: base, Evaluation: keys}}, Options{Workers: 2, Latency: time.Second, Places: 1,
		Now: time.Now, Logger: slog.New(slog.DiscardHandler), OnFallback: func() {}}))(t)
	ctx := must(bfv.ContextOf(base))(t)
	enc := must(bfv.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
	dec := secret.NewIntegerDecryptor(ctx, key)
	rows, said := modelLines(t, "rows.csv.gz")[1:], modelLines(t, "sklearn-life-tree.answers.csv.gz")
	count := 1
	if os.Getenv("CUTRANTT_TEST_BACKEND") == "cuda" {
		count = 16
	}
	for i := range count {
		var row []int
		for _, word := range strings.Split(rows[i], ",") {
			row = append(row, must(strconv.Atoi(word))(t))
		}
		ct := must(enc.Encrypt(must(steps.Encode(ctx, c.Plan().Code, row))(t), nil))(t)
		in := must(e.Receive(base.Parameters().Hash(), must(base.MarshalCiphertext(ctx.Scaled(ct)))(t), Turn{}))(t)
		inputs := map[program.Input]*Ciphertext{c.Inputs()[0]: in}
		r := must(e.RunWhole(c, Keys{Evaluation: keys}.Ref(), inputs))(t)
		if n := int64(len(r.Body)); n > c.ResultBytes() || n < c.ResultBytes()*99/100 {
			t.Errorf("a result of %d bytes, stated are %d", n, c.ResultBytes())
		}
		got := c.Model().Values(openModel(t, ctx, dec, c.Model(), r.Body))
		word, _, _ := strings.Cut(said[i], ",")
		if want := must(strconv.ParseFloat(word, 64))(t); len(got) != 1 || math.Abs(got[0]-want) > 0.01 {
			t.Errorf("row %d: %v, scikit-learn says %v", i, got, want)
		}
	}
}

// openModel decrypts the body of a model's result.
func openModel(t *testing.T, ctx *bfv.Context, dec *secret.IntegerDecryptor, m *answer.Model, body []byte) (
	out []rangecover.Result[[]uint64]) {
	t.Helper()
	open := func(b []byte) []uint64 {
		ct := must(ctx.Base().UnmarshalCiphertext(b))(t)
		return must(dec.Slots(must(ctx.Received(ct, bfv.Noise{}))(t)))(t)
	}
	for _, block := range must(m.Cut(body))(t) {
		r := rangecover.Result[[]uint64]{Test: open(block.Test)}
		for _, b := range block.Values {
			r.Values = append(r.Values, open(b))
		}
		out = append(out, r)
	}
	return out
}
