package benchmark

import (
	"fmt"
	"io"
	"maps"
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

// markdownRecord prints one row, and the head of the table before the first.
// Copies are left out: they are in "of copy".
func (t *Report) markdownRecord(r Record) error {
	if r.Op == "copy" {
		return nil
	}
	out := t.Out
	if t.device == "" {
		t.device = r.Device
		fmt.Fprintf(out, "%s, %d host workers; microseconds.\n\n", r.Device, r.Workers)
		fmt.Fprintln(out, "| operation | parameters | n2 | limbs | batch | median | p95 | of copy | kernels | host "+
			"clock |")
		fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|")
	}
	op := r.Op
	if !strings.HasPrefix(r.Method, "n2=") && r.Method != "auto" {
		op += ", " + r.Method
	}
	ratio, launches, median, p95, wall := "", "", tenth(r.MedianUS), tenth(r.P95US), ""
	if r.OfCopy > 0 {
		ratio = tenth(r.OfCopy)
	}
	if r.Launches > 0 {
		launches = fmt.Sprintf("%.0f", r.Launches)
	}
	switch {
	case r.Clock == ClockHost:
		median, p95, wall = "", "", tenth(r.MedianUS)+" (p95 "+tenth(r.P95US)+")"
		for _, part := range slices.Sorted(maps.Keys(r.Split)) {
			wall += ", " + part + " " + tenth(r.Split[part])
		}
	case r.WallUS > 0:
		wall = tenth(r.WallUS)
	}
	_, err := fmt.Fprintf(out, "| %s | %s | %d | %d | %d | %s | %s | %s | %s | %s |\n", op, r.Params, r.N2, r.Limbs,
		r.Batch, median, p95, ratio, launches, wall)
	return err
}

// markdownCompiled prints kernels and choices.
func (t *Report) markdownCompiled(ks []KernelRecord, choices []ChoiceRecord) error {
	out := t.Out
	if len(ks) > 0 {
		fmt.Fprintln(out, "\n| kernel | registers | local bytes | shared bytes | threads | blocks a multiprocessor | "+
			"occupancy |")
		fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	}
	for _, k := range ks {
		if _, err := fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %.0f %% |\n", k.Method,
			k.Registers, k.LocalBytes,
			k.SharedBytes, k.Threads, k.Blocks, 100*k.Occupancy); err != nil {
			return err
		}
	}
	var list []string
	for _, c := range choices {
		list = append(list, fmt.Sprintf("2^%d with n2 = %d %s (%s)", c.LogN, c.N2, c.Method, c.Source))
	}
	if len(list) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "\nProducts: %s.\n", strings.Join(list, ", "))
	return err
}

// tenth is a number with three digits at least.
func tenth(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
