package keyholder

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
)

func sample() *Result {
	return &Result{
		Program: "room-mean", Evaluator: "cloud", Unit: "degC", KeyID: [16]byte{0xab}, Epoch: 2,
		BootEpoch: 3, Sequence: 4,
		Start: time.Unix(1700000000, 500), End: time.Unix(1700000060, 0), Samples: 60,
		Values: []float64{21.5, -0.25}, Bound: 1e-3, ID: [32]byte{1, 2}, Inputs: [][32]byte{{9}},
		Sealed: []byte("sealed"),
	}
}

// What is decoded never fails: values beyond float64 read as the largest one.
func TestApply(t *testing.T) {
	slots := []float64{1, 2, -3, 4}
	const most = math.MaxFloat64
	for _, c := range []struct {
		name string
		out  program.Output
		want []float64
	}{
		{"affine", program.Output{A: 10, B: 1, Slot: 1, Count: 2}, []float64{21, -29}},
		{"root", program.Output{A: 1, Slot: 2, Count: 2, Sqrt: true}, []float64{0, 2}},
		{"last slot", program.Output{A: 1, Slot: 3, Count: 1}, []float64{4}},
		{"overflow", program.Output{A: most, Slot: 1, Count: 2}, []float64{most, -most}},
		{"overflow of the sum", program.Output{A: most, B: most, Slot: 0, Count: 1}, []float64{most}},
		{"root of an overflow", program.Output{A: most, Slot: 3, Count: 1, Sqrt: true}, []float64{math.Sqrt(most)}},
	} {
		if got := c.out.Values(slots); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPromisedOfRoots: the bound of a root is that of its value: the large one near 0, and
// away from it about the argument's error over twice the root; of several values the
// largest counts.
func TestPromisedOfRoots(t *testing.T) {
	const e = 1e-12
	out := &program.Output{Sqrt: true, Root: e, Bound: math.Sqrt(e)}
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{0}, 1e-6}, {[]float64{2}, e / 4}, {[]float64{2, 0.5, 100}, e}} {
		if got := promised(out, c.values); math.Abs(got-c.want) > c.want/50 {
			t.Errorf("%v: promised %g, want about %g", c.values, got, c.want)
		}
	}
	if got := promised(&program.Output{Bound: 3}, []float64{100, 200}); got != 3 {
		t.Errorf("without a root: %g", got)
	}
}

func TestWriterNDJSON(t *testing.T) {
	var b strings.Builder
	w, err := NewWriter(&b, "ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Write(sample()); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	var got resultJSON
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Program != "room-mean" || got.KeyID != "ab000000000000000000000000000000" || got.Values[1] != -0.25 ||
		len(got.Inputs) != 1 || !got.Start.Equal(time.Unix(1700000000, 500)) {
		t.Errorf("got %+v", got)
	}
}

func TestWriterCSV(t *testing.T) {
	var b strings.Builder
	w, err := NewWriter(&b, "csv")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Write(sample()); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 5 || lines[0] != strings.Join(csvHeader, ",") {
		t.Fatalf("got %q", lines)
	}
	want := "room-mean,cloud,2,3,4,2023-11-14T22:13:20.0000005Z,2023-11-14T22:14:20Z,60,1,-0.25,0.001,degC,01020000"
	if !strings.HasPrefix(lines[2], want) {
		t.Errorf("got  %s\nwant %s...", lines[2], want)
	}
	if _, err := NewWriter(&b, "xml"); err == nil {
		t.Error("xml was accepted")
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		path, err := sample().Save(dir)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != "sealed" || filepath.Base(path) != "room-mean-cloud-3-4.cose" {
			t.Errorf("%s holds %q, %v", path, b, err)
		}
	}
	if _, err := sample().Save(filepath.Join(dir, "absent")); err == nil {
		t.Error("saved into a directory that does not exist")
	}
}
