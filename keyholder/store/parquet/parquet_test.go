package parquet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

var update = flag.Bool("update", false, "rewrite testdata/results.parquet")

// results are some of every kind.
func results() []*keyholder.Result {
	start := time.Date(2026, 11, 23, 12, 0, 0, 123456789, time.UTC)
	return []*keyholder.Result{
		{Program: "mean", Evaluator: "cloud", Unit: "°C", Epoch: 1, BootEpoch: 1 << 40, Sequence: 7, Start: start,
			End: start.Add(time.Minute), Samples: 60, Values: []float64{21.5}, Bound: 1e-3, ID: [32]byte{1}},
		{Program: "row", Device: "board7", Evaluator: "cloud", Epoch: 2, Start: start.Add(-60 * 365 * 24 * time.Hour),
			End: start, Values: []float64{-1, 0, 1. / 3}, Bound: 0.5, ID: [32]byte{0xff}},
		{Program: "fleet", Evaluator: "cloud", Start: start, End: start, Values: []float64{1e300},
			Fleet: &transport.Fleet{Devices: 5, Samples: 1 << 40}},
	}
}

func write(t *testing.T, list []*keyholder.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, r := range list {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(list[0]); err == nil {
		t.Error("a closed file takes results")
	}
	return b.Bytes()
}

// row is what the independent reader prints.
type row struct {
	Program, Evaluator, Unit, ID, Device     string
	Epoch, Sequence, Samples, Index, Devices int64
	BootEpoch                                int64 `json:"boot_epoch"`
	Start                                    int64 `json:"start_ns"`
	End                                      int64 `json:"end_ns"`
	Value, Bound                             float64
}

// An independent reader finds what was written, in several row groups.
func TestRead(t *testing.T) {
	python := testenv.Program(t, "python3", "python3")
	list := results()
	for len(list) < groupRows+100 {
		list = append(list, results()[0])
	}
	path := filepath.Join(t.TempDir(), "results.parquet")
	if err := os.WriteFile(path, write(t, list), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "read.py", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bytes.NewReader(out))
	n := 0
	for _, r := range list {
		for i, v := range r.Values {
			want := row{Program: r.Program, Evaluator: r.Evaluator, Unit: r.Unit, ID: hex.EncodeToString(r.ID[:]),
				Device: r.Device, Epoch: int64(r.Epoch), BootEpoch: int64(r.BootEpoch), Sequence: int64(r.Sequence),
				Samples: int64(r.Samples), Index: int64(i), Start: r.Start.UnixNano(), End: r.End.UnixNano(), Value: v,
				Bound: r.Bound}
			if f := r.Fleet; f != nil {
				want.Devices, want.Samples = int64(f.Devices), int64(f.Samples)
			}
			var got row
			if err := lines.Decode(&got); err != nil || got != want {
				t.Fatalf("row %d: %+v, %v, want %+v", n, got, err, want)
			}
			n++
		}
	}
	if lines.More() {
		t.Error("there are more rows")
	}
}

// The bytes of testdata/results.parquet, which other readers have read (docs/results.md), stay.
func TestBytes(t *testing.T) {
	const path = "testdata/results.parquet"
	got := write(t, results())
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
	var none bytes.Buffer
	if err := NewWriter(&none).Close(); err != nil || none.Len() < 100 {
		t.Error(none.Len(), err)
	}
}

// The error of a full disk is told, and stays.
func TestFull(t *testing.T) {
	full := errors.New("full")
	w := NewWriter(writer(func([]byte) (int, error) { return 0, full }))
	if err := w.Write(results()[0]); !errors.Is(err, full) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, full) {
		t.Error(err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
