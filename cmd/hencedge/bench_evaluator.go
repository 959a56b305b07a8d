//go:build !evaluatoronly

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/benchmark"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/loadbench"
	"github.com/hencedge/hencedge/henc"
)

const loadText = `evaluator feeds a whole evaluator service with signed, encrypted windows of many
devices, each with its own signing key and its own data, and counts what comes out:
windows and results a second, the latency from the last chunk of a window to the last
chunk of its result, processor time, traffic, and the time in each stage of the service.

Windows reach the service in process, without a network, or through a broker: --broker
embedded runs one in this process, --broker URL takes yours.

What is prepared: --windows ciphertexts for each device. The evaluator takes no window
twice, so they are signed again and again with new numbers, before the clock starts and
as many at a time as three quarters of the rest of --memory hold. The last quarter is for
results that wait to be decrypted. A load that needs more windows is measured in several
parts.

What is checked: every result is counted, and its header compared with its program; one
that is lost, doubled or unknown ends the run with exit code 1. All results are
decrypted and compared with the plaintext answer, or, where that would take longer than
the load, one in so many of each device and program (check_every). An error beyond its
promise ends the run.

--programs names a file with the part "programs" of an evaluator.yaml. Every device has
the stream "load" with the channels x, y, z, c4, c5 and so on. A program with inputs like
device/load/x runs once for each device; one of dev-00001/load/x runs once. Without a
file each device has mean(x), var(x) and cov(x, y).

--places N makes the devices a class whose windows share ciphertexts: the evaluator adds up
windows of up to N devices, each at another place in the slots, and computes them as one.
All channels of a window must fit into an Nth part of the slots.

--rate half measures at the highest rate and then at half of it, where latency says
more than about queues: two records. docs/lab/evaluator.md explains the records;
"hencedge bench --read FILE --plot DIR" draws them.`

func (a *app) benchEvaluator() *cobra.Command {
	o := loadbench.Options{}
	var params, rate, backendName, devices string
	var seconds float64
	var memory int
	cmd := &cobra.Command{
		Use:   "evaluator",
		Short: "an evaluator under load, every result checked",
		Long:  loadText,
		Example: `  hencedge bench evaluator
  hencedge bench evaluator --backend cuda --workers 32 --seconds 20 --memory 32768 --json
  hencedge bench evaluator --params edge12-d1 --seeded --devices 64 --rate half
  hencedge bench evaluator --devices 64 --pack 256
  hencedge bench evaluator --devices 64 --places 8
  hencedge bench evaluator --params boot15 --compact 12 --samples 64 --channels 1 --devices 64
  hencedge bench evaluator --broker tcp://127.0.0.1:1883 --programs programs.yaml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			o.Length, o.Memory = time.Duration(seconds*float64(time.Second)), int64(memory)<<20
			if o.Params, err = henc.Named(params); err != nil {
				return cli.UsageHint(cmd, fmt.Errorf("--params %s: %w", params, err))
			}
			if o.Rate, o.Half, err = offeredRate(rate); err != nil {
				return cli.UsageHint(cmd, err)
			}
			return a.loadEvaluator(cmd, o, backendName, devices)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&o.Devices, "devices", 8, "devices that send")
	fs.StringVar(&params, "params", "edge13-d3", "parameter set")
	fs.StringVar(
		&o.Programs,
		"programs",
		"",
		"file of programs (default mean(x), var(x), cov(x, y) of each device)",
	)
	fs.StringVar(&backendName, "backend", arith.Auto, arith.Help)
	fs.StringVar(&devices, "device", arith.Auto, arith.DeviceHelp)
	fs.Float64Var(&seconds, "seconds", 10, "measured time of each load")
	fs.StringVar(&o.Broker, "broker", "", "embedded, or the URL of a broker (default in process)")
	fs.IntVar(&o.Workers, "workers", 0, "results evaluated at a time (default one per CPU)")
	fs.IntVar(&o.Windows, "windows", 4, "different ciphertexts of each device")
	fs.BoolVar(&o.Seeded, "seeded", false, "windows with a seed in place of half of the ciphertext")
	fs.IntVar(&o.Compact, "compact", 0,
		"compact windows of this precision, 12 or 16 bits, with --params boot15 or boot16")
	fs.IntVar(&o.Pack, "pack", 0, "results that share a ciphertext, at most: 2 to 256 (default each its own)")
	fs.IntVar(&o.Places, "places", 0,
		"devices of one class whose windows share a ciphertext, a power of two (default the devices are of no class)")
	fs.DurationVar(&o.Within, "within", time.Second, "with --pack, how long a result waits for others")
	fs.IntVar(&o.Samples, "samples", 256, "samples of a window, per channel")
	fs.IntVar(&o.Channels, "channels", 2, "channels of a window")
	fs.StringVar(
		&rate,
		"rate",
		"max",
		"windows per second to offer: a number, max, or half (max, then half of what it was)",
	)
	fs.IntVar(&memory, "memory", 0,
		"MiB for ciphertexts, signed windows and kept results (default an eighth of this machine, 256 to 16384)")
	fs.StringVar(&o.Profile, "profile", "", "write a processor profile of the load to this file (go tool pprof)")
	a.JSONFlag(cmd, "one JSON object for each load")
	return cmd
}

// offeredRate reads --rate.
func offeredRate(text string) (rate float64, half bool, err error) {
	switch text {
	case "max":
		return 0, false, nil
	case "half":
		return 0, true, nil
	}
	rate, err = strconv.ParseFloat(text, 64)
	if err != nil || !(rate > 0) {
		return 0, false, fmt.Errorf("--rate %q: use max, half or a number of windows per second", text)
	}
	return rate, false, nil
}

// loadEvaluator runs the load on the backend that was asked for.
func (a *app) loadEvaluator(cmd *cobra.Command, o loadbench.Options, backendName, devices string) error {
	b, err := backends(backendName, devices, a.Remark)
	if err != nil {
		return err
	}
	chosen, err := b.All(o.Params)
	if err != nil {
		return err
	}
	if o.GPUs, err = arith.GPUs(chosen); err != nil {
		return err
	}
	o.Context, o.More, o.Reopen, o.Remark = contextOn(b), moreContexts(b), reopen, a.Remark
	if !cmd.Flags().Changed("log-level") { // the table is the output
		a.LogLevel = slog.LevelError.String()
	}
	if o.Logger, err = a.Logger(); err != nil {
		return err
	}
	p := a.Progress("ms of load")
	defer p.Done()
	o.Progress = func(done, total time.Duration) { p.Update(done.Milliseconds(), total.Milliseconds()) }
	first := true
	err = loadbench.Run(cmd.Context(), o, func(r benchmark.LoadRecord) error {
		p.Done() // the record and the bar may share a terminal
		if !first && !a.JSON {
			fmt.Fprintln(a.Std.Out)
		}
		first = false
		out := benchmark.Report{Out: a.Std.Out, JSON: a.JSON}
		return out.Load(r)
	})
	if err != nil && cmd.Context().Err() != nil {
		return errors.New("interrupted; nothing was left behind")
	}
	if errors.Is(err, loadbench.ErrOptions) {
		return cli.UsageHint(cmd, errors.New(strings.TrimPrefix(err.Error(), loadbench.ErrOptions.Error()+": ")))
	}
	return err
}
