package benchmark

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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

// tenth is a number with three digits at least.
func tenth(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
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
