package config

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func comparedStream() Stream {
	return Stream{Name: "system", Params: "edge13-d3", Window: Window{Samples: 64}, Channels: []Channel{
		{Name: "cpu", Unit: "%", Range: [2]float64{0, 100}}, {Name: "load", Unit: "1", Range: [2]float64{0, 16}}}}
}

// Every field of the layout hash is compared, and nothing else: the two always agree.
func TestCompare(t *testing.T) {
	same := comparedStream()
	same.Packing, same.Interval, same.Channels[0].Range[0] = PackingReal, time.Second, math.Copysign(0, -1)
	same.Channels[0].Source = &Source{Type: SourceCPU}
	if d := comparedStream().Compare(same); len(d) > 0 || same.LayoutHash() != comparedStream().LayoutHash() {
		t.Errorf("what the layout leaves out: %+v", d)
	}
	for _, c := range []struct {
		change func(*Stream)
		want   string
	}{
		{func(s *Stream) { s.Name = "sys" }, "name: system, sys"},
		{func(s *Stream) { s.Params = "edge12-d1" }, "params: edge13-d3, edge12-d1"},
		{func(s *Stream) { s.LogScale = 30 }, "log_scale: none, 30"},
		{func(s *Stream) { s.Places = 8 }, "places: none, 8"},
		{func(s *Stream) { s.Packing = "complex" }, "mode: samples, complex"},
		{func(s *Stream) { s.Window.Samples = 32 }, "window.samples: 64, 32"},
		{func(s *Stream) { s.Window.Every = time.Minute }, "window.every: none, 1m"},
		{func(s *Stream) { s.Channels[1].Range[1] = 100 }, "channels[1].range: [0, 16], [0, 100]"},
		{func(s *Stream) { s.Channels[1].Range[1] = math.Nextafter(16, 17) },
			"channels[1].range: [0, 16], [0, 16.000000000000004]"},
		{func(s *Stream) { s.Channels[0].Unit = "1" }, "channels[0].unit: %, 1"},
		{func(s *Stream) { s.Channels = s.Channels[:1] }, "channels: [cpu, load], [cpu]"},
		{func(s *Stream) { s.Channels[0], s.Channels[1] = s.Channels[1], s.Channels[0] },
			"channels: [cpu, load], [load, cpu]"},
		{func(s *Stream) { s.Params, s.Window.Samples = "edge12-d1", 8 },
			"params: edge13-d3, edge12-d1; window.samples: 64, 8"},
	} {
		s := comparedStream()
		c.change(&s)
		var got []string
		for _, d := range comparedStream().Compare(s) {
			got = append(got, fmt.Sprintf("%s: %s, %s", d.Path, d.Ours, d.Other))
		}
		if text := strings.Join(got, "; "); text != c.want || s.LayoutHash() == comparedStream().LayoutHash() {
			t.Errorf("got %q, want %q", text, c.want)
		}
	}
}
