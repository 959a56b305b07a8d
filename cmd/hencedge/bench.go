package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/benchmark"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

type benchFlags struct {
	ops, params, methods []string
	backend              string
	insecure, cached     bool
	minTime              time.Duration
	n2, workers, memory  int
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "time every kernel and operation",
		Long: `bench times every operation of every parameter set and checks what each timed
kernel computed against an independent path; a wrong result ends it with an error.

Inputs are random and rotate through sets larger than twice the last-level cache,
calls before the clock starts warm up, and the median over all timed calls is
reported. "of copy" is the time divided by that of a copy of the same bytes: the
distance to the memory's limit. docs/benchmarks.md describes the method.

operations: ` + strings.Join(benchmark.Ops(), " "),
		Example: `  hencedge bench --params edge13-d3
  hencedge bench --op ntt,hadamard --json
  hencedge bench --backend cuda --params edge13-d2p
  hencedge bench --params bench-paper16-insecure --insecure --op hmult`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd, f) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.ops, "op", nil, "operations to time (default all)")
	fs.StringSliceVar(&f.params, "params", nil, "parameter sets (default all secure ones)")
	fs.StringSliceVar(&f.methods, "method", nil, "Hadamard methods: schoolbook, lazy, karatsuba, toomcook4 (default all)")
	fs.StringVar(&f.backend, "backend", arith.Auto, arith.Help)
	fs.BoolVar(&f.insecure, "insecure", false, "allow the insecure benchmark set, and include it in the default")
	fs.BoolVar(&f.cached, "cached", false, "use one set of inputs again and again, so that it stays in the cache")
	fs.DurationVar(&f.minTime, "min-time", 300*time.Millisecond, "least time spent on timed calls of a case")
	fs.IntVar(&f.n2, "n2", henc.DefaultN2, "columns of the transposed layout: 1, 2, 4, 8 or 16")
	fs.IntVar(&f.workers, "workers", 0, "CPU workers per operation (default all CPUs)")
	fs.IntVar(&f.memory, "memory", 1024, "most memory for the inputs of a case, in MiB")
	a.jsonFlag(cmd, "one JSON object a line")
	return cmd
}

func (a *app) bench(cmd *cobra.Command, f benchFlags) error {
	o, err := f.options()
	if err != nil {
		return usageHint(cmd, err)
	}
	emit := func(r benchmark.Record) error { return cli.JSONLine(a.std.Out, r) }
	if !a.json {
		t := benchTable{app: a, copies: map[string]float64{}}
		emit = t.emit
	}
	b, err := backends(f.backend, a.remark)
	if err != nil {
		return err
	}
	for _, p := range o.Params {
		one := o
		one.Params = []henc.Parameters{p}
		if one.Backend, err = b.For(p); err != nil {
			return err
		}
		if err := benchmark.Run(cmd.Context(), one, emit); err != nil {
			return err
		}
	}
	return nil
}

// options checks the flags.
func (f benchFlags) options() (benchmark.Options, error) {
	o := benchmark.Options{Ops: f.ops, N2: f.n2, Workers: f.workers, MinTime: f.minTime, Cached: f.cached, MaxBytes: int64(f.memory) << 20}
	for _, op := range f.ops {
		if !slices.Contains(benchmark.Ops(), op) {
			return o, fmt.Errorf("--op %q: use %s", op, strings.Join(benchmark.Ops(), ", "))
		}
	}
	for _, name := range f.methods {
		i := slices.IndexFunc(cutrantt.Methods(), func(m cutrantt.Method) bool { return m.String() == name })
		if i < 0 {
			return o, fmt.Errorf("--method %q: use schoolbook, lazy, karatsuba or toomcook4", name)
		}
		o.Methods = append(o.Methods, cutrantt.Methods()[i])
	}
	if !cutrantt.NTT(f.n2).Valid() || f.n2 > cutrantt.MaxN2 {
		return o, fmt.Errorf("--n2 %d: use 1, 2, 4, 8 or 16", f.n2)
	}
	if f.minTime <= 0 || f.memory <= 0 || f.workers < 0 {
		return o, errors.New("--min-time and --memory must be above zero, --workers at least zero")
	}
	names := f.params
	if len(names) == 0 {
		names = henc.Names()
		if f.insecure {
			names = append(names, henc.InsecureNames()...)
		}
	}
	for _, name := range names {
		get := henc.Named
		if f.insecure {
			get = henc.NamedInsecure
		}
		p, err := get(name)
		if errors.Is(err, henc.ErrSecurity) {
			return o, fmt.Errorf("--params %s: %w; add --insecure", name, err)
		}
		if err != nil {
			return o, fmt.Errorf("--params %s: %w", name, err)
		}
		o.Params = append(o.Params, p)
	}
	return o, nil
}

// benchTable prints records for people: one block per parameter set, and each
// time beside that of a copy of the same bytes.
type benchTable struct {
	app    *app
	table  *cli.Table
	device string // of the block
	params string
	copies map[string]float64 // microseconds a byte of the copy with an operation's traffic
}

func (t *benchTable) emit(r benchmark.Record) error {
	out := t.app.std.Out
	if r.Device != t.device {
		t.device = r.Device
		fmt.Fprintf(out, "backend %s (%s), %d workers, n2 = %d, inputs from %s\n", r.Backend, r.Device, r.Workers, r.N2, r.Resident)
	}
	if t.table == nil {
		t.table = cli.NewTable(out,
			cli.Column{Title: "op", Width: 12}, cli.Column{Title: "method", Width: 16}, cli.Column{Title: "limbs", Right: true},
			cli.Column{Title: "median", Width: 11, Right: true}, cli.Column{Title: "p95", Width: 11, Right: true}, cli.Column{Title: "min", Width: 11, Right: true},
			cli.Column{Title: "traffic", Width: 10, Right: true}, cli.Column{Title: "of copy", Width: 8, Right: true}, cli.Column{Title: "calls", Width: 6, Right: true})
	}
	if r.Params != t.params {
		t.params, t.copies = r.Params, map[string]float64{}
		fmt.Fprintf(out, "\n%s  (N = 2^%d, dnum %d)\n", r.Params, r.LogN, r.Dnum)
		if err := t.table.Header(); err != nil {
			return err
		}
	}
	ratio := ""
	if r.Op == "copy" {
		t.copies[r.Method] = r.MedianUS / float64(r.Bytes)
	} else if c := t.copies[r.Op]; c > 0 {
		ratio = fmt.Sprintf("%.1f", r.MedianUS/float64(r.Bytes)/c)
	}
	return t.table.Row(r.Op, r.Method, fmt.Sprint(r.Limbs), micros(r.MedianUS), micros(r.P95US), micros(r.MinUS), cli.Bytes(r.Bytes), ratio, fmt.Sprint(r.Iters))
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
