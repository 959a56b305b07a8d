package benchmark

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

// TestPlot: every record is one dot in the chart of its operation, at its place on the
// logarithmic axis, with a ring at its copy.
func TestPlot(t *testing.T) {
	records := []Record{
		{Op: "copy", Device: "A", MedianUS: 5},
		{Op: "ntt", Method: "n2=16", Params: "ring-2^16-66", N2: 16, Batch: 1, Device: "A", MedianUS: 10, CopyUS: 1},
		{Op: "intt", Method: "n2=16", Params: "a<b&c", N2: 16, Batch: 4, Device: "A", MedianUS: 100},
		{Op: "hmult", Method: "auto", Params: "std14-d5", Device: "A", MedianUS: 33},
		{Op: "ntt", Method: "n2=1", Params: "ring-2^16-66", Device: "B", MedianUS: 7},
		{Op: "ntt", Device: "A"}, // not timed
	}
	got := map[string]string{}
	for _, c := range Plot(records) {
		got[c.Name] = string(c.SVG)
	}
	if len(got) != 3 || got["transforms"] == "" || got["evaluation"] == "" || got["transforms-2"] == "" {
		t.Fatalf("charts %v", len(got))
	}
	times, copies, texts := marks(t, got["transforms"])
	const left, width = labelWidth, chartWidth - labelWidth - chartRight // 1 to 100 us
	for name, at := range map[string][2][]float64{
		"times":  {times, {left + width/2.0, left + width}},
		"copies": {copies, {left}},
	} {
		if len(at[0]) != len(at[1]) {
			t.Fatalf("%s at %v, want %v", name, at[0], at[1])
		}
		for i := range at[0] {
			if math.Abs(at[0][i]-at[1][i]) > 0.1 {
				t.Errorf("%s at %v, want %v", name, at[0], at[1])
			}
		}
	}
	for _, want := range []string{"ntt, ring-2^16-66, n2=16", "intt, a<b&c, n2=16, batch 4", "10", "100"} {
		if !strings.Contains(texts, "\n"+want+"\n") {
			t.Errorf("no text %q in %s", want, texts)
		}
	}
}

// marks reads the places of dots and rings, and all texts, a line each.
func marks(t *testing.T, svg string) (times, copies []float64, texts string) {
	t.Helper()
	texts = "\n"
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return times, copies, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := tok.(type) {
		case xml.CharData:
			texts += strings.TrimSpace(string(e)) + "\n"
		case xml.StartElement:
			attr := map[string]string{}
			for _, a := range e.Attr {
				attr[a.Name.Local] = a.Value
			}
			if e.Name.Local != "circle" {
				continue
			}
			x, err := strconv.ParseFloat(attr["cx"], 64)
			if err != nil {
				t.Fatal(err)
			}
			if attr["class"] == "copy" {
				copies = append(copies, x)
			} else {
				times = append(times, x)
			}
		}
	}
}
