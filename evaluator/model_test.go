package evaluator

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
)

// machine is the stream of mode steps that the models of model/testdata read.
func machine() config.Stream {
	s := config.Stream{Name: "machine", Mode: config.ModeSteps, Params: "bfv13", Window: config.Window{Samples: 1}}
	for _, c := range []struct {
		name         string
		lo, hi, step float64
	}{
		{"temperature", -40, 122.5, 0.0625}, {"vibration", 0, 60, 0.001}, {"pressure", 300, 1100, 0.02},
		{"current", -20, 20, 0.001}, {"humidity", 0, 100, 0.1}, {"speed", 0, 6000, 1}, {"acoustic", 30, 130, 0.05},
		{"voltage", 180, 260, 0.01},
	} {
		s.Channels = append(s.Channels, config.Channel{Name: c.name, Unit: "1", Range: [2]float64{c.lo, c.hi},
			Resolution: c.step})
	}
	s.SetDefaults()
	return s
}

// modelConfig has a program with a model file of model/testdata.
func modelConfig(t *testing.T, name string) *config.Evaluator {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("model", "testdata", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trees.json")
	if b, err = io.ReadAll(r); err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string]string{}
	for _, ch := range machine().Channels {
		inputs[ch.Name] = "d1/machine/" + ch.Name
	}
	cfg := testConfig(t, config.Program{Name: "p", Model: &config.ProgramModel{File: file}, Inputs: inputs})
	cfg.Streams = append(cfg.Streams, config.DeviceStream{Device: "d1", Stream: machine()})
	cfg.SetDefaults()
	cfg.Limits.Object = config.Size(32 << 20)
	return cfg
}

