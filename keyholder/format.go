package keyholder

import (
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Formats returns the formats that NewWriter knows.
func Formats() []string { return []string{"ndjson", "csv"} }

// A Writer writes results one after another.
type Writer interface {
	Write(*Result) error
}

// NewWriter returns a Writer to w. "ndjson" is one JSON object per line; "csv" is a header
// and one row per value. Each result is written immediately.
func NewWriter(w io.Writer, format string) (Writer, error) {
	switch format {
	case "ndjson":
		return ndjsonWriter{json.NewEncoder(w)}, nil
	case "csv":
		return &csvWriter{w: csv.NewWriter(w)}, nil
	}
	return nil, fmt.Errorf("unknown format %q: use ndjson or csv", format)
}

type ndjsonWriter struct{ e *json.Encoder }

func (n ndjsonWriter) Write(r *Result) error { return n.e.Encode(r) }

type csvWriter struct {
	w      *csv.Writer
	header bool
}

// csvHeader names the columns. A result with several values has several rows, which differ
// in index and value.
var csvHeader = []string{"program", "evaluator", "epoch", "boot_epoch", "sequence", "start", "end", "samples",
	"index", "value", "bound", "unit", "id", "device", "devices"}

func (c *csvWriter) Write(r *Result) error {
	if !c.header {
		c.header = true
		if err := c.w.Write(csvHeader); err != nil {
			return err
		}
	}
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	samples, devices := uint64(r.Samples), ""
	if f := r.Fleet; f != nil {
		samples, devices = f.Samples, strconv.FormatUint(uint64(f.Devices), 10)
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	for i, v := range r.Values {
		err := c.w.Write([]string{
			r.Program, r.Evaluator, strconv.FormatUint(uint64(r.Epoch), 10),
			strconv.FormatUint(r.BootEpoch, 10), strconv.FormatUint(r.Sequence, 10),
			at(r.Start), at(r.End), strconv.FormatUint(samples, 10),
			strconv.Itoa(i), num(v), num(r.Bound), r.Unit, hex.EncodeToString(r.ID[:]), r.Device, devices,
		})
		if err != nil {
			return err
		}
	}
	c.w.Flush()
	return c.w.Error()
}
