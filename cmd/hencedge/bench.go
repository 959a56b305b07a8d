//go:build !evaluatoronly

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
	backend, device      string
	read, plot           string
	markdown             bool
	insecure, cached     bool
	table                bool
	minTime              time.Duration
	n2, workers, memory  int
	batch                int
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:         "bench",
		Annotations: map[string]string{openMemory: ""},
		Short:       "time every kernel and operation",
		Long: `bench times every operation of every parameter set. It compares what each timed
kernel computed with an independent computation, and fails if they differ.

Inputs are random and rotate through more than twice the last-level cache. A warm-up
comes first; the median over all timed calls is reported. "of copy" is the time divided
by that of copying the same bytes: the distance to the memory's limit.
docs/benchmarks.md describes the method.

On a GPU, times come from events on the device around runs of calls. The host's time
for one call stands beside them. --table measures the shapes of the table in
docs/benchmarks.md, and is the default for --backend cuda without --op and --params. It
includes N = 2^16, whose parameters are insecure and whose keys protect nothing. Every
result is compared with the processor's, bit for bit. The kernels that ran are listed
with registers, spills and occupancy.

operations: ` + strings.Join(benchmark.Ops(), " "),
		Example: `  hencedge bench --params edge13-d3
  hencedge bench --op ntt,hadamard --json
  hencedge bench --backend cuda --json
  hencedge bench --backend cuda --params edge13-d2p
  hencedge bench --params bench-paper16-insecure --insecure --op hmult`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("table") {
				f.table = f.backend == "cuda" && len(f.ops) == 0 && len(f.params) == 0
			}
			return a.bench(cmd, f)
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.ops, "op", nil, "operations to time (default all)")
	fs.StringSliceVar(&f.params, "params", nil, "parameter sets (default all secure ones)")
	fs.StringSliceVar(&f.methods, "method", nil,
		"Hadamard methods: schoolbook, lazy, karatsuba, toomcook4 (default all)")
	fs.StringVar(&f.backend, "backend", arith.Auto, arith.Help)
	fs.StringVar(&f.device, "device", arith.Auto,
		"GPU to use: auto (the first), its number or its identifier (GPU-...)")
	fs.BoolVar(&f.insecure, "insecure", false, "allow the insecure benchmark set, and include it in the default")
	fs.BoolVar(&f.table, "table", false, "measure the table of docs/benchmarks.md, restricted by --op and --params "+
		"(default for --backend cuda without them)")
	fs.BoolVar(&f.cached, "cached", false, "use the same inputs for every call, so that they stay in the cache")
	fs.DurationVar(&f.minTime, "min-time", 300*time.Millisecond, "shortest time spent on timed calls of a case")
	fs.IntVar(&f.n2, "n2", henc.DefaultN2, "columns of the transposed layout: 1, 2, 4, 8 or 16")
	fs.IntVar(&f.batch, "batch", 1,
		"ciphertexts per call, for hmult, hmult_rescale, hrotate, rescale, bootstrap and henc")
	fs.IntVar(&f.workers, "workers", 0, "CPU workers per operation (default all CPUs)")
	fs.IntVar(&f.memory, "memory", 1024, "largest memory for the inputs of a case, in MiB")
	fs.BoolVar(&f.markdown, "markdown", false, "tables in Markdown, without the copies")
	fs.StringVar(&f.read, "read", "", "measure nothing: print the records that --json wrote to a file")
	fs.StringVar(&f.plot, "plot", "", "with --read: draw the records as SVG charts into this directory")
	a.JSONFlag(cmd, "one JSON object a line")
	cmd.AddCommand(a.benchEvaluator())
	return cmd
}

func (a *app) bench(cmd *cobra.Command, f benchFlags) error {
	if f.plot != "" {
		if f.read == "" {
			return cli.UsageHint(cmd, errors.New("--plot: name the records with --read FILE"))
		}
		return benchmark.WritePlots(a.Std.Err, f.read, f.plot)
	}
	if f.read != "" {
		out := benchmark.Report{Out: a.Std.Out, JSON: a.JSON, Markdown: f.markdown}
		return out.Read(f.read)
	}
	o, err := f.options()
	if err != nil {
		return cli.UsageHint(cmd, err)
	}
	out := benchmark.Report{Out: a.Std.Out, JSON: a.JSON, Markdown: f.markdown}
	progress := a.Progress("cases")
	defer progress.Done()
	record := func(r benchmark.Record) error {
		progress.Done() // rows and the bar may share a terminal
		return out.Record(r)
	}
	b, err := backends(f.backend, f.device, a.Remark)
	if err != nil {
		return err
	}
	if f.table {
		if len(f.params) == 0 {
			o.Params = nil // every case
		}
		o.Backend = b.First()
		o.Progress = func(done, total int) { progress.Update(int64(done), int64(total)) }
		if err := benchmark.RunTable(cmd.Context(), o, benchmark.Table(), record); err != nil {
			return err
		}
		progress.Done()
		return out.Kernels(o.Backend)
	}
	var ran []cutrantt.Backend
	for i, p := range o.Params {
		one := o
		one.Progress = func(done, total int) {
			progress.Update(int64(i*total+done), int64(len(o.Params)*total))
		}
		one.Params = []henc.Parameters{p}
		if one.Backend, err = b.For(p); err != nil {
			return err
		}
		if err := benchmark.Run(cmd.Context(), one, record); err != nil {
			return err
		}
		progress.Done()
		if !slices.Contains(ran, one.Backend) {
			ran = append(ran, one.Backend)
		}
	}
	for _, b := range ran {
		if err := out.Kernels(b); err != nil {
			return err
		}
	}
	return nil
}

// options checks the flags.
func (f benchFlags) options() (benchmark.Options, error) {
	o := benchmark.Options{Ops: f.ops, N2: f.n2, Batch: f.batch, Workers: f.workers, MinTime: f.minTime,
		Cached: f.cached, MaxBytes: int64(f.memory) << 20}
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
	if f.batch < 1 || f.batch > 4096 {
		return o, fmt.Errorf("--batch %d: use 1 to 4096", f.batch)
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
		if f.insecure || f.table {
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