// manyClasses has a program with a forest of 40 trees and 256 classes, whose scores are asked for.
func manyClasses(t *testing.T) *config.Evaluator {
	t.Helper()
	cfg := modelConfig(t, "sklearn-tree")
	type tree struct {
		Feature   []int       `json:"feature"`
		Threshold []float64   `json:"threshold"`
		Left      []int       `json:"left"`
		Right     []int       `json:"right"`
		Value     [][]float64 `json:"value"`
	}
	var features, classes []string
	for _, ch := range machine().Channels {
		features = append(features, ch.Name)
	}
	for i := range 256 {
		classes = append(classes, fmt.Sprint(i))
	}
	trees := make([]tree, 40)
	for k := range trees {
		one := &trees[k]
		for i := range 63 { // 31 splits, then leaves
			feature, left, right, value := -1, -1, -1, make([]float64, 256)
			threshold := 0.0
			if i < 31 {
				feature, left, right, value = i%8, 2*i+1, 2*i+2, nil
				r := machine().Channels[i%8].Range
				threshold = r[0] + (r[1]-r[0])*float64(i+k+1)/80
			} else {
				value[i] = 1
			}
			one.Feature, one.Threshold = append(one.Feature, feature), append(one.Threshold, threshold)
			one.Left, one.Right = append(one.Left, left), append(one.Right, right)
			one.Value = append(one.Value, value)
		}
	}
	text, err := json.Marshal(map[string]any{"format": "hencedge-trees/1", "source": "a test", "estimator": "none",
		"features": features, "classes": classes, "combine": "mean", "link": "identity", "trees": trees})
	if err == nil {
		err = os.WriteFile(cfg.Programs[0].Model.File, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Programs[0].Model.Answer = config.AnswerScore
	return cfg
}

// TestModelPlan: a program with a model compiles for its row alone, and what does not go together is refused with what
// to do.
func TestModelPlan(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*config.Evaluator)
		says   string
	}{
		"no file": {func(cfg *config.Evaluator) { cfg.Programs[0].Model.File += ".gone" }, "no such file"},
		"samples": {func(cfg *config.Evaluator) {
			cfg.Programs[0].Inputs = map[string]string{"temperature": "d1/count/temp"}
		}, "a model reads streams of mode steps"},
		"a feature too few": {func(cfg *config.Evaluator) { delete(cfg.Programs[0].Inputs, "speed") },
			`feature "speed" is none of the inputs`},
		"an expression on steps": {func(cfg *config.Evaluator) {
			cfg.Programs[0] = prog("p", "x", map[string]string{"x": "d1/machine/speed"})
		}, "which only a model: reads"},
		"two streams": {func(cfg *config.Evaluator) {
			other := machine()
			other.Name = "other"
			cfg.Streams = append(cfg.Streams, config.DeviceStream{Device: "d1", Stream: other})
			cfg.Programs[0].Inputs["speed"] = "d1/other/speed"
		}, "a row of a model is one window"},
		"no bins": {func(cfg *config.Evaluator) {
			cfg.Streams[len(cfg.Streams)-1].Channels[0].Resolution = 0.7
		}, "no whole number of steps"},
		"a class of a regression": {func(cfg *config.Evaluator) { cfg.Programs[0].Model.Answer = config.AnswerClass },
			"write answer: score"},
		"a small limit": {func(cfg *config.Evaluator) { cfg.Limits.Object = 64 << 10 }, "limits.object is 64 KiB"},
	} {
		cfg := modelConfig(t, "sklearn-life-tree")
		c.change(cfg)
		if _, err := Check(cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Check(manyClasses(t)); err == nil ||
		!strings.Contains(err.Error(), "train fewer or smaller trees") {
		t.Errorf("a result beyond all limits: %v", err)
	}
	cfg := modelConfig(t, "sklearn-tree")
	cfg.Results = &config.Results{Pack: 16, Within: time.Second}
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Programs[0]
	needs := plan.Needs()
	if p.Circuit.Packed() || p.Alone == "" || len(p.Circuit.Inputs()) != 1 || len(needs) != 1 ||
		!needs[0].Relinearise ||
		len(needs[0].Rotations) == 0 {
		t.Errorf("packed %t, %q, inputs %v, needs %+v", p.Circuit.Packed(), p.Alone, p.Circuit.Inputs(), needs)
	}
	e, err := Explain(cfg)
	if err != nil || e[0].Model == nil || e[0].Model.Splits != 1080 || e[0].Depth != 2 || !e[0].Model.Decided ||
		!strings.Contains(e[0].Text(), "the class alone") {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestModelHash: the description that key holders get compiles to the same hash without the model, and another content
// of the file, answer or order of features is another program.
func TestModelHash(t *testing.T) {
	cfg := modelConfig(t, "sklearn-tree")
	hash := func() [32]byte {
		t.Helper()
		plan, err := Check(cfg)
		if err != nil {
			t.Fatal(err)
		}
		published := plan.Programs[0].Published()
		b, err := program.MarshalPublished(&published)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := program.UnmarshalPublished(b)
		if err != nil {
			t.Fatal(err)
		}
		src, params, err := theirs.Source()
		if err != nil {
			t.Fatal(err)
		}
		c, err := program.Compile(src, params)
		if err != nil || c.Plan() != nil || c.Hash() != plan.Programs[0].Circuit.Hash() {
			t.Errorf("compiled anew: %v", err)
		}
		if got, want := c.Output(), plan.Programs[0].Circuit.Output(); got != want {
			t.Errorf("output %+v, want %+v", got, want)
		}
		return c.Hash()
	}
	seen := map[[32]byte]bool{hash(): true}
	for what, change := range map[string]func(){
		"answer": func() { cfg.Programs[0].Model.Answer = config.AnswerScore },
		"order": func() {
			cfg.Programs[0].Model.Features = []string{"vibration", "temperature", "pressure", "current", "humidity",
				"speed",
				"acoustic", "voltage"}
		},
		"file": func() {
			f, err := os.OpenFile(cfg.Programs[0].Model.File, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("\n")
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		change()
		if h := hash(); seen[h] {
			t.Errorf("another %s has the same hash", what)
		} else {
			seen[h] = true
		}
	}
}

// TestStepsAgree: the steps that agents round readings to are those that models are quantised on.
func TestStepsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, ch := range machine().Channels {
		ours, err := ch.StepGrid()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := model.NewGrid(ch.Range[0], ch.Resolution, ours.Bins)
		if err != nil {
			t.Fatal(err)
		}
		for k := range ours.Bins + 1 {
			if ours.Edge(k) != theirs.Value(k) || ours.Nearest(ours.Edge(k)) != k {
				t.Fatalf("%s: step %d is %v, in the model %v", ch.Name, k, ours.Edge(k), theirs.Value(k))
			}
		}
		for range 2000 {
			x := ch.Range[0] + (1.2*rng.Float64()-0.1)*(ch.Range[1]-ch.Range[0])
			if want, _ := theirs.Nearest(x); ours.Nearest(x) != want {
				t.Fatalf("%s: %v is step %d, in the model %d", ch.Name, x, ours.Nearest(x), want)
			}
		}
	}
}

// TestHostileRow: a body that is no row of whole numbers modulo the one t is refused before anything is computed.
func TestHostileRow(t *testing.T) {
	params, err := henc.Named("bfv13")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(params)
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	src := &source{stream: machine(), params: params, hash: params.Hash(), scale: wholeScale(params)}
	other, err := bfv.Named("bfv13", 786433)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := bfv.Named("bfv13", 0); err != nil || src.scale != p.Scale() {
		t.Errorf("scale %g, %v", src.scale, err)
	}
	for _, scale := range []float64{1 << 10, other.Scale(), henc.DefaultT} {
		ct, err := secret.NewSeededEncryptor(ctx, key).EncryptReal([]float64{1e-3}, params.MaxLevel(), scale, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := ctx.MarshalCiphertext(ct)
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range []float64{henc.DefaultT, 1 << 10} {
			obj := &transport.Object{Meta: transport.Meta{Params: src.hash, Scale: said}, Body: body}
			if _, err := new(pipeline).ciphertext(src, obj); !errors.Is(err, transport.ErrBodyMismatch) {
				t.Errorf("a body of scale %g under a header of %g: %v", scale, said, err)
			}
		}
	}
}

// levelsConfig has two devices with a stream of mode digits each, and a program that compares them.
func levelsConfig(t *testing.T) *config.Evaluator {
	t.Helper()
	cfg := testConfig(t, prog("p", "private_less(a, b)", map[string]string{"a": "d1/level/h", "b": "d2/level/h"}))
	for _, d := range []string{"d1", "d2"} {
		s := config.Stream{Name: "level", Mode: config.ModeDigits, Params: "bfv13",
			Window:   config.Window{Samples: 60, Every: time.Minute},
			Channels: []config.Channel{{Name: "h", Unit: "m", Range: [2]float64{0, 4}, Resolution: 0.001}}}
		s.SetDefaults()
		cfg.Streams = append(cfg.Streams, config.DeviceStream{Device: d, Stream: s})
	}
	cfg.Limits.Object = config.Size(1 << 20)
	return cfg
}

// TestComparisonPlan: a comparison of two devices joins by interval, goes out alone and needs the keys of every program
// on whole numbers; what does not go together is refused.
func TestComparisonPlan(t *testing.T) {
	cfg := levelsConfig(t)
	cfg.Results = &config.Results{Pack: 16, Within: time.Second}
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, needs := plan.Programs[0], plan.Needs()
	if p.Join.Every != time.Minute || p.Circuit.Packed() || p.Alone == "" || len(needs) != 1 ||
		!needs[0].Relinearise || !slices.Equal(needs[0].Rotations, bfv.KeyRotations(p.params)) {
		t.Errorf("join %v, packed %t, %q, needs %+v", p.Join, p.Circuit.Packed(), p.Alone, needs)
	}
	costs, err := Estimate(cfg)
	if err != nil || costs.Batch <= 0 || costs.Processor.Results <= 0 || len(costs.Sets) != 0 {
		t.Errorf("%+v, %v", costs, err)
	}
	last := func(cfg *config.Evaluator) *config.Stream { return &cfg.Streams[len(cfg.Streams)-1].Stream }
	for what, c := range map[string]struct {
		change func(*config.Evaluator)
		says   string
	}{
		"by count": {func(cfg *config.Evaluator) {
			for i := range cfg.Streams {
				cfg.Streams[i].Window.Every = 0
			}
		}, "do not line up"},
		"other intervals": {func(cfg *config.Evaluator) { last(cfg).Window.Every = time.Hour }, "end differently"},
		"other steps": {func(cfg *config.Evaluator) { last(cfg).Channels[0].Resolution = 0.01 },
			"of different steps"},
		"other parameters": {func(cfg *config.Evaluator) { last(cfg).Params = "bfv14" },
			"under parameters bfv1"},
		"samples": {func(cfg *config.Evaluator) {
			cfg.Programs[0].Inputs = map[string]string{"a": "d1/time/temp", "b": "d2/time/temp"}
		}, "give both streams mode: digits"},
		"too many": {func(cfg *config.Evaluator) {
			for i := range cfg.Streams {
				cfg.Streams[i].Window.Samples = 300
			}
		}, "bfv13 has room for 256"},
		"a small limit": {func(cfg *config.Evaluator) { cfg.Limits.Object = 64 << 10 }, "limits.object is 64 KiB"},
	} {
		cfg := levelsConfig(t)
		c.change(cfg)
		if _, err := Check(cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestKeySets: windows under keys of different sets are refused with what to do, those of two epochs as a rotation.
func TestKeySets(t *testing.T) {
	job := func(second transport.Meta) *job {
		first := transport.Meta{KeyID: [16]byte{1}, KeyEpoch: 1}
		return &job{prog: &runnable{served: &served{planned: &Planned{Name: "p"}}}, inputs: map[program.Input]*window{
			{Device: "d1"}: {meta: first}, {Device: "d2"}: {meta: second}}}
	}
	if _, err := job(transport.Meta{KeyID: [16]byte{2}, KeyEpoch: 1}).sameKey(); !errors.Is(err, ErrKeyChange) ||
		!strings.Contains(err.Error(), "give the devices keys of one set") {
		t.Errorf("two sets: %v", err)
	}
	if _, err := job(transport.Meta{KeyID: [16]byte{2}, KeyEpoch: 2}).sameKey(); !errors.Is(err, ErrKeyChange) ||
		!strings.Contains(err.Error(), "epochs") {
		t.Errorf("two epochs: %v", err)
	}
	if key, err := job(transport.Meta{KeyID: [16]byte{1}, KeyEpoch: 1}).sameKey(); err != nil || key.Epoch != 1 {
		t.Errorf("one set: %v, %v", key, err)
	}
}
