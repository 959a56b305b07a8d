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

// boxes returns the widths of the boxes of a breakdown by their tooltips, and checks that
// it is well-formed.
func boxes(t *testing.T, svg []byte) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	width, inBox := 0.0, false
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if tok.Name.Local == "rect" {
				inBox = true
				for _, a := range tok.Attr {
					if a.Name.Local == "width" {
						if width, err = strconv.ParseFloat(a.Value, 64); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		case xml.EndElement:
			inBox = inBox && tok.Name.Local != "rect"
		case xml.CharData:
			if inBox {
				out[string(tok)] = width
			}
		}
	}
}

// TestPlotLoads: above, boxes are as wide as the mean times of one window and one result;
// below, as the work of a window with all its results, without the waiting.
func TestPlotLoads(t *testing.T) {
	r := LoadRecord{Op: OpEvaluator, Device: "a<b", Programs: []string{"mean(x)"}, Stages: []Stage{
		{"verify", 100, 1}, {"wait", 300, 3}, {"compute", 200, 3},
	}}
	charts := PlotLoads([]LoadRecord{r, r})
	if len(charts) != 2 || charts[0].Name != "evaluator" || charts[1].Name != "evaluator-2" {
		t.Fatalf("%d charts", len(charts))
	}
	got := boxes(t, charts[0].SVG)
	const all = flameWidth - 2*flameLeft
	for name, want := range map[string]float64{
		"last chunk to result, 600.0 us, 100.0 %": all,
		"window, 100.0 us, 16.7 %":                all / 6.0,
		"result, 500.0 us, 83.3 %":                all * 5 / 6.0,
		"verify, 100.0 us, 16.7 %":                all / 6.0,
		"wait, 300.0 us, 50.0 %":                  all / 2.0,
		"compute, 200.0 us, 33.3 %":               all / 3.0,
		"a window, 700.0 us, 100.0 %":             all,
		"verify, 100.0 us, 14.3 %":                all / 7.0,
		"compute, 600.0 us, 85.7 %":               all * 6 / 7.0,
	} {
		if w, ok := got[name]; !ok || math.Abs(w-want) > 0.1 {
			t.Errorf("box %q is %.1f wide, want %.1f; there are %v", name, w, want, got)
		}
	}
	if len(got) != 9 {
		t.Errorf("boxes %v", got)
	}
}

// TestStagesKnown: every stage says whether it is work.
func TestStagesKnown(t *testing.T) {
	for _, name := range StageNames() {
		if _, ok := stageWork[name]; !ok {
			t.Errorf("nothing is known of stage %s", name)
		}
	}
	if len(stageWork) != len(StageNames()) {
		t.Error("stages without an order")
	}
}
