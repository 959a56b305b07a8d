package benchmark

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

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
