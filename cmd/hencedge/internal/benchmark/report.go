package benchmark

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cutrantt"
)

// Report prints records as they come: one JSON object a line, or tables for people, one
// block per parameter set.
type Report struct {
	Out      io.Writer
	JSON     bool // one JSON object a line
	Markdown bool // tables in Markdown

	table  *cli.Table
	device string // of the block
	params string
}

// Record prints one case.
func (t *Report) Record(r Record) error {
	out := t.Out
	if t.JSON {
		return cli.JSONLine(out, r)
	}
	if t.Markdown {
		return t.markdownRecord(r)
	}
	if r.Device != t.device {
		t.device = r.Device
		fmt.Fprintf(out, "backend %s (%s), %d workers, inputs from %s\n", r.Backend, r.Device, r.Workers, r.Resident)
	}
	if t.table == nil {
		t.table = cli.NewTable(out,
			cli.Column{Title: "op", Width: 13}, cli.Column{Title: "method", Width: 21},
			cli.Column{Title: "n2", Width: 2, Right: true}, cli.Column{Title: "limbs", Right: true},
			cli.Column{Title: "batch", Right: true}, cli.Column{Title: "median", Width: 10, Right: true},
			cli.Column{Title: "p95", Width: 10, Right: true},
			cli.Column{Title: "min", Width: 10, Right: true}, cli.Column{Title: "clock", Width: 6},
			cli.Column{Title: "call", Width: 10, Right: true},
			cli.Column{Title: "traffic", Width: 10, Right: true}, cli.Column{Title: "of copy", Width: 7, Right: true},
			cli.Column{Title: "launches", Width: 8, Right: true}, cli.Column{Title: "calls", Width: 6, Right: true})
	}
	if r.Params != t.params {
		t.params = r.Params
		fmt.Fprintf(out, "\n%s  (N = 2^%d, dnum %d)\n", r.Params, r.LogN, r.Dnum)
		if err := t.table.Header(); err != nil {
			return err
		}
	}
	ratio, call, launches := "", "", ""
	if r.OfCopy > 0 {
		ratio = fmt.Sprintf("%.1f", r.OfCopy)
	}
	if r.WallUS > 0 {
		call = micros(r.WallUS)
	}
	if r.Launches > 0 {
		launches = fmt.Sprintf("%.0f", r.Launches)
	}
	err := t.table.Row(r.Op, r.Method, fmt.Sprint(r.N2), fmt.Sprint(r.Limbs), fmt.Sprint(r.Batch), micros(r.MedianUS),
		micros(r.P95US), micros(r.MinUS),
		r.Clock, call, cli.Bytes(r.Bytes), ratio, launches, fmt.Sprint(r.Iters))
	if err != nil || len(r.Split) == 0 {
		return err
	}
	var parts []string
	for name, us := range r.Split {
		parts = append(parts, name+" "+micros(us))
	}
	slices.Sort(parts)
	_, err = fmt.Fprintf(out, "  of which %s\n", strings.Join(parts, ", "))
	return err
}

// Kernels prints what is known of the kernels of b that ran, and of its choices.
func (t *Report) Kernels(b cutrantt.Backend) error {
	ks, choices, err := Kernels(b)
	if err != nil {
		return err
	}
	return t.compiled(ks, choices)
}

// Read prints records that an earlier run wrote with --json.
func (t *Report) Read(file string) error {
	rs, err := readRecords(file)
	if err != nil {
		return err
	}
	for _, r := range rs.cases {
		if err := t.Record(r); err != nil {
			return err
		}
	}
	for _, r := range rs.loads {
		if err := t.Load(r); err != nil {
			return err
		}
	}
	return t.compiled(rs.kernels, rs.choices)
}

// records is what "bench --json" wrote, by kind.
type records struct {
	cases   []Record
	loads   []LoadRecord
	kernels []KernelRecord
	choices []ChoiceRecord
}

// readRecords reads a file of records.
func readRecords(file string) (*records, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--read: %w", err)
	}
	defer f.Close()
	rs := new(records)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := rs.add(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("--read: %s:%d: not a record of bench --json: %w", file, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--read: %s: %w", file, err)
	}
	return rs, nil
}

// add reads one line.
func (rs *records) add(line []byte) error {
	var kind struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return err
	}
	switch kind.Op {
	case "kernel":
		var k KernelRecord
		err := json.Unmarshal(line, &k)
		rs.kernels = append(rs.kernels, k)
		return err
	case OpEvaluator:
		var l LoadRecord
		err := json.Unmarshal(line, &l)
		rs.loads = append(rs.loads, l)
		return err
	case "choice":
		var c ChoiceRecord
		err := json.Unmarshal(line, &c)
		rs.choices = append(rs.choices, c)
		return err
	}
	if !slices.Contains(Ops(), kind.Op) {
		return fmt.Errorf("no operation %q", kind.Op)
	}
	var r Record
	err := json.Unmarshal(line, &r)
	rs.cases = append(rs.cases, r)
	return err
}

// WritePlots draws the records of a file into a directory, which it makes, and tells on w
// what it wrote.
func WritePlots(w io.Writer, file, dir string) error {
	rs, err := readRecords(file)
	if err != nil {
		return err
	}
	all := append(Plot(rs.cases), PlotLoads(rs.loads)...)
	if len(all) == 0 {
		return fmt.Errorf("--plot: %s has no timed operation", file)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	for _, c := range all {
		path := filepath.Join(dir, c.Name+".svg")
		if err := os.WriteFile(path, c.SVG, 0o644); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
		fmt.Fprintln(w, "wrote", path)
	}
	return nil
}

// compiled prints kernels and choices.
func (t *Report) compiled(ks []KernelRecord, choices []ChoiceRecord) error {
	out := t.Out
	if t.JSON {
		for _, k := range ks {
			if err := cli.JSONLine(out, k); err != nil {
				return err
			}
		}
		for _, c := range choices {
			if err := cli.JSONLine(out, c); err != nil {
				return err
			}
		}
		return nil
	}
	if t.Markdown {
		return t.markdownCompiled(ks, choices)
	}
	if len(ks) > 0 {
		fmt.Fprintf(out, "\nkernels of %s\n", ks[0].Device)
		table := cli.NewTable(out, cli.Column{Title: "kernel", Width: 22}, cli.Column{Title: "sm", Right: true},
			cli.Column{Title: "registers", Right: true},
			cli.Column{Title: "local B", Right: true}, cli.Column{Title: "shared B", Right: true},
			cli.Column{Title: "threads", Right: true},
			cli.Column{Title: "blocks/SM", Right: true}, cli.Column{Title: "occupancy", Right: true},
			cli.Column{Title: "launches", Width: 9, Right: true})
		if err := table.Header(); err != nil {
			return err
		}
		for _, k := range ks {
			if err := table.Row(k.Method, fmt.Sprint(k.Architecture), fmt.Sprint(k.Registers), fmt.Sprint(k.LocalBytes),
				fmt.Sprint(k.SharedBytes),
				fmt.Sprint(k.Threads), fmt.Sprint(k.Blocks), fmt.Sprintf("%.0f %%", 100*k.Occupancy),
				fmt.Sprint(k.Launches)); err != nil {
				return err
			}
		}
	}
	for _, c := range choices {
		if _, err := fmt.Fprintf(out, "products for N = 2^%d, n2 = %d: %s (%s)\n", c.LogN, c.N2, c.Method,
			c.Source); err != nil {
			return err
		}
	}
	return nil
}

func micros(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.3f s", us/1e6)
	case us >= 1e4:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.1f us", us)
}
