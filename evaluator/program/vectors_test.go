package program

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/internal/vectors"
)

// programVector is a program, what its variables are, and its hash.
type programVector struct {
	Name  string `json:"name"`
	Expr  string `json:"expr"`
	Class string `json:"class,omitempty"`
	// Model is evaluated in place of an expression; left out where there is none.
	Model *answer.Model `json:"model,omitempty"`
	// Resolution of comparisons, left out where there is none.
	Resolution float64          `json:"resolution,omitempty"`
	Params     string           `json:"params"`
	ParamsHash string           `json:"params_hash,omitempty"` // of sets for whole numbers, which parameters.json lacks
	Variables  []variableVector `json:"variables"`
	Hash       string           `json:"hash"`
	Published  string           `json:"published"` // body of an object of kind program
}

type variableVector struct {
	Name    string `json:"name"`
	Device  string `json:"device"`
	Stream  string `json:"stream"`
	Channel int    `json:"channel"` // index in the stream
	Layout  string `json:"layout"`
}

func TestProgramVectors(t *testing.T) {
	climate := config.Stream{Name: "climate", Params: "edge13-d3", Window: config.Window{Samples: 8},
		Channels: []config.Channel{{Name: "temperature", Unit: "°C", Range: [2]float64{-40, 85}},
			{Name: "humidity", Unit: "%", Range: [2]float64{0, 100}}}}
	shared := climate
	shared.Places = 16
	row := config.Stream{Name: "row", Params: "bfv13", Packing: config.PackingSteps, Window: config.Window{Samples: 1},
		Channels: []config.Channel{{Name: "t", Unit: "°C", Range: [2]float64{-40, 85}, Resolution: 0.25},
			{Name: "h", Unit: "%", Range: [2]float64{0, 100}, Resolution: 1}}}
	level := config.Stream{Name: "level", Params: "bfv13", Packing: config.PackingDigits,
		Window: config.Window{Samples: 60, Every: time.Minute}, Channels: []config.Channel{
			{Name: "height", Unit: "m", Range: [2]float64{0, 4}, Resolution: 0.001}}}
	worn := &answer.Model{File: "trees.json", SHA256: strings.Repeat("5e", 32), Source: "scikit-learn 1.2.1",
		Answer: answer.Class, Features: []string{"warmth", "damp"}, Classes: []string{"good", "worn \"out\""},
		Link: "logistic", Splits: 9, Trees: 2, Outputs: 1, Words: 2, Bits: 14, Divisor: 65536, Error: 0.5, Bound: 70000}
	var out []programVector
	for _, s := range []Source{
		{Name: "mean", Expr: "mean(x)", Vars: map[string]Var{"x": {Device: "board-7", Stream: climate, Channel: 0}}},
		{Name: "product", Expr: "mean(t * h) // °C times %\n", Vars: map[string]Var{
			"t": {Device: "board-7", Stream: climate, Channel: 0}, "h": {
				Device: "board-8", Stream: climate, Channel: 1}}},
		{Name: "each", Expr: "var(x)", Class: "weather", Vars: map[string]Var{"x": {Stream: climate, Channel: 1}}},
		{Name: "shared", Expr: "mean(x)", Class: "weather", Vars: map[string]Var{"x": {Stream: shared, Channel: 0}}},
		{Name: "resolved", Expr: "mean(x)", Resolution: 0.25, Vars: map[string]Var{
			"x": {Device: "board-7", Stream: climate, Channel: 0}}},
		{Name: "state", Expr: worn.Text(), Model: worn, Vars: map[string]Var{
			"warmth": {Device: "board-7", Stream: row, Channel: 0},
			"damp":   {Device: "board-7", Stream: row, Channel: 1}}},
		{Name: "lower", Expr: "private_less(ours, theirs)", Vars: map[string]Var{
			"ours":   {Device: "board-7", Stream: level, Channel: 0},
			"theirs": {Device: "board-8", Stream: level, Channel: 0}}},
	} {
		params := mustParams(t, "edge13-d3")
		if s.Model != nil || s.Name == "lower" {
			params = mustParams(t, "bfv13")
		}
		c, err := Compile(s, params)
		if err != nil {
			t.Fatal(err)
		}
		h := c.Hash()
		v := programVector{Name: s.Name, Expr: s.Expr, Class: s.Class, Resolution: s.Resolution, Model: s.Model,
			Params: params.Name(), Hash: hex.EncodeToString(h[:])}
		if params.Integers() {
			sum := params.Hash()
			v.ParamsHash = hex.EncodeToString(sum[:])
		}
		published := Publish(s, params, "", "")
		body, err := MarshalPublished(&published)
		if err != nil {
			t.Fatal(err)
		}
		v.Published = hex.EncodeToString(body)
		for _, name := range sortedKeys(s.Vars) {
			x := s.Vars[name]
			layout := x.Stream.LayoutHash()
			v.Variables = append(v.Variables, variableVector{name, x.Device, x.Stream.Name, x.Channel,
				hex.EncodeToString(layout[:])})
		}
		out = append(out, v)
	}
	vectors.Check(t, "programs.json", struct {
		Comment  string          `json:"comment"`
		Programs []programVector `json:"programs"`
	}{"Programs and their hashes (docs/wire-format.md). published is the body of an object of kind 6. channel counts " +
		"from 0 in the stream's order; layout is the stream's layout hash.", out})
}
