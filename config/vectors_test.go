package config

import (
	"encoding/hex"
	"math"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/vectors"
)

// layoutVector is a stream, as far as its layout goes, and the hash of that.
type layoutVector struct {
	Name     string          `json:"name"`
	Params   string          `json:"params"`
	LogScale int             `json:"log_scale"`
	Packing  string          `json:"packing"`
	Samples  int             `json:"samples"`
	EveryNS  int64           `json:"every_ns"`
	Places   int             `json:"places,omitempty"`
	Channels []channelVector `json:"channels"`
	Hash     string          `json:"hash"`
}

type channelVector struct {
	Name  string     `json:"name"`
	Unit  string     `json:"unit"`
	Range [2]float64 `json:"range"`

	Resolution float64 `json:"resolution,omitempty"`
}

// TestLayoutVectors: layout hashes of a window by count and one by time, of names
// beyond ASCII, of a range that begins with a negative zero, of windows that share
// ciphertexts, of histograms, of steps, and of digits.
func TestLayoutVectors(t *testing.T) {
	var out []layoutVector
	for _, s := range []Stream{
		{Name: "vibration", Params: "edge12-d1", Window: Window{Samples: 256},
			Channels: []Channel{{Name: "x", Unit: "m/s2",
				Range: [2]float64{-20, 20}}}},
		{Name: "climate", Params: "edge13-d3", LogScale: 26, Packing: PackingReal, Window: Window{Samples: 60,
			Every: time.Minute}, Channels: []Channel{
			{Name: "temperature", Unit: "°C", Range: [2]float64{-40, 85.5}}, {Name: "humidity", Unit: "%",
				Range: [2]float64{0,
					100}}, {Name: "count", Range: [2]float64{0, 0x1p40}}}},
		{Name: "s", Params: "edge12-d1", Window: Window{Samples: 8, Every: time.Second},
			Channels: []Channel{{Name: "c", Unit: "%", Range: [2]float64{math.Copysign(0, -1), 100}}}},
		{Name: "shared", Params: "edge13-d3", Places: 8, Window: Window{Samples: 256, Every: time.Minute},
			Channels: []Channel{{Name: "x", Unit: "m/s2", Range: [2]float64{-20, 20}}}},
		{Name: "counts", Params: "edge12-add", LogScale: 42, Packing: PackingHistogram,
			Window: Window{Samples: 4096}, Channels: []Channel{
				{Name: "t", Unit: "degC", Range: [2]float64{-40, 125}, Resolution: 0.25},
				{Name: "rpm", Unit: "rpm", Range: [2]float64{0, 3000}, Resolution: 10}}},
		{Name: "row", Params: "bfv13", Packing: PackingSteps, Window: Window{Samples: 1}, Channels: []Channel{
			{Name: "t", Unit: "degC", Range: [2]float64{-40, 125}, Resolution: 0.25},
			{Name: "rpm", Unit: "rpm", Range: [2]float64{0, 3000}, Resolution: 1}}},
		{Name: "level", Params: "bfv13", Packing: PackingDigits, Window: Window{Samples: 60, Every: time.Minute},
			Channels: []Channel{{Name: "height", Unit: "m", Range: [2]float64{0, 4}, Resolution: 0.001}}},
	} {
		h := s.LayoutHash()
		v := layoutVector{s.Name, s.Params, s.LogScale, s.Packing, s.Window.Samples, int64(s.Window.Every),
			s.Places, nil, hex.EncodeToString(h[:])}
		for _, c := range s.Channels {
			v.Channels = append(v.Channels, channelVector{c.Name, c.Unit, c.Range, c.Resolution})
		}
		out = append(out, v)
	}
	vectors.Check(t, "layouts.json", struct {
		Comment string         `json:"comment"`
		Layouts []layoutVector `json:"layouts"`
	}{"Streams and their layout hashes (docs/wire-format.md). log_scale 0 and an empty packing: the configuration " +
		"has none. every_ns 0: a window by count. places: how many windows share a ciphertext. resolution: of the " +
		"bins of a histogram, or of steps and digits.", out})
}
