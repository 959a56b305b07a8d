package program

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
)

func publishedExample(t testing.TB) (Published, Source) {
	level := 1
	st := config.Stream{Name: "s", Params: "edge13-d2p", Window: config.Window{Samples: 8, Every: 1e9}, Level: &level,
		LogScale: 48,
		Channels: []config.Channel{{Name: "a", Unit: "K", Range: [2]float64{-1, 3}},
			{Name: "b", Unit: "W", Range: [2]float64{0, 0.1}}}}
	src := Source{Name: "p", Expr: "mean(x) + 2*mean(y)", Vars: map[string]Var{"x": {Device: "board", Stream: st},
		"y": {Device: "board", Stream: st, Channel: 1}}}
	return Publish(src, mustParams(t, st.Params), "K", "plant/p"), src
}

// modelExample is a program with a model.
func modelExample() *Published {
	st := PublishedStream{Name: "s", Packing: config.PackingSteps, Samples: 1, Channels: []PublishedChannel{
		{Name: "c", Unit: "1", Range: [2]float64{-40, 60}, Resolution: 0.5}}}
	return &Published{Name: "state", Params: "bfv13",
		Inputs: map[string]PublishedInput{"x": {Device: "board", Channel: "c", Stream: st}},
		Model: &answer.Model{File: "tree.json", SHA256: strings.Repeat("0f", 32), Answer: answer.Class,
			Features: []string{"x"}, Classes: []string{"good", "worn"}, Link: "identity", Decided: true, Splits: 3,
			Trees: 1, Outputs: 1, Words: 1, Bits: 16, Divisor: 1, Bound: 1}}
}

// TestPublishedModel: a description of a model compiles only for whole numbers, and only if it is one of a model.
func TestPublishedModel(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Published)
		says   string
	}{
		"good":              {func(*Published) {}, ""},
		"real parameters":   {func(p *Published) { p.Params = "edge13-d3" }, "parameters for whole numbers"},
		"an expression":     {func(p *Published) { p.Model, p.Expr = nil, "x" }, "only a model: reads"},
		"no link":           {func(p *Published) { p.Model.Link = "" }, "link"},
		"no trees":          {func(p *Published) { p.Model.Trees = 0 }, "0 trees"},
		"another feature":   {func(p *Published) { p.Model.Features = []string{"y"} }, `"y" is none of the inputs`},
		"a feature too few": {func(p *Published) { p.Inputs["y"] = p.Inputs["x"] }, "1 features, the program 2 inputs"},
	} {
		p := modelExample()
		c.change(p)
		src, params, err := p.Source()
		if err == nil {
			_, err = Compile(src, params)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p := modelExample()
	p.Model.Classes[0] = "\x1b[2J"
	if _, _, err := p.Source(); !errors.Is(err, ErrPublished) {
		t.Errorf("a control character in a class: %v", err)
	}
}

// Whoever compiles a published program gets the circuit of its evaluator, for windows
// that are not full too.
func TestPublished(t *testing.T) {
	p, src := publishedExample(t)
	b, err := MarshalPublished(&p)
	if err != nil {
		t.Fatal(err)
	}
	q, err := UnmarshalPublished(b)
	if err != nil {
		t.Fatal(err)
	}
	again, params, err := q.Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, samples := range []int{8, 5, 1} {
		present := map[Input]int{{Device: "board", Stream: "s"}: samples}
		src.Present, again.Present = present, present
		want, err := Compile(src, params)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Compile(again, params)
		if err != nil {
			t.Fatal(err)
		}
		if got.Hash() != want.Hash() || got.Output() != want.Output() || got.Level() != want.Level() ||
			got.Scale() != want.Scale() || !slices.Equal(got.Inputs(), want.Inputs()) {
			t.Errorf("%d samples: %+v, want %+v", samples, got.Output(), want.Output())
		}
		if got.Magnitude() < got.Scale()*0.5 {
			t.Errorf("%d samples: coefficients up to %g at scale %g", samples, got.Magnitude(), got.Scale())
		}
	}
	for what, bad := range map[string]Published{
		"parameters":        {Name: "p", Expr: "x", Params: "none"},
		"control character": {Name: "p", Expr: "x\x1b[2J", Params: "edge13-d2p"},
	} {
		if _, _, err := bad.Source(); !errors.Is(err, ErrPublished) {
			t.Errorf("%s: %v", what, err)
		}
	}
	large := Published{Name: "p", Expr: string(make([]byte, MaxPublished))}
	if _, err := MarshalPublished(&large); !errors.Is(err, ErrPublished) {
		t.Errorf("too large: %v", err)
	}
}

// FuzzPublished: what is accepted has exactly the encoding that came, and compiles or is
// refused.
func FuzzPublished(f *testing.F) {
	p, _ := publishedExample(f)
	b, err := MarshalPublished(&p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	b, err = MarshalPublished(modelExample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	compared := Publish(of("private_less(a, b)", tanks(), "a", "b"), mustParams(f, "bfv13"), "", "")
	if b, err = MarshalPublished(&compared); err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := UnmarshalPublished(b)
		if err != nil {
			if !errors.Is(err, ErrPublished) {
				t.Fatal(err)
			}
			return
		}
		if again, err := MarshalPublished(p); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("not canonical: %v", err)
		}
		src, params, err := p.Source()
		if err != nil {
			return
		}
		if _, err := Compile(src, params); err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
		}
	})
}
