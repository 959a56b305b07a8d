package program

import (
	"encoding/hex"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/vectors"
)

// programVector is a program, what its variables are, and its hash.
type programVector struct {
	Name  string `json:"name"`
	Expr  string `json:"expr"`
	Class string `json:"class,omitempty"`
	// Resolution of comparisons, left out where there is none.
	Resolution float64          `json:"resolution,omitempty"`
	Params     string           `json:"params"`
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
	} {
		c, err := Compile(s, mustParams(t, "edge13-d3"))
		if err != nil {
			t.Fatal(err)
		}
		h := c.Hash()
		v := programVector{Name: s.Name, Expr: s.Expr, Class: s.Class, Resolution: s.Resolution, Params: "edge13-d3",
			Hash: hex.EncodeToString(h[:])}
		published := Publish(s, mustParams(t, "edge13-d3"), "", "")
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
